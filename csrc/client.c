/* What a process says to the daemon: reports, gathered and one-way, and the
 * question before a file is replaced. */
#include "client.h"

#include <sched.h>
#include <string.h>

#include "shim.h"

#define MOST_SCOPES 16
#define SCOPE_TEXT 4096
#define MOST_REFUSED 64
#define DOWN_FOR 1 /* seconds before a dead daemon is tried again */

static char batch[NC_BATCH];
static size_t used;     /* bytes in `batch` */
static size_t borrowed; /* of these, what a parent will report itself */
static int sock = -1;
static uint64_t sock_ino;
static time_t down_until;

/* Whoever holds this may send; never waited for inside its own thread. */
static uintptr_t owner;
static __thread char marker __attribute__((tls_model("initial-exec")));

/* Zero in a fork child, however it was forked: the kernel wipes it. */
static struct { uint32_t alive; } *life;

/* ---- one at a time ------------------------------------------------- */

static void
become_child(void)
{
    if (sock >= 0)
        nc_raw_close(sock); /* a copy of the parent's */
    sock = -1;
    owner = 0;
    life = NULL;
    borrowed = used;
    nc_process.parent = nc_process.token;
    nc_process.token = 0;
    for (int fd = nc_fd_last(); fd >= 0; fd--) {
        struct nc_description *of = nc_fd_get(fd);
        if (of == NC_UNKNOWN || of == NC_NOTHING)
            continue;
        of->busy = 0;
        if (of->flags & NC_NEWS)
            of->flags |= NC_BORROWED;
    }
}

static int
enter(void)
{
    if (life && !life->alive)
        become_child();
    uintptr_t me = (uintptr_t)&marker;
    for (int tries = 0;; tries++) {
        uintptr_t none = 0;
        if (__atomic_compare_exchange_n(&owner, &none, me, 0,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
        if (none == me || tries > 3000)
            return 0; /* a signal handler amid its own thread's words */
        if (tries < 100) {
            nc_raw(sched_yield);
        } else {
            struct timespec nap = {.tv_nsec = 1000000};
            nc_raw(nanosleep, &nap, NULL);
        }
    }
}

static void
leave(void)
{
    __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
}

int
nc_client_before_fork(void)
{
    nc_token();
    return enter();
}

void
nc_client_after_fork(int is_child, int entered)
{
    if (is_child)
        become_child();
    else if (entered)
        leave();
}

/* ---- the connection ------------------------------------------------ */

int
nc_socket_is(int fd)
{
    return fd == sock && sock >= 0;
}

void
nc_socket_lost(int fd)
{
    if (fd == sock)
        sock = -1; /* the caller's close takes it */
}

void
nc_socket_lost_between(unsigned first, unsigned last)
{
    if (sock >= 0 && (unsigned)sock >= first && (unsigned)sock <= last)
        sock = -1;
}

/* Out of the way of the numbers that the program is due. */
static int
move_up(int low)
{
    static const int heights[] = {960, 200, 20};
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++) {
        int high = (int)nc_raw(fcntl, low, F_DUPFD_CLOEXEC, heights[i]);
        if (high >= 0) {
            nc_raw_close(low);
            return high;
        }
    }
    return low;
}

static int
is_ours(void)
{
    struct stat st;
    if (sock < 0)
        return 0;
    if (!nc_stat(sock, &st) && S_ISSOCK(st.st_mode) &&
        (uint64_t)st.st_ino == sock_ino)
        return 1;
    sock = -1; /* closed or replaced behind our back */
    return 0;
}

static void
watch_life(void)
{
    if (life)
        return;
    void *page = nc_wiped_on_fork();
    if (!page)
        return;
    life = page;
    life->alive = 1;
}

static int
connected(void)
{
    if (is_ours())
        return 1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec < down_until)
        return 0;
    int low = nc_connect(-1);
    if (low < 0) {
        if (errno != EMFILE && errno != ENFILE)
            down_until = now.tv_sec + DOWN_FOR;
        return 0;
    }
    sock = move_up(low);
    struct stat st;
    char hello[NC_HELLO_ROOM];
    size_t size = nc_hello(hello, sizeof hello);
    if (nc_stat(sock, &st) || nc_send(sock, hello, size, NULL, 0)) {
        nc_raw_close(sock);
        sock = -1;
        return 0;
    }
    sock_ino = (uint64_t)st.st_ino;
    nc_process.spoke = 1;
    watch_life();
    return 1;
}

static void
hang_up(void)
{
    if (is_ours())
        nc_raw_close(sock);
    sock = -1;
}

/* ---- reports ------------------------------------------------------- */

/* Sends [start, used) of the batch; a dead connection is tried anew once. */
static int
send_batch(size_t start)
{
    if (used == start)
        return 0;
    for (int tries = 0; tries < 2; tries++) {
        if (!connected()) {
            if (errno == EMFILE || errno == ENFILE)
                return nc_apart(batch + start, used - start, NULL, NULL);
            return -1;
        }
        if (!nc_send(sock, batch + start, used - start, NULL, 0))
            return 0;
        hang_up();
    }
    return -1;
}

static void
flush_held(void)
{
    if (used > borrowed) {
        (void)send_batch(borrowed);
        used = borrowed; /* unsent: less is known, never more */
    }
}

void
nc_flush(void)
{
    if (used == borrowed && !(life && !life->alive))
        return;
    int kept = errno;
    if (enter()) {
        flush_held();
        leave();
    }
    errno = kept;
}

