/* Calls that make names or change what is known of a file, not what it holds.
 * In the default tier each is a look at one flag and the call itself. */
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include "shim.h"

#define HERE AT_FDCWD
#define LINK AT_SYMLINK_NOFOLLOW

/* ---- made ---------------------------------------------------------- */

NC_EXPORT int
mkdir(const char *path, mode_t mode)
{
    NC_GUARDED(nc_may_make(HERE, path, 1), REAL(mkdir)(path, mode));
}

NC_EXPORT int
mkdirat(int dirfd, const char *path, mode_t mode)
{
    NC_GUARDED(nc_may_make(dirfd, path, 1), REAL(mkdirat)(dirfd, path, mode));
}

/* Devices are root's to make. */
static int
may_make_node(int dirfd, const char *path, mode_t mode)
{
    int is_device = S_ISCHR(mode) || S_ISBLK(mode);
    return (!is_device || !nc_raw(geteuid)) && nc_may_make(dirfd, path, 0);
}

NC_EXPORT int
mknod(const char *path, mode_t mode, dev_t device)
{
    NC_GUARDED(may_make_node(HERE, path, mode),
               REAL(mknod)(path, mode, device));
}

NC_EXPORT int
mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    NC_GUARDED(may_make_node(dirfd, path, mode),
               REAL(mknodat)(dirfd, path, mode, device));
}

/* What programs call that were built before glibc 2.33. */
int __xmknod(int version, const char *path, mode_t mode, dev_t *device);
int __xmknodat(int version, int dirfd, const char *path, mode_t mode,
               dev_t *device);

NC_EXPORT int
__xmknod(int version, const char *path, mode_t mode, dev_t *device)
{
    NC_GUARDED(may_make_node(HERE, path, mode),
               REAL(__xmknod)(version, path, mode, device));
}

NC_EXPORT int
__xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device)
{
    NC_GUARDED(may_make_node(dirfd, path, mode),
               REAL(__xmknodat)(version, dirfd, path, mode, device));
}

NC_EXPORT int
mkfifo(const char *path, mode_t mode)
{
    NC_GUARDED(nc_may_make(HERE, path, 0), REAL(mkfifo)(path, mode));
}

NC_EXPORT int
mkfifoat(int dirfd, const char *path, mode_t mode)
{
    NC_GUARDED(nc_may_make(dirfd, path, 0), REAL(mkfifoat)(dirfd, path, mode));
}

/* An empty text is no link. */
static int
may_point(const char *to, int dirfd, const char *path)
{
    return nc_readable(to) && *to && nc_may_make(dirfd, path, 0);
}

NC_EXPORT int
symlink(const char *to, const char *path)
{
    NC_GUARDED(may_point(to, HERE, path), REAL(symlink)(to, path));
}

NC_EXPORT int
symlinkat(const char *to, int dirfd, const char *path)
{
    NC_GUARDED(may_point(to, dirfd, path), REAL(symlinkat)(to, dirfd, path));
}

/* A socket of the Unix family that is bound to a path makes a file there. */
static int
may_bind(int fd, const struct sockaddr *address, socklen_t size)
{
    const struct sockaddr_un *to = (const void *)address;
    char path[sizeof to->sun_path + 1];
    struct sockaddr_un own;
    socklen_t own_size = sizeof own;
    int kept = errno;
    size_t start = offsetof(struct sockaddr_un, sun_path);
    int makes = size > start && size <= sizeof *to && nc_readable(address) &&
                to->sun_family == AF_UNIX && to->sun_path[0] &&
                !nc_raw(getsockname, fd, &own, &own_size) &&
                own.sun_family == AF_UNIX && own_size == sizeof own.sun_family;
    errno = kept;
    if (!makes)
        return 0;
    memcpy(path, to->sun_path, size - start);
    path[size - start] = 0;
    return nc_may_make(HERE, path, 0);
}

NC_EXPORT int
bind(int fd, const struct sockaddr *address, socklen_t size)
{
    NC_GUARDED(may_bind(fd, address, size), REAL(bind)(fd, address, size));
}

/* ---- modes and owners ---------------------------------------------- */

