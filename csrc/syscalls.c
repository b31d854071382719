/* syscall(2): the C library's door for numbers. A call that has a hooked twin
 * goes through that twin; the rest goes on as it stands. */
#include "shim.h"

#ifdef SYS_openat2
/* Not, where the kernel will refuse the struct as it stands. */
static int
can_judge(const char *how, size_t size)
{
    return size >= sizeof(uint64_t) && size <= NC_HOW_MAX && nc_readable(how) &&
           nc_readable(how + size - sizeof(uint64_t)) &&
           !(*(const uint64_t *)(const void *)how >> 32);
}
#endif

static long
open_by_number(long number, const long v[6])
{
    struct nc_opening opening = {.hook = NC_HOOK_syscall, .dirfd = AT_FDCWD};
    switch (number) {
#ifdef SYS_open
    case SYS_open:
        opening.path = (const char *)v[0];
        opening.flags = (int)v[1];
        opening.mode = (mode_t)v[2];
        break;
    case SYS_creat:
        opening.path = (const char *)v[0];
        opening.flags = O_CREAT | O_WRONLY | O_TRUNC;
        opening.mode = (mode_t)v[1];
        break;
#endif
#ifdef SYS_openat2
    case SYS_openat2:
        opening.dirfd = (int)v[0];
        opening.path = (const char *)v[1];
        opening.how = (const void *)v[2];
        opening.how_size = (size_t)v[3];
        if (!can_judge(opening.how, opening.how_size))
            return REAL(syscall)(number, v[0], v[1], v[2], v[3]);
        opening.flags = (int)*(const uint64_t *)opening.how;
        break;
#endif
    default:
        opening.dirfd = (int)v[0];
        opening.path = (const char *)v[1];
        opening.flags = (int)v[2];
        opening.mode = (mode_t)v[3];
    }
    return nc_open(&opening);
}

#define INT(i) ((int)v[i])
#define TEXT(i) ((const char *)v[i])
#define ROOM(i) ((void *)v[i])
#define OFF(i) ((off_t)v[i])
#define SIZE(i) ((size_t)v[i])

NC_EXPORT long
syscall(long number, ...)
{
    long v[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        v[i] = va_arg(list, long);
    va_end(list);
    if (!nc_process.active)
        return REAL(syscall)(number, v[0], v[1], v[2], v[3], v[4], v[5]);
    switch (number) {
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
#endif
#ifdef SYS_openat2
    case SYS_openat2:
#endif
    case SYS_openat:
        return open_by_number(number, v);
#ifdef SYS_rename
    case SYS_rename:
        return rename(TEXT(0), TEXT(1));
    case SYS_rmdir:
        return rmdir(TEXT(0));
    case SYS_unlink:
        return unlink(TEXT(0));
    case SYS_link:
        return link(TEXT(0), TEXT(1));
    case SYS_dup2:
        return dup2(INT(0), INT(1));
#endif
#ifdef SYS_renameat
    case SYS_renameat:
        return renameat(INT(0), TEXT(1), INT(2), TEXT(3));
#endif
    case SYS_renameat2:
        return renameat2(INT(0), TEXT(1), INT(2), TEXT(3), (unsigned)v[4]);
    case SYS_unlinkat:
        return unlinkat(INT(0), TEXT(1), INT(2));
    case SYS_linkat:
        return linkat(INT(0), TEXT(1), INT(2), TEXT(3), INT(4));
    case SYS_mkdirat:
    case SYS_mknodat:
    case SYS_symlinkat:
    case SYS_fchmod:
    case SYS_fchmodat:
#ifdef SYS_fchmodat2
    case SYS_fchmodat2:
#endif
    case SYS_fchown:
    case SYS_fchownat:
    case SYS_utimensat:
    case SYS_setxattr:
    case SYS_lsetxattr:
    case SYS_fsetxattr:
    case SYS_removexattr:
    case SYS_lremovexattr:
    case SYS_fremovexattr:
    case SYS_bind:
#ifdef SYS_mkdir
    case SYS_mkdir:
    case SYS_mknod:
    case SYS_symlink:
    case SYS_chmod:
    case SYS_chown:
    case SYS_lchown:
    case SYS_utime:
    case SYS_utimes:
    case SYS_futimesat:
#endif
        if (NC_REFUSES(nc_may_by_number(number, v)))
            return -1;
        break;
    case SYS_truncate:
        return truncate(TEXT(0), OFF(1));
    case SYS_ftruncate:
        return ftruncate(INT(0), OFF(1));
    case SYS_fallocate:
        return fallocate(INT(0), INT(1), OFF(2), OFF(3));
    case SYS_ioctl:
        return ioctl(INT(0), (nc_ioctl_number)v[1], ROOM(2));
    case SYS_read:
        return read(INT(0), ROOM(1), SIZE(2));
    case SYS_pread64:
        return pread(INT(0), ROOM(1), SIZE(2), OFF(3));
    case SYS_readv:
        return readv(INT(0), ROOM(1), INT(2));
    case SYS_preadv:
        return preadv(INT(0), ROOM(1), INT(2), OFF(3));
    case SYS_preadv2: /* the sixth is the flags, after the high half */
        return preadv2(INT(0), ROOM(1), INT(2), OFF(3), INT(5));
    case SYS_lseek:
        return lseek(INT(0), OFF(1), INT(2));
    case SYS_sendfile:
        return sendfile(INT(0), INT(1), ROOM(2), SIZE(3));
    case SYS_splice:
        return splice(INT(0), ROOM(1), INT(2), ROOM(3), SIZE(4),
                      (unsigned)v[5]);
    case SYS_copy_file_range:
        return copy_file_range(INT(0), ROOM(1), INT(2), ROOM(3), SIZE(4),
                               (unsigned)v[5]);
    case SYS_close:
        return close(INT(0));
#ifdef SYS_close_range
    case SYS_close_range:
        return close_range((unsigned)v[0], (unsigned)v[1], INT(2));
#endif
    case SYS_dup:
        return dup(INT(0));
    case SYS_dup3:
        return dup3(INT(0), INT(1), INT(2));
    case SYS_fcntl:
        return fcntl(INT(0), INT(1), ROOM(2));
    case SYS_chdir:
        return chdir(TEXT(0));
    case SYS_fchdir:
        return fchdir(INT(0));
    case SYS_unshare:
        return unshare(INT(0));
    case SYS_execve:
        return execve(TEXT(0), ROOM(1), ROOM(2));
    case SYS_execveat:
        return execveat(INT(0), TEXT(1), ROOM(2), ROOM(3), INT(4));
    case SYS_exit_group:
        _exit(INT(0));
#ifdef SYS_io_uring_setup
    case SYS_io_uring_setup: /* nobody could follow it */
        errno = ENOSYS;
        return -1;
#endif
#ifdef SYS_seccomp
    case SYS_seccomp:
        nc_lifeline_open();
        nc_silence();
        break;
#endif
    case SYS_clone: /* bubblewrap and its like */
        nc_lifeline_open();
        nc_before_spawn();
        break;
    default:
        break;
    }
    return REAL(syscall)(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}
