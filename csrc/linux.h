/* Linux: system calls that go past every interposed name, and the few facts
 * of the C library that have no portable spelling. */
#ifndef NOCLOBBER_LINUX_H
#define NOCLOBBER_LINUX_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

/* The C library's syscall(), past our own hook of that name. */
long nc_raw_syscall(long number, ...);

#define nc_raw(number, ...) nc_raw_syscall(SYS_##number, ##__VA_ARGS__)

static inline void *
nc_raw_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
#ifdef SYS_mmap
    return (void *)nc_raw(mmap, at, size, prot, flags, fd, offset);
#else
    return (void *)nc_raw(mmap2, at, size, prot, flags, fd, offset >> 12);
#endif
}

static inline int
nc_raw_munmap(void *at, size_t size)
{
    return (int)nc_raw(munmap, at, size);
}

static inline int
nc_raw_open(int dirfd, const char *path, int flags, mode_t mode)
{
    return (int)nc_raw(openat, dirfd, path, flags, mode);
}

static inline int
nc_raw_close(int fd)
{
    return (int)nc_raw(close, fd);
}

static inline off_t
nc_raw_lseek(int fd, off_t offset, int whence)
{
    return (off_t)nc_raw(lseek, fd, offset, whence);
}

static inline ssize_t
nc_raw_readlink(const char *path, char *out, size_t size)
{
    return nc_raw(readlinkat, AT_FDCWD, path, out, size);
}

static inline pid_t
nc_raw_getpid(void)
{
    return (pid_t)nc_raw(getpid);
}

static inline pid_t
nc_raw_gettid(void)
{
    return (pid_t)nc_raw(gettid);
}

/* Can 8 bytes there be read? The kernel copies a signal set in before it finds
 * that -1 is no way to change the mask; nothing else comes of it. */
static inline int
nc_readable(const void *at)
{
    int kept = errno;
    int is_bad = nc_raw(rt_sigprocmask, -1, at, NULL, 8) && errno == EFAULT;
    errno = kept;
    return at && !is_bad;
}

/* Whether this process has one thread, where the C library tells (glibc 2.32). */
extern char __libc_single_threaded __attribute__((weak));

static inline int
nc_is_alone(void)
{
    return &__libc_single_threaded && __libc_single_threaded;
}

/* Of a receiving call: the descriptors that it brings stay out of programs. */
#define NC_RECEIVE_FLAGS MSG_CMSG_CLOEXEC

/* The terminal that one of a pseudo-terminal's two ends is of, by its number
 * and the time when it was made, as both ends know it; 0: none. */
uint64_t nc_terminal_of(int fd, const struct stat *st);

static inline int
nc_is_terminal_master(const struct stat *st)
{
    return major(st->st_rdev) == 5 && minor(st->st_rdev) == 2; /* /dev/ptmx */
}

#define NC_FD_LINK "/proc/self/fd/" /* names the file behind a descriptor */
void nc_link_to(int fd, char *out); /* that path of it, 64 bytes at most */
#define NC_OPEN_LOOK (O_PATH | O_CLOEXEC) /* looks at a file, opens nothing */
#endif
