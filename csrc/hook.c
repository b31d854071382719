/* noclobber-hook HARNESS: what a harness calls before and after its tools.
 *
 * A harness waits for it at every tool call: a Python that starts anew would
 * take longer than most tools do. So this only carries the event to the daemon
 * and its answer back. Where there is no answer the person has to learn of it,
 * each harness in its own way, and nothing may hang. */
#include "hook.h"
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 2000 /* from the event to its answer */
#define EVENT_MS 2000  /* that a harness may take for a piece of its event */
#define START_MS 8000  /* to start a daemon: harnesses wait for 10 s */

/* As harnesses have them: what a person is told of; what stops the tool. */
#define EXIT_TOLD 1
#define EXIT_BLOCKED 2

static const char help[] =
    "Usage: noclobber-hook claude|gemini|codex|cursor\n"
    "Answer one event of that harness, which is read from stdin. To be named "
    "in\n"
    "the harness's settings; `noclobber install` does.\n";

static int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
put_all(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t done = write(fd, text, size);
        if (done < 0 && errno != EINTR)
            return;
        if (done > 0) {
            text += done;
            size -= (size_t)done;
        }
    }
}

/* The same as a string of JSON holds it; what would need an escape is none of
 * ours. */
static char *
plain(const char *words)
{
    char *copy = nc_joined(words, "");
    for (char *c = copy; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' ||
            (unsigned char)*c > '~')
            *c = '?';
    return copy;
}

/* Nobody judges this event. Cursor takes anything but JSON for a refusal; the
 * others take no answer for a leave. */
__attribute__((noreturn)) static void
unanswered(const char *harness, const struct nc_event *event,
           const char *socket, const char *why)
{
    bool stops = nc_replaces(event, harness) && !nc_fails_open(socket, false);
    char line[PATH_MAX + 600];
    snprintf(line, sizeof line, "noclobber: %s; %s", why,
             stops ? "nothing is replaced before it answers "
                     "(NOCLOBBER_FAIL=open lets it pass)"
                   : "this step goes unguarded");
    if (strcmp(harness, "cursor")) {
        put_all(STDERR_FILENO, line, strlen(line));
        put_all(STDERR_FILENO, "\n", 1);
        _exit(stops ? EXIT_BLOCKED : EXIT_TOLD);
    }
    char answer[2 * sizeof line + 200];
    const char *words = plain(line);
    snprintf(answer, sizeof answer,
             "{%s\"user_message\": \"%s\", \"userMessage\": \"%s\"}\n",
             stops ? "\"permission\": \"deny\", " : "", words, words);
    put_all(STDOUT_FILENO, answer, strlen(answer));
    _exit(0);
}

/* Send a record, and a descriptor with its first byte where `passed` is one. */
static int
send_with(int fd, const void *data, size_t size, int passed)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    struct iovec piece = {(void *)(uintptr_t)data, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (passed < 0)
        return nc_send(fd, data, size);
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(header), &passed, sizeof passed);
    for (int64_t end = now_ms() + NC_SEND_MS;;) {
        ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0)
            return nc_send(fd, (const char *)data + sent, size - (size_t)sent);
        int64_t left = end - now_ms();
        if (errno == EAGAIN && left > 0) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, (int)left);
        } else if (errno != EINTR) {
            return -1;
        }
    }
}

static int
receive(int fd, void *out, size_t size, int64_t end)
{
    char *at = out;
    while (size) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left = end - now_ms();
        if (left <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (poll(&ready, 1, (int)left) <= 0)
            continue;
        ssize_t got = recv(fd, at, size, 0);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        } else if (!got) {
            errno = ECONNRESET;
            return -1;
        } else if (errno != EINTR && errno != EAGAIN) {
            return -1;
        }
    }
    return 0;
}

/* One record, malloc'ed, with a NUL behind it; NULL: errno. */
static struct nc_record *
receive_record(int fd, int64_t end)
{
    struct nc_record head;
    if (receive(fd, &head, sizeof head, end) < 0)
        return NULL;
    if (head.version != NC_VERSION || head.size < sizeof head ||
        head.size > NC_RECORD_MAX) {
        errno = EPROTO;
        return NULL;
    }
    struct nc_record *record = nc_alloc(head.size + 1);
    *record = head;
    return receive(fd, record + 1, head.size - sizeof head, end) < 0 ? NULL
                                                                     : record;
}

static char *
append(char *out, const char *text, size_t size)
{
    memcpy(out, text, size);
    return out + size;
}

static int
send_event(int daemon, const struct nc_event *event, const char *harness,
           const char *programs)
{
    const char *session = getenv("NOCLOBBER_SESSION");
    const char *command = getenv("NOCLOBBER_COMMAND");
    const char *variables = getenv("CLAUDE_ENV_FILE");
    bool is_agent = command && !strncmp(command, "agent-", 6);
    char cwd[PATH_MAX];
    if (!session || strlen(session) > NC_ID_MAX)
        session = "";
    if (!getcwd(cwd, sizeof cwd))
        *cwd = 0;
    struct nc_harness hook = {
        .record = {.version = NC_VERSION,
                   .type = NC_HARNESS,
                   .flags =
                       (uint16_t)((variables && *variables ? NC_HAS_VARIABLES
                                                           : 0) |
                                  (is_agent ? 0 : NC_IN_COMMAND))},
        .harness_size = (uint16_t)strlen(harness),
        .session_size = (uint16_t)strlen(session),
        .cwd_size = (uint16_t)strlen(cwd),
        .programs_size = (uint16_t)strlen(programs),
    };
    size_t size = sizeof hook + hook.harness_size + hook.session_size +
                  hook.cwd_size + hook.programs_size;
    size = (size + 7) & ~(size_t)7;
    hook.record.size = (uint32_t)size;
    char *record = nc_alloc(size);
    char *at = append(record, (const char *)&hook, sizeof hook);
    at = append(at, harness, hook.harness_size);
    at = append(at, session, hook.session_size);
    at = append(at, cwd, hook.cwd_size);
    append(at, programs, hook.programs_size);
    int failed = send_with(daemon, record, size, event->fd);
    free(record);
    return failed;
}

