/* Pipes: which end this process holds, and how much went through at most. The
 * daemon joins the ends by the pipe's inode. */
#include <string.h>

#include "shim.h"

/* Bytes that this process wrote to whatever: an upper bound for any one pipe,
 * and known even where stdio wrote them inside the C library. */
static uint64_t
written_in_all(void)
{
    char text[512];
    int fd = nc_raw_open(AT_FDCWD, "/proc/self/io", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return UINT64_MAX;
    ssize_t got = nc_raw(read, fd, text, sizeof text - 1);
    nc_raw_close(fd);
    if (got <= 0)
        return UINT64_MAX;
    text[got] = 0;
    const char *at = strstr(text, "wchar: ");
    if (!at)
        return UINT64_MAX;
    uint64_t bytes = 0;
    for (at += 7; *at >= '0' && *at <= '9'; at++)
        bytes = bytes * 10 + (uint64_t)(*at - '0');
    return bytes;
}

/* Standard input may be read by stdio alone, and its end is told of last. */
static int
has_input_pipe(void)
{
    struct nc_description *in = nc_fd_get(0);
    return nc_process.has_input_pipe ||
           (in != NC_UNKNOWN && in != NC_NOTHING && in->kind == NC_CHANNEL);
}

static void
tell(const struct nc_description *of, uint16_t flags, uint64_t bytes)
{
    struct nc_pipe record = {
        .record = {.type = NC_PIPE, .flags = flags},
        .ino = of->version.ino,
        .bytes = bytes,
    };
    nc_report(&record.record, sizeof record, NULL, 0, NULL, 0);
}

void
nc_channel_tell(int fd, struct nc_description *of, enum nc_moment moment)
{
    if (nc_process.agent) { /* it passes nothing on: it is told, and tells */
        if (of->intake && moment == NC_AT_QUESTION)
            nc_intake_tell(of, 0);
        return;
    }
    if (moment == NC_AT_SPAWN)
        return; /* nothing went through that its end will not tell */
    if (of->version.ino == nc_process.pump[0] ||
        of->version.ino == nc_process.pump[1])
        return; /* leads to the agent, not to another process */
    int may_write = moment != NC_AT_QUESTION &&
                    (nc_process.spoke || has_input_pipe() || nc_has_news());
    if (fd != 0 && !(of->flags & NC_NEWS) && !may_write)
        return; /* whichever end it is */
    int is_input = (nc_raw(fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
    if (is_input) {
        if (moment == NC_AT_EXEC && fd == 0)
            return; /* the next image reads it */
        if (!(of->flags & NC_NEWS) && fd != 0)
            return;
        of->flags &= ~(uint32_t)NC_NEWS;
        nc_process.has_input_pipe = 1;
        tell(of, NC_PIPE_READ, of->bytes ? of->bytes : UINT64_MAX);
    } else if (may_write) {
        if (moment == NC_AT_EXEC)
            return; /* the next image writes it */
        if (moment == NC_AT_CLOSE)
            nc_tell_files(); /* before the reader sees the end */
        tell(of, NC_PIPE_WRITE, written_in_all());
    }
}