NC_EXPORT int
chmod(const char *path, mode_t mode)
{
    NC_GUARDED(nc_may_change(HERE, path, 0, NC_RIGHT_OWN),
               REAL(chmod)(path, mode));
}

NC_EXPORT int
fchmod(int fd, mode_t mode)
{
    NC_GUARDED(nc_may_change_fd(fd, NC_RIGHT_OWN), REAL(fchmod)(fd, mode));
}

/* A symbolic link has no mode of its own: the kernel says so. */
static int
may_change_mode(int dirfd, const char *path, int flags)
{
    struct stat st;
    int kept = errno;
    int fd = flags & LINK ? nc_look_at(dirfd, path, &st) : -1;
    nc_let_go(fd, kept);
    return !(flags & ~(LINK | AT_EMPTY_PATH)) &&
           !(fd >= 0 && S_ISLNK(st.st_mode)) &&
           nc_may_change(dirfd, path, flags, NC_RIGHT_OWN);
}

NC_EXPORT int
fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    NC_GUARDED(may_change_mode(dirfd, path, flags),
               REAL(fchmodat)(dirfd, path, mode, flags));
}

NC_EXPORT int
lchmod(const char *path, mode_t mode)
{
    NC_GUARDED(may_change_mode(HERE, path, LINK), REAL(lchmod)(path, mode));
}

NC_EXPORT int
chown(const char *path, uid_t user, gid_t group)
{
    NC_GUARDED(nc_may_change(HERE, path, 0, NC_RIGHT_OWN),
               REAL(chown)(path, user, group));
}

NC_EXPORT int
lchown(const char *path, uid_t user, gid_t group)
{
    NC_GUARDED(nc_may_change(HERE, path, LINK, NC_RIGHT_OWN),
               REAL(lchown)(path, user, group));
}

NC_EXPORT int
fchown(int fd, uid_t user, gid_t group)
{
    NC_GUARDED(nc_may_change_fd(fd, NC_RIGHT_OWN),
               REAL(fchown)(fd, user, group));
}

NC_EXPORT int
fchownat(int dirfd, const char *path, uid_t user, gid_t group, int flags)
{
    NC_GUARDED(!(flags & ~(LINK | AT_EMPTY_PATH)) &&
                   nc_may_change(dirfd, path, flags, NC_RIGHT_OWN),
               REAL(fchownat)(dirfd, path, user, group, flags));
}

/* ---- times --------------------------------------------------------- */

static int
is_time(const struct timespec *time)
{
    return (time->tv_nsec >= 0 && time->tv_nsec < 1000000000) ||
           time->tv_nsec == UTIME_NOW || time->tv_nsec == UTIME_OMIT;
}

/* `times`: two, or NULL for now; 0 where nothing is set, or an error is. */
static int
sets_times(const struct timespec *times)
{
    return !times || (nc_readable(times) && nc_readable(times + 1) &&
                      is_time(&times[0]) && is_time(&times[1]) &&
                      !(times[0].tv_nsec == UTIME_OMIT &&
                        times[1].tv_nsec == UTIME_OMIT));
}

static int
sets_old_times(const struct timeval *times)
{
    for (int i = 0; times && i < 2; i++)
        if (!nc_readable(times + i) || times[i].tv_usec < 0 ||
            times[i].tv_usec >= 1000000)
            return 0;
    return 1;
}

#define RIGHT(times) ((times) ? NC_RIGHT_OWN : NC_RIGHT_EITHER)

NC_EXPORT int
utime(const char *path, const struct utimbuf *times)
{
    NC_GUARDED((!times || nc_readable(times)) &&
                   nc_may_change(HERE, path, 0, RIGHT(times)),
               REAL(utime)(path, times));
}

NC_EXPORT int
utimes(const char *path, const struct timeval times[2])
{
    NC_GUARDED(sets_old_times(times) &&
                   nc_may_change(HERE, path, 0, RIGHT(times)),
               REAL(utimes)(path, times));
}

NC_EXPORT int
lutimes(const char *path, const struct timeval times[2])
{
    NC_GUARDED(sets_old_times(times) &&
                   nc_may_change(HERE, path, LINK, RIGHT(times)),
               REAL(lutimes)(path, times));
}

