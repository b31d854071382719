/* What a process says to the daemon: reports, gathered and one-way, over a
 * connection that is made when there is something to say. */
#include "client.h"

#include <sched.h>
#include <string.h>

#include "shim.h"

#define NC_WANTED_MOST 256 /* bytes of the name of the agent's program */
#define DOWN_FOR 1         /* seconds before a dead daemon is tried again */

NC_COLD static char batch[NC_BATCH];
static size_t used;     /* bytes in `batch` */
static size_t borrowed; /* of these, what a parent will report itself */
static int sock = -1;
static uint64_t sock_ino;
static time_t down_until;

/* Whoever holds this may send; never waited for inside its own thread. */
static uintptr_t owner;
static __thread char marker __attribute__((tls_model("initial-exec")));

/* Zero in a fork child, however it was forked: the kernel wipes it. */
static struct {
    uint32_t alive;
} *life;

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
        if (of->intake)
            nc_intake_forked(of);
    }
    nc_holds_forget(); /* whoever opened them closes them, too */
}

static int
enter(void)
{
    if (life && !life->alive)
        become_child();
    uintptr_t me = (uintptr_t)&marker;
    for (int tries = 0;; tries++) {
        uintptr_t none = 0;
        if (__atomic_compare_exchange_n(&owner, &none, me, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
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
    /* unsent, it is kept for another try: who forgot that half of a file was
     * read would let it be replaced */
    if (used > borrowed && !send_batch(borrowed))
        used = borrowed;
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
nc_is_unsent(void)
{
    return used > borrowed;
}

int
nc_has_news(void)
{
    if (used > borrowed)
        return 1;
    for (int fd = nc_fd_last(); fd >= 0; fd--) {
        struct nc_description *of = nc_fd_get(fd);
        if (of == NC_UNKNOWN || of == NC_NOTHING || of->kind != NC_FILE)
            continue;
        if (of->flags & NC_STREAM)
            nc_sample(fd, of); /* what stdio read is known by this alone */
        if ((of->flags & NC_NEWS) && !(of->flags & NC_BORROWED))
            return 1;
    }
    return 0;
}

size_t
nc_record_put(char *out, struct nc_record *record, size_t size,
              const void *first, size_t first_size, const void *second,
              size_t second_size)
{
    size_t whole = nc_record_size(size + first_size + second_size);
    record->size = (uint32_t)whole;
    record->version = NC_VERSION;
    memset(out + whole - 8, 0, 8);
    memcpy(out, record, size);
    if (first_size)
        memcpy(out + size, first, first_size);
    if (second_size)
        memcpy(out + size + first_size, second, second_size);
    return whole;
}

void
nc_report(struct nc_record *record, size_t size, const void *first,
          size_t first_size, const void *second, size_t second_size)
{
    size_t whole = nc_record_size(size + first_size + second_size);
    if (whole > sizeof batch || !enter())
        return;
    if (used + whole > sizeof batch) {
        if (borrowed) { /* no room to keep what the parent says anyway */
            (void)send_batch(0);
            used = borrowed = 0;
        } else {
            flush_held();
        }
        if (used + whole > sizeof batch)
            used = borrowed; /* no daemon, and no room left */
    }
    nc_record_put(batch + used, record, size, first, first_size, second,
                  second_size);
    used += whole;
    leave();
}

/* ---- the question, over this connection ---------------------------- */

static int
converse(const struct nc_ask *ask, struct nc_reply *reply)
{
    down_until = 0; /* a verdict is worth another try */
    for (int tries = 0; tries < 2; tries++) {
        if (!connected()) {
            if (errno != EMFILE && errno != ENFILE)
                return -1;
            int failed = nc_apart(batch, used, ask, reply);
            if (!failed)
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

int
nc_client_who(const char *wanted)
{
    struct nc_who who = {
        .record = {.version = NC_VERSION, .type = NC_WHO},
        .wanted_size = (uint32_t)strlen(wanted),
    };
    char out[sizeof who + NC_WANTED_MOST + 8] = {0};
    size_t size = (sizeof who + who.wanted_size + 7) & ~(size_t)7;
    struct nc_answer answer;
    int part = -1;
    if (who.wanted_size > NC_WANTED_MOST || !enter())
        return -1;
    who.record.size = (uint32_t)size;
    memcpy(out, &who, sizeof who);
    memcpy(out + sizeof who, wanted, who.wanted_size);
    if (connected()) {
        if (!nc_send(sock, out, size, NULL, 0) &&
            !nc_receive(sock, &answer, sizeof answer) &&
            answer.record.type == NC_ANSWER &&
            answer.record.size == sizeof answer)
            part = answer.verdict;
        else
            hang_up();
    }
    if (part == NC_ROLE_AGENT) { /* said once more, for good */
        nc_process.agent = 1;
        char hello[NC_HELLO_ROOM];
        if (nc_send(sock, hello, nc_hello(hello, sizeof hello), NULL, 0))
            hang_up();
    }
    leave();
    return part;
}

int
nc_client_ask(const struct nc_ask *ask, struct nc_reply *reply)
{
    if (!enter())
        return 1;
    int failed = converse(ask, reply);
    leave();
    return failed;
}
