/* Calls that throw a file's content away. */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>

#include "entry.h"

#define W (O_WRONLY | O_TRUNC)
#define HERE AT_FDCWD
#define CALL(name, expression)           \
    static long name(const char *t, long upto) \
    {                                    \
        (void)upto;                      \
        return (long)(expression);       \
    }
#define STREAM(expression) ((expression) ? 0 : -1)

NAMED(int, named_open, open, (const char *, int, ...));
NAMED(int, named_open64, open64, (const char *, int, ...));
NAMED(int, named_openat, openat, (int, const char *, int, ...));
NAMED(int, named_openat64, openat64, (int, const char *, int, ...));
NAMED(int, inner_open, __open, (const char *, int, ...));
NAMED(int, inner_open64, __open64, (const char *, int, ...));
NAMED(int, open_2, __open_2, (const char *, int));
NAMED(int, open64_2, __open64_2, (const char *, int));
NAMED(int, openat_2, __openat_2, (int, const char *, int));
NAMED(int, openat64_2, __openat64_2, (int, const char *, int));
NAMED(int, named_creat, creat, (const char *, mode_t));
NAMED(int, named_creat64, creat64, (const char *, mode_t));
NAMED(FILE *, named_fopen, fopen, (const char *, const char *));
NAMED(FILE *, named_fopen64, fopen64, (const char *, const char *));
NAMED(FILE *, named_freopen, freopen, (const char *, const char *, FILE *));
NAMED(FILE *, named_freopen64, freopen64,
      (const char *, const char *, FILE *));
NAMED(int, named_truncate, truncate, (const char *, long));
NAMED(int, named_truncate64, truncate64, (const char *, long));
NAMED(int, named_ftruncate, ftruncate, (int, long));
NAMED(int, named_ftruncate64, ftruncate64, (int, long));
NAMED(int, named_fallocate, fallocate, (int, int, long, long));
NAMED(int, named_fallocate64, fallocate64, (int, int, long, long));

static int
folder(void)
{
    return plain_open(".", O_RDONLY | O_DIRECTORY);
}

static const char *
by_number(const char *format, int fd)
{
    static char link[64];
    snprintf(link, sizeof link, format, fd);
    return link;
}

static const char *
source(const char *t)
{
    const char *made = beside(t, "src");
    put_file(made, "new content\n");
    return made;
}

static long
size_of(const char *t)
{
    struct stat st;
    return stat(t, &st) ? 0 : (long)st.st_size;
}

static long
openat2_number(const char *t, uint64_t resolve)
{
    struct open_how how = {.flags = W | O_CREAT, .mode = 0640,
                           .resolve = resolve};
    return syscall(SYS_openat2, HERE, t, &how, sizeof how);
}

static long
punched(const char *t, int (*call)(int, int, long, long), int mode)
{
    return call(plain_open(t, O_RDWR), mode, 0, size_of(t));
}

CALL(r_open, named_open(t, W | O_CREAT, 0640))
CALL(r_open_rw, named_open(t, O_RDWR | O_TRUNC | O_CLOEXEC))
CALL(r_open_read, named_open(t, O_RDONLY | O_TRUNC))
CALL(r_open_append, named_open(t, W | O_APPEND))
CALL(r_open_fd, named_open(by_number("/proc/self/fd/%d",
                                     plain_open(t, O_RDONLY)), W))
CALL(r_open_path, named_open(by_number("/proc/self/fd/%d",
                                       plain_open(t, O_PATH)), W))
CALL(r_open_dev, named_open(by_number("/dev/fd/%d",
                                      plain_open(t, O_RDONLY)), W))
