/* The agent's intake: what its own process reads from its children's pipes,
 * terminals and socket pairs is what its commands showed it. Of each command
 * the head goes off as it comes; the tail is kept in a ring until the command
 * ends, or is told to do the next thing. */
#include "intake.h"

#include <string.h>

#define TEXT_MOST 16384 /* bytes of output in one record */
#define LEAST 512       /* bytes of a half, whatever the limit */
#define PAIRS 256       /* socket pairs whose two ends are known */
#define OWN_FDS 256 /* descriptors among which the other end is looked for */

struct nc_intake {
    uint64_t way;  /* how it comes: nc_way_of */
    size_t size;   /* bytes of all this */
    size_t half;   /* of `ring`, and of the head */
    uint64_t base; /* where the command's output begins */
    uint64_t total;
    uint64_t unsent; /* [unsent, total) is in the ring, as far as it reaches */
    uint64_t lost;   /* came while somebody else was here */
    uint32_t turn;
    char ring[];
};

static size_t half_limit;
static uint64_t given[3]; /* ways of the agent's own 0 to 2 */
static uint32_t turn;     /* of talk: raised when a child is told something */
static int has_tails;     /* rings hold what was not sent */

NC_COLD static struct {
    uint64_t one, other; /* inodes */
} pairs[PAIRS];
static uint32_t pair_count;

/* ---- ways ---------------------------------------------------------- */

/* A socket pair is known by the inode of its first end. */
static uint64_t
pair_of(uint64_t ino, uint64_t *peer)
{
    uint32_t count = __atomic_load_n(&pair_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < PAIRS && i < count; i++) {
        uint32_t at = (count - 1 - i) % PAIRS; /* numbers come again */
        if (pairs[at].one != ino && pairs[at].other != ino)
            continue;
        *peer = pairs[at].one == ino ? pairs[at].other : pairs[at].one;
        return pairs[at].one;
    }
    *peer = 0;
    return ino;
}

/* One of a pair: neither end has a name. */
static int
is_paired(int fd)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    if (nc_raw(getsockname, fd, &name, &size) || name.ss_family != AF_UNIX ||
        size > sizeof name.ss_family)
        return 0;
    size = sizeof name;
    return !nc_raw(getpeername, fd, &name, &size) &&
           size <= sizeof name.ss_family;
}

uint64_t
nc_way_of(int fd)
{
    struct stat st;
    uint64_t way = 0, peer;
    if (nc_stat(fd, &st))
        return 0;
    if (S_ISFIFO(st.st_mode))
        way = (uint64_t)st.st_ino;
    else if (S_ISSOCK(st.st_mode))
        way = is_paired(fd) ? pair_of((uint64_t)st.st_ino, &peer) : 0;
    else if (S_ISCHR(st.st_mode))
        way = nc_terminal_of(fd, &st);
    for (int i = 0; half_limit && i < 3; i++)
        if (way == given[i])
            return 0; /* it does not lead to the agent */
    return way;
}

/* Is the other end in this very process? Then no child speaks. */
static int
is_to_itself(int fd, const struct stat *st)
{
    uint64_t peer = (uint64_t)st->st_ino;
    struct stat other;
    if (S_ISSOCK(st->st_mode))
        (void)pair_of((uint64_t)st->st_ino, &peer);
    for (int at = 0; at < OWN_FDS; at++) {
        if (at == fd || nc_stat(at, &other) || (uint64_t)other.st_ino != peer ||
            other.st_dev != st->st_dev)
            continue;
        if (S_ISSOCK(other.st_mode) ||
            (nc_raw(fcntl, at, F_GETFL) & O_ACCMODE) != O_RDONLY)
            return 1;
    }
    return 0;
}

void
nc_intake_start(size_t limit)
{
    for (int fd = 0; fd < 3; fd++)
        given[fd] = nc_way_of(fd);
    half_limit = limit / 2 < LEAST ? LEAST : limit / 2;
    for (int fd = 0; fd < OWN_FDS; fd++) {
        struct stat st;
        if (!nc_stat(fd, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) &&
            !nc_socket_is(fd))
            nc_fd_set(fd, NC_NOTHING);
    }
}

