/* Descriptors made, doubled, passed on and closed. */
#include <string.h>

#include "shim.h"

NC_EXPORT int
close(int fd)
{
    int refused = nc_note_close(fd);
    int result = REAL(close)(fd);
    if (nc_unlikely(refused) && !result) {
        errno = EPERM;
        return -1;
    }
    return result;
}

NC_ALSO(int, __close, (int), close);

/* Closing by hand what is still followed, before the kernel closes it. */
static void
note_close_from(unsigned first, unsigned last)
{
    int kept = errno;
    int highest = nc_fd_last();
    for (unsigned fd = first; fd <= last && (int)fd <= highest; fd++)
        if (nc_fd_get((int)fd) != NC_UNKNOWN)
            nc_note_close((int)fd);
    nc_socket_lost_between(first, last);
    errno = kept;
}

NC_EXPORT int
close_range(unsigned first, unsigned last, int flags)
{
    int only_marks = flags & 4; /* CLOSE_RANGE_CLOEXEC */
    if (nc_process.active && !nc_is_guest() && !only_marks && first <= last)
        note_close_from(first, last);
    return REAL(close_range)(first, last, flags);
}

NC_EXPORT void
closefrom(int first)
{
    if (nc_process.active && !nc_is_guest())
        note_close_from(first < 0 ? 0 : (unsigned)first, ~0U);
    REAL(closefrom)(first);
}

NC_EXPORT int
closedir(DIR *folder)
{
    if (nc_process.active && !nc_is_guest()) {
        int kept = errno;
        int fd = dirfd(folder);
        if (fd >= 0)
            nc_note_close(fd);
        errno = kept;
    }
    return REAL(closedir)(folder);
}

NC_EXPORT int
dup(int fd)
{
    int to = REAL(dup)(fd);
    if (to >= 0)
        nc_note_dup(fd, to);
    return to;
}

static void
before_replacing(int from, int to)
{
    if (from != to && to >= 0 &&
        nc_raw(fcntl, from, F_GETFD) >= 0) /* else nothing is replaced */
        nc_note_close(to);
}

NC_EXPORT int
dup2(int from, int to)
{
    if (nc_process.active && !nc_is_guest()) {
        int kept = errno;
        before_replacing(from, to);
        errno = kept;
    }
    int result = REAL(dup2)(from, to);
    if (result >= 0)
        nc_note_dup(from, to);
    return result;
}

NC_ALSO(int, __dup2, (int, int), dup2);

NC_EXPORT int
dup3(int from, int to, int flags)
{
    if (nc_process.active && !nc_is_guest()) {
        int kept = errno;
        before_replacing(from, to);
        errno = kept;
    }
    int result = REAL(dup3)(from, to, flags);
    if (result >= 0)
        nc_note_dup(from, to);
    return result;
}

#define FCNTL(name)                                                        \
    va_list list;                                                          \
    va_start(list, command);                                               \
    void *argument = va_arg(list, void *);                                 \
    va_end(list);                                                          \
    int result = REAL(name)(fd, command, argument);                        \
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0) \
        nc_note_dup(fd, result);                                           \
    return result

NC_EXPORT int
fcntl(int fd, int command, ...)
{
    FCNTL(fcntl);
}

NC_ALSO(int, __fcntl, (int, int, ...), fcntl);

NC_EXPORT int
fcntl64(int fd, int command, ...)
{
    FCNTL(fcntl64);
}

/* Who gets a descriptor passed may move its offset. */
NC_EXPORT ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent = REAL(sendmsg)(fd, message, flags);
    if (sent >= 0 && nc_process.active && message->msg_controllen)
        __atomic_add_fetch(&nc_process.epoch, 1, __ATOMIC_RELAXED);
    return sent;
}

NC_EXPORT int
chdir(const char *path)
{
    int result = REAL(chdir)(path);
    if (!result && !nc_is_guest())
        nc_cwd_changed();
    return result;
}

NC_EXPORT int
fchdir(int fd)
{
    int result = REAL(fchdir)(fd);
    if (!result && !nc_is_guest())
        nc_cwd_changed();
    return result;
}

NC_EXPORT int
chroot(const char *path)
{
    if (nc_process.active)
        nc_lifeline_open(); /* the socket's path may be out of sight soon */
    int result = REAL(chroot)(path);
    if (!result && !nc_is_guest())
        nc_cwd_changed();
    return result;
}