NC_EXPORT int
futimes(int fd, const struct timeval times[2])
{
    NC_GUARDED(sets_old_times(times) && nc_may_change_fd(fd, RIGHT(times)),
               REAL(futimes)(fd, times));
}

NC_EXPORT int
futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    NC_GUARDED(sets_old_times(times) &&
                   nc_may_change(dirfd, path, 0, RIGHT(times)),
               REAL(futimesat)(dirfd, path, times));
}

NC_EXPORT int
utimensat(int dirfd, const char *path, const struct timespec times[2],
          int flags)
{
    NC_GUARDED(!(flags & ~(LINK | AT_EMPTY_PATH)) && sets_times(times) &&
                   nc_may_change(dirfd, path, flags, RIGHT(times)),
               REAL(utimensat)(dirfd, path, times, flags));
}

NC_EXPORT int
futimens(int fd, const struct timespec times[2])
{
    NC_GUARDED(sets_times(times) && nc_may_change_fd(fd, RIGHT(times)),
               REAL(futimens)(fd, times));
}

/* ---- by number ----------------------------------------------------- */

#define INT(i) ((int)v[i])
#define TEXT(i) ((const char *)v[i])
#define ROOM(i) ((const void *)v[i])

int
nc_may_by_number(long number, const long v[6])
{
    switch (number) {
    case SYS_mkdirat:
        return nc_may_make(INT(0), TEXT(1), 1);
    case SYS_mknodat:
        return may_make_node(INT(0), TEXT(1), (mode_t)v[2]);
    case SYS_symlinkat:
        return may_point(TEXT(0), INT(1), TEXT(2));
    case SYS_fchmod:
    case SYS_fchown:
        return nc_may_change_fd(INT(0), NC_RIGHT_OWN);
    case SYS_fchmodat: /* has no flags */
        return may_change_mode(INT(0), TEXT(1), 0);
#ifdef SYS_fchmodat2
    case SYS_fchmodat2:
        return may_change_mode(INT(0), TEXT(1), INT(3));
#endif
    case SYS_fchownat:
        return nc_may_change(INT(0), TEXT(1), INT(4), NC_RIGHT_OWN);
    case SYS_utimensat:
        return sets_times(ROOM(2)) &&
               nc_may_change(INT(0), TEXT(1), INT(3), RIGHT(v[2]));
    case SYS_setxattr:
        return nc_may_set(TEXT(0), TEXT(1), INT(4), 1);
    case SYS_lsetxattr:
        return nc_may_set(TEXT(0), TEXT(1), INT(4), 0);
    case SYS_fsetxattr:
        return nc_may_set_of(INT(0), TEXT(1), INT(4));
    case SYS_removexattr:
        return nc_may_set(TEXT(0), TEXT(1), NC_REMOVES, 1);
    case SYS_lremovexattr:
        return nc_may_set(TEXT(0), TEXT(1), NC_REMOVES, 0);
    case SYS_fremovexattr:
        return nc_may_set_of(INT(0), TEXT(1), NC_REMOVES);
    case SYS_bind:
        return may_bind(INT(0), ROOM(1), (socklen_t)v[2]);
#ifdef SYS_mkdir
    case SYS_mkdir:
        return nc_may_make(HERE, TEXT(0), 1);
    case SYS_mknod:
        return may_make_node(HERE, TEXT(0), (mode_t)v[1]);
    case SYS_symlink:
        return may_point(TEXT(0), HERE, TEXT(1));
    case SYS_chmod:
    case SYS_chown:
        return nc_may_change(HERE, TEXT(0), 0, NC_RIGHT_OWN);
    case SYS_lchown:
        return nc_may_change(HERE, TEXT(0), LINK, NC_RIGHT_OWN);
    case SYS_utime:
        return nc_may_change(HERE, TEXT(0), 0, RIGHT(v[1]));
    case SYS_utimes:
        return sets_old_times(ROOM(1)) &&
               nc_may_change(HERE, TEXT(0), 0, RIGHT(v[1]));
    case SYS_futimesat:
        return sets_old_times(ROOM(2)) &&
               nc_may_change(INT(0), TEXT(1), 0, RIGHT(v[2]));
#endif
    default:
        return 0;
    }
}