void
nc_intake_begin(int fd, struct nc_description *of, const struct stat *st)
{
    uint64_t way = nc_way_of(fd);
    if (!way || !half_limit || is_to_itself(fd, st) ||
        (S_ISFIFO(st->st_mode) &&
         (nc_raw(fcntl, fd, F_GETFL) & O_ACCMODE) != O_RDONLY) ||
        (S_ISCHR(st->st_mode) && !nc_is_terminal_master(st)))
        return;
    size_t size = sizeof(struct nc_intake) + half_limit;
    struct nc_intake *in = nc_pages_get(size);
    if (!in)
        return;
    in->way = way;
    in->size = size;
    in->half = half_limit;
    in->turn = turn;
    of->intake = in;
}

/* ---- telling ------------------------------------------------------- */

static void
report(const struct nc_intake *in, uint64_t offset, const char *text,
       size_t size, int flags)
{
    const uint64_t ways[2] = {in->way, 0};
    const char *session = nc_environment_get("NOCLOBBER_SESSION");
    char names[2 * NC_ID_MAX];
    size_t session_size = strlen(session);
    if (session_size > NC_ID_MAX)
        return;
    memcpy(names, session, session_size);
    size_t command_size = nc_intake_command(names + session_size, ways);
    struct nc_shown record = {
        .record = {.type = NC_SHOWN, .flags = (uint16_t)(NC_INTAKE | flags)},
        .offset = offset,
        .session_size = (uint16_t)session_size,
        .command_size = (uint16_t)command_size,
        .text_size = (uint32_t)size,
    };
    if (command_size)
        nc_report(&record.record, sizeof record, names,
                  session_size + command_size, text, size);
}

static void
report_text(const struct nc_intake *in, uint64_t offset, const char *text,
            size_t size)
{
    while (size) {
        size_t part = size < TEXT_MOST ? size : TEXT_MOST;
        report(in, offset, text, part, 0);
        offset += part;
        text += part;
        size -= part;
    }
}

static void
report_tail(struct nc_intake *in)
{
    uint64_t from = in->unsent;
    if (in->total > in->half && from < in->total - in->half)
        from = in->total - in->half;
    while (from < in->total) {
        size_t at = (size_t)(from % in->half);
        size_t part = in->half - at;
        if (part > in->total - from)
            part = (size_t)(in->total - from);
        report_text(in, from, in->ring + at, part);
        from += part;
    }
    in->unsent = in->total;
}

void
nc_intake_tell(struct nc_description *of, int is_last)
{
    struct nc_intake *in = of->intake;
    int kept = errno;
    if (nc_description_enter(of)) {
        int said = in->total != 0;
        report_tail(in);
        if (is_last && said)
            report(in, in->total, NULL, 0, NC_LAST);
        nc_description_leave(of);
        if (said)
            nc_flush();
    }
    errno = kept;
}

void
nc_intake_end(struct nc_description *of)
{
    struct nc_intake *in = of->intake;
    nc_intake_tell(of, 1);
    of->intake = NULL;
    nc_pages_drop(in, in->size);
}

/* What was taken in until now is its parent's to tell. */
void
nc_intake_forked(struct nc_description *of)
{
    of->intake->unsent = of->intake->total;
}

/* ---- taking in ----------------------------------------------------- */

static void
keep(struct nc_intake *in, const char *text, size_t size)
{
    if (size > in->half) {
        in->total += size - in->half;
        text += size - in->half;
        size = in->half;
    }
    while (size) {
        size_t at = (size_t)(in->total % in->half);
        size_t part = size < in->half - at ? size : in->half - at;
        memcpy(in->ring + at, text, part);
        in->total += part;
        text += part;
        size -= part;
    }
    has_tails = 1;
}

static void
add(struct nc_intake *in, const char *text, size_t size)
{
    uint64_t lost = __atomic_exchange_n(&in->lost, 0, __ATOMIC_RELAXED);
    in->total += lost;
    if (lost)
        in->unsent = in->total;
    if (in->turn != turn) { /* the next command of a shell that stays */
        report_tail(in);
        in->base = in->total;
        in->turn = turn;
    }
    uint64_t head = in->base + in->half;
    if (in->total < head) {
        size_t part =
            head - in->total < size ? (size_t)(head - in->total) : size;
        report_text(in, in->total, text, part);
        in->total += part;
        in->unsent = in->total;
        text += part;
        size -= part;
    }
    if (size)
        keep(in, text, size);
}

