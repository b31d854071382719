/* The daemon, from the launcher's side: connect, start it where none runs,
 * tell it of a command. A command must not begin unguarded because the guard
 * was a moment late, and must not wait for ever for one that is ill. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* An address for `socket`, which may be longer than sun_path: then by way of a
 * descriptor of its directory, stored in *directory (else -1). */
static int
address(const char *socket, struct sockaddr_un *out, int *directory)
{
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    *directory = -1;
    if (strlen(socket) < sizeof out->sun_path) {
        strcpy(out->sun_path, socket);
        return 0;
    }
#ifdef O_PATH
    const char *slash = strrchr(socket, '/');
    char *parent = strndup(socket, (size_t)(slash - socket));
    if (!parent)
        return -1;
    *directory = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(parent);
    if (*directory < 0)
        return -1;
    int size = snprintf(out->sun_path, sizeof out->sun_path,
                        "/proc/self/fd/%d%s", *directory, slash);
    if (size > 0 && (size_t)size < sizeof out->sun_path)
        return 0;
    close(*directory);
#endif
    errno = ENAMETOOLONG;
    return -1;
}

/* Nobody else's daemon: what it is told is ours alone. */
static bool
is_ours(int fd)
{
#ifdef SO_PEERCRED
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || geteuid() == 0);
#else
    uid_t uid;
    gid_t gid;
    return getpeereid(fd, &uid, &gid) == 0 &&
           (uid == geteuid() || geteuid() == 0);
#endif
}

int
nc_connect(const char *socket_path, int patience)
{
    struct sockaddr_un where;
    int directory;
    if (address(socket_path, &where, &directory) < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    fd = nc_move_high(fd);
    if (fd >= 0)
        fcntl(fd, F_SETFL, O_NONBLOCK);
    int64_t end = now_ms() + patience;
    int failed = -1;
    /* EAGAIN: more launchers are waiting than the daemon's queue holds. */
    while (fd >= 0 &&
           (failed = connect(fd, (struct sockaddr *)&where, sizeof where)) <
               0 &&
           (errno == EAGAIN || errno == EINTR) && now_ms() < end)
        pause_ms(2);
    if (fd >= 0 && !failed && !is_ours(fd)) {
        errno = EACCES;
        failed = -1;
    }
    int error = errno;
    if (directory >= 0)
        close(directory);
    if (fd >= 0 && failed) {
        close(fd);
        fd = -1;
    }
    errno = error;
    return fd;
}

int
nc_send(int fd, const void *data, size_t size)
{
    const char *bytes = data;
    int64_t end = now_ms() + NC_SEND_MS;
    while (size) {
        ssize_t sent = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN && now_ms() < end) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, (int)(end - now_ms()));
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* The directories down to the socket's, those that we make for us alone. */
static int
make_directories(char *path)
{
    for (char *c = path + 1;; c++) {
        if (*c && *c != '/')
            continue;
        char kept = *c;
        *c = 0;
        int failed = mkdir(path, 0700);
        *c = kept;
        if (failed && errno != EEXIST && (!kept || errno != EACCES))
            return -1;
        if (!kept)
            return 0;
    }
}

/* One launcher at a time starts a daemon; the others wait for it here. */
static int
lock_start(const char *socket, int64_t end)
{
    char *path = nc_alloc(strlen(socket) + sizeof ".start");
    strcpy(path, socket);
    *strrchr(path, '/') = 0;
    int fd = make_directories(path) < 0 ? -1 : 0;
    if (!fd) {
        strcat(path, "/start.lock");
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    free(path);
    if (fd < 0)
        return -1;
    fd = nc_move_high(fd);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && now_ms() < end)
        pause_ms(10);
    return fd;
}

/* The starter's surroundings: none of ours. A daemon that kept the harness's
 * pipe open, our terminal or our shim would be felt long after. */
static void
start_in_the_open(const char *starter, int report)
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(report, STDERR_FILENO);
    nc_close_all_but((int[]){0, 1, 2}, 3);
    unsetenv("LD_PRELOAD");
    unsetenv("DYLD_INSERT_LIBRARIES");
    unsetenv("NOCLOBBER_SESSION");
    unsetenv("NOCLOBBER_COMMAND");
    unsetenv("NOCLOBBER_ROOTS");
    unsetenv("NOCLOBBER_SKIP");
    if (chdir("/") < 0)
        _exit(NC_EXIT_FAILED);
    execl(starter, starter, "daemon", "start", (char *)NULL);
    if (errno == ENOENT)
        execlp("noclobber", "noclobber", "daemon", "start", (char *)NULL);
    dprintf(STDERR_FILENO, "noclobber: %s\n", strerror(errno));
    _exit(NC_EXIT_NOT_FOUND);
}

/* Start the starter as nobody's child: whatever it becomes, the command must
 * not find it among its own. Returns the reading end of its stderr, whose end
 * of file says that it failed (or has detached, and then the socket is up). */
static int
start(const char *starter)
{
    int report[2];
    if (nc_pipe(report, true) < 0)
        return -1;
    pid_t middle = fork();
    if (middle == 0) {
        setsid();
        pid_t last = fork();
        if (last == 0)
            start_in_the_open(starter, report[1]);
        _exit(last < 0);
    }
    close(report[1]);
    int status = 1;
    if (middle > 0)
        waitpid(middle, &status, 0);
    if (middle < 0 || report[0] < 0 || status) {
        close(report[0]);
        return -1;
    }
    return report[0];
}