int
nc_has_news(void)
{
    if (used > borrowed)
        return 1;
    for (int fd = nc_fd_last(); fd >= 0; fd--) {
        struct nc_description *of = nc_fd_get(fd);
        if (of != NC_UNKNOWN && of != NC_NOTHING && of->kind == NC_FILE &&
            (of->flags & NC_NEWS) && !(of->flags & NC_BORROWED))
            return 1;
    }
    return 0;
}

void
nc_report(struct nc_record *record, size_t size, const void *first,
          size_t first_size, const void *second, size_t second_size)
{
    size_t whole = (size + first_size + second_size + 7) & ~(size_t)7;
    if (whole > sizeof batch || !enter())
        return;
    if (used + whole > sizeof batch) {
        if (borrowed) { /* no room to keep what the parent says anyway */
            (void)send_batch(0);
            used = borrowed = 0;
        } else {
            flush_held();
        }
    }
    record->size = (uint32_t)whole;
    record->version = NC_VERSION;
    char *at = batch + used;
    memset(at + whole - 8, 0, 8);
    memcpy(at, record, size);
    if (first_size)
        memcpy(at + size, first, first_size);
    if (second_size)
        memcpy(at + size + first_size, second, second_size);
    used += whole;
    leave();
}

/* ---- what was answered --------------------------------------------- */

static struct { uint64_t dev, ino; } refused[MOST_REFUSED];
int nc_refusals;

static struct { const char *path; size_t size; } scopes[MOST_SCOPES];
static char scope_text[SCOPE_TEXT];
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

static int
in_known_scope(const char *path, size_t size)
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

static size_t
question(char *out, size_t size, const struct nc_ask *ask)
{
    struct nc_question record = {
        .record = {.version = NC_VERSION, .type = NC_QUESTION},
        .id = 1,
        .op = ask->op,
        .start = ask->start,
        .end = ask->end,
        .path_size = (uint32_t)ask->path_size,
        .other_size = (uint32_t)ask->other_size,
    };
    size_t whole = sizeof record + ask->path_size + ask->other_size;
    whole = (whole + 7) & ~(size_t)7;
    if (whole > size)
        return 0;
    record.record.size = (uint32_t)whole;
    memset(out + whole - 8, 0, 8);
    memcpy(out, &record, sizeof record);
    if (ask->path_size)
        memcpy(out + sizeof record, ask->path, ask->path_size);
    if (ask->other_size)
        memcpy(out + sizeof record + ask->path_size, ask->other_path,
               ask->other_size);
    return whole;
}

int
nc_exchange(int to, const struct nc_ask *ask, struct nc_reply *reply)
{
    char out[NC_QUESTION_ROOM];
    size_t size = question(out, sizeof out, ask);
    const int fds[2] = {ask->fd, ask->other};
    if (!size || nc_send(to, out, size, fds, ask->other >= 0 ? 2 : 1))
        return -1;
    struct nc_answer *answer = &reply->answer;
    if (nc_receive(to, answer, sizeof *answer) ||
        answer->record.type != NC_ANSWER ||
        answer->record.size < sizeof *answer ||
        answer->record.size - sizeof *answer > sizeof reply->text ||
        answer->scope_size + answer->text_size > sizeof reply->text ||
        nc_receive(to, reply->text, answer->record.size - sizeof *answer))
        return -1;
    return 0;
}

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
    int failed = nc_send(to, hello, size, NULL, 0) ||
                 nc_exchange(to, ask, reply);
    nc_raw_close(to);
    return failed ? -1 : 0;
}

static int
ask_held(const struct nc_ask *ask, struct nc_reply *reply)
{
    down_until = 0; /* a verdict is worth another try */
    for (int tries = 0; tries < 2; tries++) {
        if (!connected()) {
            if (errno != EMFILE && errno != ENFILE)
                return -1;
            int failed = nc_apart(batch, used, ask, reply);
            used = borrowed = 0;
            return failed;
        }
        int sent = !nc_send(sock, batch, used, NULL, 0);
        if (sent && !nc_exchange(sock, ask, reply)) {
            used = borrowed = 0;
            return 0;
        }
        int late = errno == EAGAIN;
        hang_up();
        if (late)
            break; /* it had its two seconds */
    }
    return -1;
}

static const char down[] =
    "noclobber: the guard does not answer, so nothing is replaced until it "
    "does. Start it again with: noclobber daemon start\n";

int
nc_ask(const struct nc_ask *ask)
{
    if (in_known_scope(ask->path, ask->path_size))
        return 0;
    int kept = errno;
    int guest = nc_is_guest();
    struct nc_reply reply;
    int failed;
    if (guest || (nc_settle(NC_AT_QUESTION), !enter())) {
        failed = ask_once(ask, &reply);
    } else {
        failed = ask_held(ask, &reply);
        leave();
    }
    if (failed) {
        if (nc_process.fail_open || ask->op == NC_OP_DELETE) {
            errno = kept;
            return 0;
        }
        say(down, sizeof down - 1);
    } else if (reply.answer.verdict != NC_DENY) {
        if (!guest)
            remember_scope(reply.text, reply.answer.scope_size);
        errno = kept;
        return 0;
    } else {
        say(reply.text + reply.answer.scope_size, reply.answer.text_size);
    }
    if (!guest && ask->version)
        remember_refusal(ask->version);
    errno = EPERM;
    return -1;
}
