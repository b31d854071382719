/* One output on its way: the same bytes in the same order, as soon as they
 * come, with a pipe's back pressure and a pipe's end. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER 65536        /* bytes: a pipe's own size on Linux */
#define TURN 16             /* buffers, before the other stream's turn */
#define BULK 32768          /* bytes at once that are worth moving unread */
#define WIDE 1048576        /* bytes: a pipe's size for a long stream, */
#define LONG_STREAM 4194304 /* one of so many bytes */
#define DRAIN_MOST 1048576  /* bytes of a terminal that never falls silent */

/* The harness's end in a mode that does not block us. Its flags are shared
 * with everybody who holds it, so they stay; Linux opens pipes and terminals
 * anew through /proc. */
static void
open_anew(struct nc_stream *stream)
{
    char path[64];
    struct stat before, after;
    snprintf(path, sizeof path, "/proc/self/fd/%d", stream->to);
    int flags = fcntl(stream->to, F_GETFL);
    if (flags < 0 || flags & O_NONBLOCK)
        return;
    stream->may_block = true;
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(stream->to, &before) < 0 || fstat(fd, &after) < 0 ||
        before.st_dev != after.st_dev || before.st_ino != after.st_ino) {
        close(fd);
        return;
    }
    close(stream->to);
    stream->to = fd;
    stream->may_block = false;
}

void
nc_stream_open(struct nc_stream *stream)
{
    stream->buffer = nc_alloc(BUFFER);
    fcntl(stream->from, F_SETFL, O_NONBLOCK);
    if (stream->target == NC_TO_PIPE || stream->target == NC_TO_TERMINAL)
        open_anew(stream);
}

void
nc_stream_close(struct nc_stream *stream)
{
    /* Nobody reads: the command's next write must tell it so. */
    if (stream->from >= 0)
        close(stream->from);
    if (stream->to >= 0)
        close(stream->to);
    stream->from = stream->to = -1;
    stream->start = stream->end = 0;
    stream->stuck = false;
}

bool
nc_stream_is_blocked(const struct nc_stream *stream)
{
    return stream->start < stream->end || stream->stuck;
}

static void
forwarded(struct nc_stream *stream, size_t size)
{
    stream->owed -= size < stream->owed ? size : stream->owed;
}

static ssize_t
put(const struct nc_stream *stream, const char *text, size_t size)
{
    if (stream->target == NC_TO_SOCKET)
        return send(stream->to, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (stream->may_block) {
        /* A pipe that is ready takes this much without blocking. */
        struct pollfd ready = {.fd = stream->to, .events = POLLOUT};
        if (poll(&ready, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        size = size < PIPE_BUF ? size : PIPE_BUF;
    }
    return write(stream->to, text, size);
}

/* Returns false when the reader is too slow, or gone. */
static bool
write_out(struct nc_stream *stream, struct nc_spool *spool)
{
    while (stream->start < stream->end) {
        char *text = stream->buffer + stream->start;
        ssize_t size = put(stream, text, stream->end - stream->start);
        if (size > 0) {
            nc_spool_add(spool, text, (size_t)size, stream->tag);
            stream->start += (size_t)size;
            forwarded(stream, (size_t)size);
        } else if (size < 0 && errno != EINTR) {
            if (errno != EAGAIN)
                nc_stream_close(stream);
            return false;
        }
    }
    stream->start = stream->end = 0;
    return true;
}

/* A long stream: fewer and larger steps. A pipe that nobody reads never gets
 * here, and holds back its writer as early as any. */
static void
widen(const struct nc_stream *stream)
{
#ifdef F_SETPIPE_SZ
    int ends[] = {stream->from, stream->to};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (fcntl(ends[i], F_GETPIPE_SZ) < WIDE)
            fcntl(ends[i], F_SETPIPE_SZ, WIDE);
#else
    (void)stream;
#endif
}

/* Move pages from pipe to pipe, unread, all but what may be the end. Little
 * pieces are read and written instead: moved, each would fill a page's place
 * in the harness's pipe, which then takes less than without us. Returns 1
 * moved, 0 not applicable, -1 stuck or gone. */
static int
move_pages(struct nc_stream *stream, struct nc_spool *spool)
{
#ifdef __linux__
    int waiting;
    size_t end;
    if (stream->target != NC_TO_PIPE || !nc_spool_wants_end_only(spool, &end) ||
        ioctl(stream->from, FIONREAD, &waiting) < 0 ||
        (size_t)waiting < end + BULK)
        return 0;
    ssize_t moved =
        splice(stream->from, NULL, stream->to, NULL, (size_t)waiting - end,
               SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (moved > 0) {
        nc_spool_skip(spool, (size_t)moved);
        forwarded(stream, (size_t)moved);
        if (stream->moved < LONG_STREAM &&
            (stream->moved += (uint64_t)moved) >= LONG_STREAM)
            widen(stream);
        return 1;
    }
    if (moved < 0 && errno == EINTR)
        return 1;
    stream->stuck = moved < 0 && errno == EAGAIN;
    if (!stream->stuck)
        nc_stream_close(stream);
    return -1;
#else
    (void)stream, (void)spool;
    return 0;
#endif
}

bool
nc_stream_move(struct nc_stream *stream, struct nc_spool *spool)
{
    bool rested = stream->resting;
    stream->stuck = stream->resting = false;
    for (int turn = 0; turn < TURN; turn++) {
        if (stream->from < 0 || !write_out(stream, spool))
            return false;
        int moved = move_pages(stream, spool);
        if (moved < 0)
            return false;
        if (moved > 0) {
            rested = false;
            continue;
        }
        if (stream->moved >= LONG_STREAM && !rested) {
            stream->resting = true;
            return false;
        }
        ssize_t got = read(stream->from, stream->buffer, BUFFER);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN) {
            if (stream->target == NC_TO_TERMINAL)
                stream->owed = 0;
            return false;
        }
        if (got < 0 && stream->target == NC_TO_TERMINAL) {
            stream->hung = true;
            stream->owed = 0;
            return false;
        }
        if (got <= 0) {
            nc_stream_close(stream);
            return false;
        }
        stream->end = (size_t)got;
    }
    return true;
}

void
nc_stream_drain(struct nc_stream *stream)
{
    int waiting = 0;
    stream->draining = true;
    stream->owed = stream->end - stream->start;
    if (stream->from < 0)
        return;
    /* What is under way inside a terminal cannot be counted: up to silence. */
    if (stream->target == NC_TO_TERMINAL)
        stream->owed += DRAIN_MOST;
    else if (ioctl(stream->from, FIONREAD, &waiting) == 0)
        stream->owed += (size_t)waiting;
}

bool
nc_stream_is_drained(const struct nc_stream *stream)
{
    return stream->from < 0 || (stream->draining && !stream->owed);
}