void
nc_intake(struct nc_description *of, const void *bytes, ssize_t got)
{
    int kept = errno;
    if (got == 0) {
        nc_intake_tell(of, 1);
    } else if (got > 0 && !nc_description_try(of)) {
        __atomic_add_fetch(&of->intake->lost, (uint64_t)got, __ATOMIC_RELAXED);
    } else if (got > 0) {
        add(of->intake, bytes, (size_t)got);
        nc_description_leave(of);
    }
    errno = kept;
}

void
nc_intake_parts(struct nc_description *of, const struct iovec *parts, int many,
                ssize_t got)
{
    if (got <= 0)
        nc_intake(of, NULL, got);
    for (int i = 0; i < many && got > 0; i++) {
        ssize_t part =
            got < (ssize_t)parts[i].iov_len ? got : (ssize_t)parts[i].iov_len;
        if (part)
            nc_intake(of, parts[i].iov_base, part);
        got -= part;
    }
}

static void
take_in(int fd, const void *bytes, ssize_t got, int flags)
{
    if (nc_likely(!nc_process.agent) || (flags & MSG_PEEK) || nc_is_guest())
        return;
    struct nc_description *of = nc_look(fd);
    if (of != NC_NOTHING && of != NC_UNKNOWN && of->intake)
        nc_intake(of, bytes, got);
}

NC_EXPORT ssize_t
recv(int fd, void *out, size_t size, int flags)
{
    ssize_t got = REAL(recv)(fd, out, size, flags);
    take_in(fd, out, got, flags);
    return got;
}

NC_EXPORT ssize_t
__recv_chk(int fd, void *out, size_t size, size_t room, int flags)
{
    ssize_t got = REAL(__recv_chk)(fd, out, size, room, flags);
    take_in(fd, out, got, flags);
    return got;
}

/* ---- whose turn it is ---------------------------------------------- */

/* A child is told something: what it answers is another command's output, and
 * what it has said until now is known before it can ask. */
static void
speaks_to(int fd)
{
    if (nc_is_guest())
        return;
    int kept = errno;
    struct nc_description *of = nc_look(fd);
    if (of != NC_NOTHING && of != NC_UNKNOWN && of->kind == NC_CHANNEL) {
        __atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED);
        for (int at = has_tails ? nc_fd_last() : -1; at >= 0; at--) {
            struct nc_description *other = nc_fd_get(at);
            if (other != NC_NOTHING && other != NC_UNKNOWN && other->intake)
                nc_intake_tell(other, 0);
        }
        has_tails = 0;
        nc_flush();
    }
    errno = kept;
}

NC_EXPORT ssize_t
write(int fd, const void *bytes, size_t size)
{
    if (nc_unlikely(nc_process.agent))
        speaks_to(fd);
    return REAL(write)(fd, bytes, size);
}

NC_ALSO(ssize_t, __write, (int, const void *, size_t), write);

NC_EXPORT ssize_t
writev(int fd, const struct iovec *parts, int many)
{
    if (nc_unlikely(nc_process.agent))
        speaks_to(fd);
    return REAL(writev)(fd, parts, many);
}

NC_EXPORT int
socketpair(int domain, int type, int protocol, int fds[2])
{
    int result = REAL(socketpair)(domain, type, protocol, fds);
    if (nc_likely(!nc_process.agent) || result || nc_is_guest())
        return result;
    int kept = errno;
    struct stat one, other;
    if (!nc_stat(fds[0], &one) && !nc_stat(fds[1], &other)) {
        uint32_t at = __atomic_load_n(&pair_count, __ATOMIC_RELAXED);
        pairs[at % PAIRS].one = (uint64_t)one.st_ino;
        pairs[at % PAIRS].other = (uint64_t)other.st_ino;
        __atomic_store_n(&pair_count, at + 1, __ATOMIC_RELEASE);
    }
    errno = kept;
    return result;
}
