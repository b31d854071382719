/* What musl has not, as the entries name it. Those of its functions are left
 * out; the guard's own stand where newer ones have some (lacking, below). */
#ifndef ENTRY_MUSL_H
#define ENTRY_MUSL_H
#include <stdlib.h>

#define WEAK __attribute__((weak))
WEAK int renameat2(int, const char *, int, const char *, unsigned);
WEAK int close_range(unsigned, unsigned, int);
WEAK void closefrom(int);
WEAK int execveat(int, const char *, char *const[], char *const[], int);
WEAK ssize_t preadv2(int, const struct iovec *, int, off_t, int);
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

/* Names of errors: their numbers say as much where two runs are compared. */
static inline const char *
strerrorname_np(int error)
{
    static char number[16];
    if (error == EPERM)
        return "EPERM";
    if (error == EBADF)
        return "EBADF";
    snprintf(number, sizeof number, "%d", error);
    return number;
}

static const char *const lacking[] = {
    "__open",    "__open64",    "__open_2",     "__open64_2",    "__openat_2",
    "__read",    "__read_chk",  "__pread64",    "__pread_chk",   "__pread64_chk",
    "__lseek",   "__write",     "__recv_chk",   "__close",       "__dup2",
    "__fcntl",   "__clone",     "__underflow",  "__openat64_2",  "preadv64v2",
    "fcntl64",   "closefrom",   "preadv2",      "renameat2",     "close_range",
    "execveat",
};

static inline int
is_lacking(const char *name)
{
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        size_t size = strlen(lacking[i]);
        if (!strncmp(name, lacking[i], size) && (!name[size] || name[size] == ':'))
            return 1;
    }
    return 0;
}
#endif
