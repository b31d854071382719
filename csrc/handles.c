/* Descriptors: the command is due every number that it would have had without
 * us, and a process of ours that lives on must hold nothing of the harness's
 * but what it forwards to. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define HIGH 10
#define MOST 65536

int
nc_move_high(int fd)
{
    if (fd < 0)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
    if (high < 0)
        high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = errno;
    close(fd);
    errno = error;
    return high;
}

int
nc_pipe(int ends[2], bool blocking)
{
    if (pipe(ends) < 0)
        return -1;
    ends[0] = nc_move_high(ends[0]);
    ends[1] = nc_move_high(ends[1]);
    if (ends[0] < 0 || ends[1] < 0)
        return -1;
    if (!blocking) {
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static bool
is_kept(int fd, const int *kept, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kept[i] == fd)
            return true;
    return false;
}

#if defined __linux__
#include <sys/syscall.h>

static int
close_range_(unsigned first, unsigned last)
{
#ifdef SYS_close_range
    return (int)syscall(SYS_close_range, first, last, 0);
#else
    errno = ENOSYS;
    return -1;
#endif
}
#else
static int
close_range_(unsigned first, unsigned last)
{
    (void)first, (void)last;
    errno = ENOSYS;
    return -1;
}
#endif

/* Where the kernel is older than close_range (5.9). Without an allocation, for
 * a process that shares its memory. */
static void
close_each(const int *kept, size_t count)
{
    long most = sysconf(_SC_OPEN_MAX);
    if (most < 0 || most > MOST)
        most = MOST;
    for (int fd = 0; fd < most; fd++)
        if (!is_kept(fd, kept, count))
            close(fd);
}

void
nc_close_all_but(const int *kept, size_t count)
{
    /* The gaps between the kept ones, from below; few, so without sorting. */
    for (unsigned first = 0;;) {
        unsigned next = ~0u;
        for (size_t i = 0; i < count; i++)
            if (kept[i] >= 0 && (unsigned)kept[i] >= first &&
                (unsigned)kept[i] < next)
                next = (unsigned)kept[i];
        if (next != first && close_range_(first, next - 1) < 0 &&
            errno != EINVAL) {
            close_each(kept, count);
            return;
        }
        if (next == ~0u)
            return;
        first = next + 1;
    }
}