/* `path` as it is called without links, malloc'ed; where its last part is not
 * there, by its directory. */
static char *
canonical(const char *path)
{
    char *real = realpath(path, NULL);
    if (real)
        return real;
    char *parent = nc_joined(path, "");
    char *slash = strrchr(parent, '/');
    if (!slash || slash == parent)
        return parent;
    *slash = 0;
    real = realpath(parent, NULL);
    char *made =
        real ? nc_joined(real, strrchr(path, '/')) : nc_joined(path, "");
    free(real);
    free(parent);
    return made;
}

/* The daemon opens no paths of its own: it may see other files by them. */
static int
send_file(int daemon, const struct nc_wanted *wanted)
{
    char *path = nc_alloc(wanted->path_size + 1);
    memcpy(path, wanted + 1, wanted->path_size);
    char *name = canonical(path);
    struct nc_handed handed = {
        .record = {.version = NC_VERSION, .type = NC_HANDED},
        .path_size = (uint32_t)strlen(name),
    };
    /* Where there is no O_PATH, a FIFO must not keep us. */
#ifdef O_PATH
    int fd = open(path, O_PATH | O_CLOEXEC);
#else
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
#endif
    handed.error = fd < 0 ? errno : 0;
    size_t size = (sizeof handed + handed.path_size + 7) & ~(size_t)7;
    handed.record.size = (uint32_t)size;
    char *record = nc_alloc(size);
    append(append(record, (const char *)&handed, sizeof handed), name,
           handed.path_size);
    int failed = send_with(daemon, record, size, fd);
    free(record);
    free(name);
    free(path);
    if (fd >= 0)
        close(fd);
    return failed;
}

/* Tell the harness. */
__attribute__((noreturn)) static void
answer(const struct nc_hooked *hooked)
{
    const char *out = (const char *)(hooked + 1);
    const char *error = out + hooked->out_size;
    const char *variables = error + hooked->error_size;
    const char *file = getenv("CLAUDE_ENV_FILE");
    if (hooked->variables_size && file) {
        int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            nc_quit(EXIT_TOLD, "%s: %s; commands go unguarded", file,
                    strerror(errno));
        put_all(fd, variables, hooked->variables_size);
        close(fd);
    }
    put_all(STDOUT_FILENO, out, hooked->out_size);
    put_all(STDERR_FILENO, error, hooked->error_size);
    _exit(hooked->status);
}

/* Returns where no answer comes, with errno. */
static void
converse(int daemon, const struct nc_event *event, const char *harness,
         const char *programs)
{
    int64_t end = now_ms() + ANSWER_MS;
    if (send_event(daemon, event, harness, programs) < 0)
        return;
    for (;;) {
        struct nc_record *record = receive_record(daemon, end);
        if (!record)
            return;
        const struct nc_wanted *wanted = (const void *)record;
        const struct nc_hooked *hooked = (const void *)record;
        size_t size = record->size;
        if (record->type == NC_WANTED && size >= sizeof *wanted &&
            wanted->path_size <= size - sizeof *wanted) {
            if (send_file(daemon, wanted) < 0)
                return;
        } else if (record->type == NC_HOOKED && size >= sizeof *hooked &&
                   (uint64_t)hooked->out_size + hooked->error_size +
                           hooked->variables_size <=
                       size - sizeof *hooked) {
            answer(hooked);
        } else {
            errno = EPROTO;
            return;
        }
        free(record);
    }
}

int
main(int argc, char **argv)
{
    static const char *const harnesses[] = {"claude", "gemini", "codex",
                                            "cursor"};
    struct nc_event event = {.fd = -1};
    char why[PATH_MAX + 300];
    const char *socket = NULL;
    nc_program = "noclobber-hook";
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        put_all(STDOUT_FILENO, help, strlen(help));
        return 0;
    }
    size_t known = 0;
    while (argc == 2 && known < sizeof harnesses / sizeof *harnesses &&
           strcmp(argv[1], harnesses[known]))
        known++;
    if (argc != 2 || known == sizeof harnesses / sizeof *harnesses)
        nc_quit(EXIT_TOLD, "which harness? claude, gemini, codex or cursor");

    const char *harness = harnesses[known];
    if (nc_take_event(STDIN_FILENO, EVENT_MS, &event) < 0) {
        snprintf(why, sizeof why, "the event could not be read: %s",
                 strerror(errno));
        unanswered(harness, &event, socket, why);
    }
    char *programs = nc_own_directory();
    /* One that was being killed is followed by another. */
    for (int again = 0; again < 2; again++) {
        int daemon =
            nc_find_daemon(programs, &socket, START_MS, why, sizeof why);
        if (daemon < 0)
            break;
        converse(daemon, &event, harness, programs);
        bool hung_up = errno == ECONNRESET || errno == EPIPE;
        snprintf(why, sizeof why,
                 "the guard's daemon gives no answer (%s); "
                 "try `noclobber daemon stop`",
                 strerror(errno));
        close(daemon);
        if (!hung_up)
            break;
    }
    unanswered(harness, &event, socket, why);
}
