/* The daemon is asked in a supervised process's name. */
#include "supervise.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SAYING_MS 1000 /* that a full pipe may take */

/* ---- words for people ------------------------------------------------- */

/* To its standard error as the process has it, unless it put a file of its own
 * there. */
void
nc_tell_process(struct nc_image *image, pid_t tid, const char *text,
                size_t size)
{
    struct stat st;
    (void)tid;
    int fd = (int)syscall(SYS_pidfd_getfd, image->pidfd, 2, 0);
    if (fd < 0)
        return;
    bool is_its_own = !nc_stat(fd, &st) && S_ISREG(st.st_mode) &&
                      (st.st_ino != image->stdio[2].st_ino ||
                       st.st_dev != image->stdio[2].st_dev);
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    while (!is_its_own && size && poll(&one, 1, SAYING_MS) > 0) {
        ssize_t sent = write(fd, text, size);
        if (sent <= 0)
            break;
        text += sent;
        size -= (size_t)sent;
    }
    nc_raw_close(fd);
}

/* ---- what was answered -------------------------------------------------- */

bool
nc_image_was_refused(struct nc_image *image, const struct stat *st)
{
    bool found = false;
    pthread_mutex_lock(&nc_tables);
    for (unsigned i = 0; i < image->refusals && i < NC_MOST_REFUSED; i++)
        found |= image->refused[i].dev == (uint64_t)st->st_dev &&
                 image->refused[i].ino == (uint64_t)st->st_ino;
    pthread_mutex_unlock(&nc_tables);
    return found;
}

static void
remember(struct nc_image *image, const struct nc_version *version)
{
    pthread_mutex_lock(&nc_tables);
    unsigned at = image->refusals++ % NC_MOST_REFUSED;
    image->refused[at].dev = version->dev;
    image->refused[at].ino = version->ino;
    pthread_mutex_unlock(&nc_tables);
}

static void
remember_scope(struct nc_image *image, const char *path, size_t size)
{
    if (!size)
        return;
    pthread_mutex_lock(&nc_tables);
    char *copy = image->scope_count < NC_MOST_SCOPES ? strndup(path, size) : 0;
    if (copy)
        image->scopes[image->scope_count++] = copy;
    pthread_mutex_unlock(&nc_tables);
}

static bool
in_scope(struct nc_image *image, const char *path, size_t size)
{
    bool found = false;
    pthread_mutex_lock(&nc_tables);
    for (int i = 0; i < image->scope_count; i++) {
        size_t length = strlen(image->scopes[i]);
        found |= size > length && path[length] == '/' &&
                 !memcmp(path, image->scopes[i], length);
    }
    pthread_mutex_unlock(&nc_tables);
    return found;
}

/* ---- the question --------------------------------------------------------- */

static int
ask(struct nc_image *image, const struct nc_ask *question,
    struct nc_reply *reply)
{
    int failed = -1;
    pthread_mutex_lock(&image->asking);
    for (int tries = 0; tries < 2 && failed; tries++) {
        pthread_mutex_lock(&image->sending);
        int sock = nc_image_connect(image)
                       ? -1
                       : (int)nc_raw(fcntl, image->sock, F_DUPFD_CLOEXEC, 0);
        failed = sock < 0 || nc_exchange_ask(sock, question);
        pthread_mutex_unlock(&image->sending);
        if (sock < 0)
            break;
        failed = failed || nc_exchange_hear(sock, reply);
        bool is_late = failed && errno == EAGAIN;
        nc_raw_close(sock);
        if (!failed)
            break;
        pthread_mutex_lock(&image->sending);
        if (image->sock >= 0)
            nc_raw_close(image->sock);
        image->sock = -1;
        pthread_mutex_unlock(&image->sending);
        if (is_late)
            break; /* it had its two seconds */
    }
    pthread_mutex_unlock(&image->asking);
    return failed;
}

static bool
fails_open(enum nc_op op)
{
    const char *fail = getenv("NOCLOBBER_FAIL");
    return op == NC_OP_DELETE || op == NC_OP_UPDATE ||
           (fail && !strcmp(fail, "open"));
}

int
nc_judge(struct nc_image *image, pid_t tid, const struct nc_ask *question)
{
    if (in_scope(image, question->path, question->path_size))
        return 0;
    struct nc_reply reply;
    nc_kept_tell(NULL); /* what it, and who feeds it, did so far */
    if (ask(image, question, &reply)) {
        if (fails_open(question->op))
            return 0;
        nc_tell_process(image, tid, nc_down, strlen(nc_down));
        remember(image, question->version);
        return EPERM;
    }
    if (reply.answer.verdict != NC_DENY) {
        remember_scope(image, reply.text, reply.answer.scope_size);
        return 0;
    }
    nc_tell_process(image, tid, reply.text + reply.answer.scope_size,
                    reply.answer.text_size);
    if (reply.answer.row) /* what could not be kept may be asked for again */
        remember(image, question->version);
    return EPERM;
}

int
nc_judge_creation(struct nc_image *image, pid_t tid, int fd, int source,
                  const char *path, size_t size)
{
    struct stat st;
    if (!size || !nc_tombs_any() || !nc_tomb_may_stand(path, size) ||
        nc_stat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size)
        return 0;
    struct nc_version version;
    nc_version_from(&version, &st);
    const struct nc_ask question = {
        .op = NC_OP_CREATE,
        .fd = fd,
        .other = source,
        .path = path,
        .path_size = size,
        .version = &version,
    };
    return nc_judge(image, tid, &question);
}
