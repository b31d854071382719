/* The question before a file is replaced, and what its answer leaves behind. */
#include <string.h>

#include "client.h"

#define MOST_SCOPES 16
#define SCOPE_TEXT 4096
#define MOST_REFUSED 64

/* ---- what was answered --------------------------------------------- */

NC_COLD static struct {
    uint64_t dev, ino;
} refused[MOST_REFUSED];
int nc_refusals;
int nc_keeps;
static int asks_no_updates;

static struct {
    const char *path;
    size_t size;
} scopes[MOST_SCOPES];
NC_COLD static char scope_text[SCOPE_TEXT];
static size_t scope_used;
static int scope_count;

int
nc_was_refused(const struct stat *of)
{
    for (int i = 0; i < nc_refusals && i < MOST_REFUSED; i++)
        if (refused[i].dev == (uint64_t)of->st_dev &&
            refused[i].ino == (uint64_t)of->st_ino)
            return 1;
    return 0;
}

static void
remember_refusal(const struct nc_version *version)
{
    int at = __atomic_fetch_add(&nc_refusals, 1, __ATOMIC_RELAXED);
    refused[at % MOST_REFUSED].dev = version->dev;
    refused[at % MOST_REFUSED].ino = version->ino;
}

/* The agent lives on: what it may replace by now it may also move away. */
static void
forget_refusal(const struct nc_version *version)
{
    for (int i = 0; i < nc_refusals && i < MOST_REFUSED; i++)
        if (refused[i].dev == version->dev && refused[i].ino == version->ino)
            refused[i].dev = refused[i].ino = 0;
}

static int
lifts(enum nc_op op)
{
    return op != NC_OP_DELETE && op != NC_OP_UPDATE && op != NC_OP_CREATE &&
           op != NC_OP_CLOSE;
}

/* "Nothing under this directory is protected from you." */
static void
remember_scope(const char *path, size_t size)
{
    if (!size || scope_count >= MOST_SCOPES ||
        scope_used + size > sizeof scope_text)
        return;
    memcpy(scope_text + scope_used, path, size);
    scopes[scope_count].path = scope_text + scope_used;
    scopes[scope_count].size = size;
    scope_used += size;
    __atomic_add_fetch(&scope_count, 1, __ATOMIC_RELEASE);
}

int
nc_knows_scopes(void)
{
    return __atomic_load_n(&scope_count, __ATOMIC_RELAXED) > 0;
}

int
nc_in_known_scope(const char *path, size_t size)
{
    int count = __atomic_load_n(&scope_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++)
        if (size > scopes[i].size && path[scopes[i].size] == '/' &&
            !memcmp(path, scopes[i].path, scopes[i].size))
            return 1;
    return 0;
}

/* To stderr, unless the program put a file of its own in its place. */
static void
say(const char *text, size_t size)
{
    struct stat st;
    if (nc_stat(2, &st))
        return;
    if (S_ISREG(st.st_mode)) {
        struct nc_description *of = nc_fd_get(2);
        if (of == NC_NOTHING || of == NC_UNKNOWN || !(of->flags & NC_ELDER))
            return;
    }
    while (size) {
        long sent = nc_raw(write, 2, text, size);
        if (sent <= 0)
            return;
        text += sent;
        size -= (size_t)sent;
    }
}

/* ---- the question -------------------------------------------------- */

/* A vfork child, or a signal handler amid its thread's own words: over a
 * connection of its own. */
static int
ask_once(const struct nc_ask *ask, struct nc_reply *reply)
{
    int to = nc_connect(-1);
    if (to < 0)
        return -1;
    char hello[NC_HELLO_ROOM];
    size_t size = nc_hello(hello, sizeof hello);
    int failed =
        nc_send(to, hello, size, NULL, 0) || nc_exchange(to, ask, reply);
    nc_raw_close(to);
    return failed ? -1 : 0;
}

int
nc_refuse_unanswered(const struct nc_ask *ask)
{
    say(nc_down, strlen(nc_down));
    if (!nc_is_guest() && ask->version)
        remember_refusal(ask->version);
    errno = EPERM;
    return -1;
}

int
nc_ask(const struct nc_ask *ask)
{
    if (nc_in_known_scope(ask->path, ask->path_size))
        return 0;
    int kept = errno;
    int guest = nc_is_guest();
    struct nc_reply reply;
    int failed;
    if (!guest)
        nc_settle(NC_AT_QUESTION);
    failed = guest ? 1 : nc_client_ask(ask, &reply);
    if (failed > 0)
        failed = ask_once(ask, &reply);
    if (failed) {
        if (ask->unanswered)
            *ask->unanswered = 1;
        if (nc_process.fail_open || ask->unanswered ||
            ask->op == NC_OP_UPDATE || ask->op == NC_OP_CLOSE) {
            errno = kept;
            return 0;
        }
        return nc_refuse_unanswered(ask);
    }
    if (reply.answer.verdict != NC_DENY) {
        if (!guest) {
            remember_scope(reply.text, reply.answer.scope_size);
            if (reply.answer.record.flags & NC_NO_UPDATES)
                asks_no_updates = 1;
            if (reply.answer.record.flags & NC_KEEPS)
                nc_keeps = 1;
            if (reply.answer.verdict == NC_HOLD && ask->version)
                nc_hold(ask->version);
            if (nc_unlikely(nc_refusals) && ask->version && lifts(ask->op))
                forget_refusal(ask->version);
        }
        errno = kept;
        return 0;
    }
    say(reply.text + reply.answer.scope_size, reply.answer.text_size);
    /* what could not be kept may be asked for again */
    if (!guest && ask->version && reply.answer.row)
        remember_refusal(ask->version);
    errno = EPERM;
    return -1;
}

/* ---- opening in place ---------------------------------------------- */

/* Nobody is shown a binary, and so nobody asks about one. */
static int
looks_binary(int fd, int flags)
{
    char head[8192];
    if ((flags & O_ACCMODE) != O_RDWR)
        return 0;
    long got = nc_raw(pread64, fd, head, sizeof head, (off_t)0);
    return got > 0 && memchr(head, 0, (size_t)got);
}

void
nc_before_update(int fd, int flags)
{
    if ((flags & O_ACCMODE) == O_RDONLY ||
        (flags & (O_TRUNC | O_APPEND | O_PATH)) || asks_no_updates)
        return;
    int kept = errno;
    struct stat st;
    char path[NC_PATH_MAX];
    size_t size;
    if (!nc_stat(fd, &st) && S_ISREG(st.st_mode) && st.st_size &&
        st.st_size <= NC_UPDATE_MAX &&
        nc_area_of_fd(fd, path, &size) != NC_AREA_NONE &&
        !looks_binary(fd, flags)) {
        struct nc_version version;
        nc_version_from(&version, &st);
        const struct nc_ask ask = {
            .op = NC_OP_UPDATE,
            .fd = fd,
            .other = -1,
            .end = (uint64_t)st.st_size,
            .path = path,
            .path_size = size,
            .version = &version,
        };
        (void)nc_ask(&ask);
    }
    errno = kept;
}