/* Wait for the socket. Keeps the starter's last line of complaint. */
static int
await(const char *socket, int report, int64_t end, char *words, size_t size)
{
    size_t used = 0;
    int64_t closed = 0;
    for (;;) {
        int fd = nc_connect(socket, NC_SEND_MS);
        int64_t now = now_ms();
        /* The starter is gone and nobody listens: grant a detached daemon a
         * moment more, then it failed. */
        if (fd >= 0 || now >= end || (closed && now > closed + 500)) {
            words[used] = 0;
            return fd;
        }
        struct pollfd ready = {.fd = closed ? -1 : report, .events = POLLIN};
        if (poll(&ready, 1, 10) == 1) {
            ssize_t got = read(report, words + used, size - used - 1);
            if (got <= 0)
                closed = now;
            else if ((used += (size_t)got) > size / 2)
                used = size / 2;
        }
    }
}

int
nc_reach_daemon(const char *socket, const char *starter, int patience,
                char *why, size_t why_size)
{
    int fd = nc_connect(socket, NC_SEND_MS);
    if (fd >= 0)
        return fd;
    int64_t end = now_ms() + patience;
    if (errno != ENOENT && errno != ECONNREFUSED && errno != ENOTDIR) {
        snprintf(why, why_size,
                 "the guard's daemon cannot be reached at "
                 "%.300s (%s)",
                 socket, strerror(errno));
        return -1;
    }
    int lock = lock_start(socket, end);
    if (lock < 0) {
        snprintf(why, why_size,
                 "no place for the daemon's socket at %.300s "
                 "(%s)",
                 socket, strerror(errno));
        return -1;
    }
    char words[256] = "";
    fd = nc_connect(socket, NC_SEND_MS);
    if (fd < 0) {
        int report = start(starter);
        if (report >= 0) {
            fd = await(socket, report, end, words, sizeof words);
            close(report);
        }
    }
    close(lock);
    if (fd < 0) {
        words[strcspn(words, "\n")] = 0;
        snprintf(why, why_size,
                 "the guard's daemon did not start%s%.200s%s; "
                 "try `noclobber daemon start`",
                 *words ? " (" : "", words, *words ? ")" : "");
    }
    return fd;
}

static char *
put(char *out, const char *text, size_t size)
{
    memcpy(out, text, size);
    return out + size;
}

void *
nc_carried_record(const struct nc_launch *launch, size_t *size)
{
    size_t session = strlen(launch->session), outer = strlen(launch->outer);
    *size = (sizeof(struct nc_shown) + session + outer + 7) & ~(size_t)7;
    struct nc_shown *record = nc_alloc(*size);
    record->record = (struct nc_record){.size = (uint32_t)*size,
                                        .version = NC_VERSION,
                                        .type = NC_SHOWN,
                                        .flags = NC_CARRIED};
    record->session_size = (uint16_t)session;
    record->command_size = (uint16_t)outer;
    put(put((char *)(record + 1), launch->session, session), launch->outer,
        outer);
    return record;
}

void *
nc_command_record(const struct nc_launch *launch, pid_t pid, unsigned flags,
                  size_t *size)
{
    bool ended = flags & NC_ENDED;
    size_t session = strlen(launch->session);
    size_t command = strlen(launch->command);
    size_t cwd = ended ? 0 : strlen(launch->cwd);
    size_t argv = 0, roots = 0;
    if (cwd > UINT16_MAX)
        cwd = 0;
    for (char **a = launch->argv; !ended && *a && argv < NC_ARGV_MAX; a++)
        argv += strlen(*a) + 1;
    if (argv > NC_ARGV_MAX)
        argv = NC_ARGV_MAX;
    for (size_t i = 0; !ended && i < launch->root_count; i++)
        roots += strlen(launch->roots[i]) + 1;

    size_t total =
        sizeof(struct nc_command) + session + command + cwd + argv + roots;
    total = (total + 7) & ~(size_t)7;
    if (total > NC_RECORD_MAX)
        nc_quit(NC_EXIT_FAILED, "too many roots");
    struct nc_command *record = nc_alloc(total);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    record->record = (struct nc_record){.size = (uint32_t)total,
                                        .version = NC_VERSION,
                                        .type = NC_COMMAND,
                                        .flags = (uint16_t)flags};
    record->session_size = (uint16_t)session;
    record->command_size = (uint16_t)command;
    char *out = put((char *)(record + 1), launch->session, session);
    out = put(out, launch->command, command);
    *size = total;
    if (ended)
        return record;

    record->pid = pid;
    record->tier = launch->tier;
    record->time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    record->limit = launch->limit;
    record->cwd_size = (uint16_t)cwd;
    record->argv_size = (uint16_t)argv;
    record->roots_size = (uint32_t)roots;
    out = put(out, launch->cwd, cwd);
    for (char **a = launch->argv; argv; a++) {
        size_t part = strlen(*a) + 1;
        part = part < argv ? part : argv;
        out = put(out, *a, part);
        argv -= part;
    }
    for (size_t i = 0; i < launch->root_count; i++)
        out = put(out, launch->roots[i], strlen(launch->roots[i]) + 1);
    return record;
}