CALL(r_open64, named_open64(t, W | O_CREAT, 0604))
CALL(r_openat, named_openat(folder(), t, W | O_CREAT, 0640))
CALL(r_openat64, named_openat64(folder(), t, W | O_CREAT, 0640))
CALL(r_inner_open, inner_open(t, W | O_CREAT, 0640))
CALL(r_inner_open64, inner_open64(t, W | O_CREAT, 0640))
CALL(r_open_2, open_2(t, W))
CALL(r_open64_2, open64_2(t, W))
CALL(r_openat_2, openat_2(HERE, t, W))
CALL(r_openat64_2, openat64_2(folder(), t, W))
CALL(r_creat, named_creat(t, 0640))
CALL(r_creat64, named_creat64(t, 0640))
CALL(r_fopen, STREAM(named_fopen(t, "w")))
CALL(r_fopen_plus, STREAM(named_fopen(t, "w+e")))
CALL(r_fopen64, STREAM(named_fopen64(t, "wb")))
CALL(r_freopen, STREAM(named_freopen(t, "w", stdin)))
CALL(r_freopen64, STREAM(named_freopen64(t, "w+", fopen("/dev/null", "r"))))
CALL(r_freopen_null, STREAM(named_freopen(NULL, "w", fopen(t, "r+"))))
CALL(r_truncate, named_truncate(t, 0))
CALL(r_truncate_part, named_truncate(t, size_of(t) / 3))
CALL(r_truncate64, named_truncate64(t, 0))
CALL(r_ftruncate, named_ftruncate(plain_open(t, O_RDWR), 0))
CALL(r_ftruncate_part, named_ftruncate(plain_open(t, O_WRONLY), 7))
CALL(r_ftruncate64, named_ftruncate64(plain_open(t, O_WRONLY), 0))
CALL(r_punch, punched(t, named_fallocate,
                      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
CALL(r_zero, punched(t, named_fallocate64, FALLOC_FL_ZERO_RANGE))
CALL(r_collapse, named_fallocate(plain_open(t, O_RDWR),
                                 FALLOC_FL_COLLAPSE_RANGE, 4096,
                                 size_of(t) / 4096 * 4096 - 4096))
CALL(r_rename, rename(source(t), t))
CALL(r_renameat, renameat(HERE, source(t), folder(), t))
CALL(r_renameat2, renameat2(HERE, source(t), HERE, t, 0))
CALL(r_exchange, renameat2(HERE, source(t), HERE, t, RENAME_EXCHANGE))
CALL(r_exchanged, renameat2(HERE, t, HERE, source(t), RENAME_EXCHANGE))
CALL(r_symlink, (symlink("/dev/null", beside(t, "link")),
                 rename(beside(t, "link"), t)))
CALL(n_openat, syscall(SYS_openat, HERE, t, W | O_CREAT, 0640))
CALL(n_openat2, openat2_number(t, 0))
CALL(n_openat2_resolve, openat2_number(t, RESOLVE_NO_SYMLINKS))
CALL(n_truncate, syscall(SYS_truncate, t, 0L))
CALL(n_ftruncate, syscall(SYS_ftruncate, plain_open(t, O_RDWR), 0L))
CALL(n_renameat2, syscall(SYS_renameat2, HERE, source(t), HERE, t, 0))
CALL(n_exchange, syscall(SYS_renameat2, HERE, source(t), HERE, t,
                         RENAME_EXCHANGE))
CALL(n_fallocate, syscall(SYS_fallocate, plain_open(t, O_RDWR),
                          FALLOC_FL_ZERO_RANGE, 0L, size_of(t)))
#ifdef SYS_open
CALL(n_open, syscall(SYS_open, t, W | O_CREAT, 0640))
CALL(n_creat, syscall(SYS_creat, t, 0640))
CALL(n_rename, syscall(SYS_rename, source(t), t))
CALL(n_renameat, syscall(SYS_renameat, HERE, source(t), HERE, t))
#endif

const struct entry replaces[] = {
    {"open", r_open, REPLACES},
    {"open:rdwr", r_open_rw, REPLACES},
    {"open:rdonly", r_open_read, REPLACES},
    {"open:append", r_open_append, REPLACES},
    {"open:proc-fd", r_open_fd, REPLACES},
    {"open:proc-path", r_open_path, REPLACES},
    {"open:dev-fd", r_open_dev, REPLACES},
    {"open64", r_open64, REPLACES},
    {"openat", r_openat, REPLACES},
    {"openat64", r_openat64, REPLACES},
    {"__open", r_inner_open, REPLACES},
    {"__open64", r_inner_open64, REPLACES},
    {"__open_2", r_open_2, REPLACES},
    {"__open64_2", r_open64_2, REPLACES},
    {"__openat_2", r_openat_2, REPLACES},
    {"__openat64_2", r_openat64_2, REPLACES},
    {"creat", r_creat, REPLACES},
    {"creat64", r_creat64, REPLACES},
    {"fopen", r_fopen, REPLACES},
    {"fopen:plus", r_fopen_plus, REPLACES},
    {"fopen64", r_fopen64, REPLACES},
    {"freopen", r_freopen, REPLACES},
    {"freopen64", r_freopen64, REPLACES},
    {"freopen:no-path", r_freopen_null, REPLACES},
    {"truncate", r_truncate, REPLACES},
    {"truncate:part", r_truncate_part, REPLACES},
    {"truncate64", r_truncate64, REPLACES},
    {"ftruncate", r_ftruncate, REPLACES},
    {"ftruncate:part", r_ftruncate_part, REPLACES},
    {"ftruncate64", r_ftruncate64, REPLACES},
    {"fallocate:punch", r_punch, REPLACES},
    {"fallocate64:zero", r_zero, REPLACES},
    {"fallocate:collapse", r_collapse, REPLACES},
    {"rename", r_rename, REPLACES},
    {"renameat", r_renameat, REPLACES},
    {"renameat2", r_renameat2, REPLACES},
    {"renameat2:exchange", r_exchange, REPLACES},
    {"renameat2:exchanged", r_exchanged, REPLACES},
    {"rename:symlink", r_symlink, REPLACES},
    {"syscall:openat", n_openat, REPLACES},
    {"syscall:openat2", n_openat2, REPLACES},
    {"syscall:openat2-resolve", n_openat2_resolve, REPLACES},
    {"syscall:truncate", n_truncate, REPLACES},
    {"syscall:ftruncate", n_ftruncate, REPLACES},
    {"syscall:renameat2", n_renameat2, REPLACES},
    {"syscall:exchange", n_exchange, REPLACES},
    {"syscall:fallocate", n_fallocate, REPLACES},
#ifdef SYS_open
    {"syscall:open", n_open, REPLACES},
    {"syscall:creat", n_creat, REPLACES},
    {"syscall:rename", n_rename, REPLACES},
    {"syscall:renameat", n_renameat, REPLACES},
#endif
    {NULL, NULL, REPLACES},
};
