/* musl: what its headers do not have, and what they have otherwise. */
#ifndef NOCLOBBER_MUSL_H
#define NOCLOBBER_MUSL_H
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/uio.h>

typedef int nc_ioctl_number;

/* Newer ones have these functions. */
ssize_t preadv2(int, const struct iovec *, int, off_t, int);
int renameat2(int, const char *, int, const char *, unsigned);
int close_range(unsigned, unsigned, int);
int execveat(int, const char *, char *const[], char *const[], int);
/* Here O_PATH is a mode of access. */
#undef O_ACCMODE
#define O_ACCMODE (O_RDONLY | O_WRONLY | O_RDWR)
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#define RENAME_WHITEOUT 4
#endif

/* Macros make one name of two functions that the library has (LFS64), and that
 * programs call which were built for glibc. */
#undef open64
#undef openat64
#undef creat64
#undef mkstemp64
#undef mkostemp64
#undef mkstemps64
#undef mkostemps64
#undef fopen64
#undef freopen64
#undef fseeko64
#undef fsetpos64
#undef pread64
#undef preadv64
#undef lseek64
#undef sendfile64
#undef fstat64
#undef mmap64
#undef truncate64
#undef ftruncate64
#undef fallocate64
#endif
