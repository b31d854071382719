/* Calls that are never refused; what a process may and may not do after a
 * refusal; and the ways to end, after which what was read must be known. */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "entry.h"

#define HERE AT_FDCWD
#define RUN(name) static long name(const char *t, long upto)
#define CALL(name, expression) \
    RUN(name)                  \
    {                          \
        (void)upto;            \
        return (long)(expression); \
    }

NAMED(int, named_mkstemp, mkstemp, (char *));
NAMED(int, named_mkstemp64, mkstemp64, (char *));
NAMED(int, named_mkostemp, mkostemp, (char *, int));
NAMED(int, named_mkostemp64, mkostemp64, (char *, int));
NAMED(int, named_mkstemps, mkstemps, (char *, int));
NAMED(int, named_mkstemps64, mkstemps64, (char *, int));
NAMED(int, named_mkostemps, mkostemps, (char *, int, int));
NAMED(int, named_mkostemps64, mkostemps64, (char *, int, int));
NAMED(int, named_fstat, fstat, (int, struct stat *));
NAMED(int, named_fstat64, fstat64, (int, struct stat *));
NAMED(int, fxstat, __fxstat, (int, int, struct stat *));
NAMED(int, fxstat64, __fxstat64, (int, int, struct stat *));
NAMED(int, inner_close, __close, (int));
NAMED(int, named_fcntl64, fcntl64, (int, int, ...));
#define STAT_VERSION 1 /* _STAT_VER of glibc on x86-64 */

static long
written(int fd, const char *text)
{
    return write(fd, text, strlen(text));
}

/* The size, for anything but a failure. */
static long
stat_by(const char *t, int (*call)(int, struct stat *))
{
    struct stat st;
    return call(plain_open(t, O_RDONLY), &st) ? -1 : (long)st.st_size;
}

static int
old_stat(int fd, struct stat *st)
{
    return fxstat(STAT_VERSION, fd, st);
}

static int
old_stat64(int fd, struct stat *st)
{
    return fxstat64(STAT_VERSION, fd, st);
}

static long
streamed(const char *t, const char *mode)
{
    FILE *stream = fopen(t, mode);
    if (!stream || fputs("more\n", stream) < 0)
        return -1;
    return fclose(stream);
}

/* A new file beside `t` by one of the mkstemp family: it can be written, read
 * back, and put away. Its made-up name is not told. */
static long
made(int fd, char *name)
{
    if (fd < 0 || written(fd, "made up\n") != 8)
        return -1;
    struct stat st;
    if (lseek(fd, 0, SEEK_SET) || read(fd, buffer, 99) != 8 ||
        fstat(fd, &st))
        return -1;
    return unlink(name) ? -1 : (long)(st.st_mode & 07777);
}

#define MAKES(name, call)                                    \
    RUN(name)                                                \
    {                                                        \
        char path[512];                                      \
        (void)upto;                                          \
        snprintf(path, sizeof path, "%s.XXXXXX.end", t);     \
        char *end = path + strlen(path) - 4;                 \
        (void)end;                                           \
        return made(call, path);                             \
    }

MAKES(p_mkstemp, (*end = 0, named_mkstemp(path)))
MAKES(p_mkstemp64, (*end = 0, named_mkstemp64(path)))
MAKES(p_mkostemp, (*end = 0, named_mkostemp(path, O_APPEND | O_CLOEXEC)))
MAKES(p_mkostemp64, (*end = 0, named_mkostemp64(path, O_SYNC)))
MAKES(p_mkstemps, named_mkstemps(path, 4))
MAKES(p_mkstemps64, named_mkstemps64(path, 4))
MAKES(p_mkostemps, named_mkostemps(path, 4, O_APPEND))
MAKES(p_mkostemps64, named_mkostemps64(path, 4, O_CLOEXEC))

CALL(p_append, written(plain_open(t, O_WRONLY | O_APPEND), "more\n"))
CALL(p_fopen_a, streamed(t, "a"))
CALL(p_fopen_edit, streamed(t, "r+"))
CALL(p_edit, written(plain_open(t, O_RDWR), "XXXX"))
CALL(p_pwrite, pwrite(plain_open(t, O_WRONLY), "YYYY", 4, 9))
CALL(p_grow, ftruncate(plain_open(t, O_WRONLY), 500000))
CALL(p_grow_path, truncate(t, 500000))
CALL(p_same, ftruncate(plain_open(t, O_WRONLY), stat_by(t, named_fstat)))
CALL(p_allocate, fallocate(plain_open(t, O_WRONLY), 0, 0, 600000))
CALL(p_punch_part, fallocate(plain_open(t, O_WRONLY),
                             FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                             4096))
CALL(p_excl, open(beside(t, "n"), O_WRONLY | O_CREAT | O_EXCL | O_TRUNC, 0))
CALL(p_path, open(t, O_PATH | O_TRUNC))
CALL(p_unlink, unlink(t))
CALL(p_unlinkat, unlinkat(HERE, t, 0))
CALL(p_remove, remove(t))
CALL(p_rmdir, (mkdir(beside(t, "d"), 0755),
               unlinkat(HERE, beside(t, "d"), AT_REMOVEDIR)))
CALL(p_rmdir_plain, (mkdir(beside(t, "d"), 0755), rmdir(beside(t, "d"))))
CALL(p_remove_folder, (mkdir(beside(t, "d"), 0755), remove(beside(t, "d"))))
CALL(p_away, rename(t, beside(t, "away")))
CALL(p_self, rename(t, t))
CALL(p_link, link(t, beside(t, "hard")))
CALL(p_linkat, linkat(HERE, t, HERE, beside(t, "hard"), 0))
CALL(p_link_over_itself, (link(t, beside(t, "hard")),
                          rename(beside(t, "hard"), t)))
CALL(p_fstat, stat_by(t, named_fstat))
CALL(p_fstat64, stat_by(t, named_fstat64))
CALL(p_fxstat, stat_by(t, old_stat))
CALL(p_fxstat64, stat_by(t, old_stat64))
CALL(p_fcntl, fcntl(plain_open(t, O_RDWR), F_GETFL) & O_ACCMODE)
CALL(p_fcntl64, named_fcntl64(plain_open(t, O_RDONLY), F_DUPFD, 30))
CALL(p_lock, fcntl(plain_open(t, O_RDWR), F_SETLK,
                   &(struct flock){.l_type = F_WRLCK}))
CALL(p_close, close(plain_open(t, O_RDONLY)))
CALL(p_inner_close, inner_close(plain_open(t, O_RDONLY)))
CALL(p_ioctl, ioctl(plain_open(t, O_RDONLY), FIONREAD, buffer))
CALL(p_chdir, (mkdir(beside(t, "d"), 0755), chdir(beside(t, "d"))) ||
                  plain_open("made", O_WRONLY | O_CREAT) < 0)
CALL(p_prctl, prctl(PR_SET_NAME, "renamed", 0, 0, 0))
CALL(p_syscall, syscall(SYS_getppid) != getppid())
CALL(p_io_uring, syscall(SYS_io_uring_setup, 0, NULL) < 0)

RUN(p_fchdir)
{
    (void)upto;
    const char *folder = beside(t, "d");
    mkdir(folder, 0755);
    int fd = plain_open(folder, O_RDONLY | O_DIRECTORY);
    return fchdir(fd) || plain_open("made", O_WRONLY | O_CREAT) < 0;
}

RUN(p_close_range)
{
    int fd = plain_open(t, O_RDONLY);
    (void)upto;
    return close_range((unsigned)fd, ~0U, 0) || fcntl(fd, F_GETFD) != -1 ||
           plain_open(t, O_RDONLY) != fd;
}

RUN(p_close_range_marks)
{
    int fd = plain_open(t, O_RDONLY);
    (void)upto;
    return close_range((unsigned)fd, ~0U, CLOSE_RANGE_CLOEXEC) ||
           fcntl(fd, F_GETFD) != FD_CLOEXEC || read(fd, buffer, 9) != 9;
}

RUN(p_closefrom)
{
    int fd = plain_open(t, O_RDONLY);
    (void)upto;
    closefrom(fd);
    return plain_open(t, O_RDONLY) != fd;
}

RUN(p_closedir)
{
    (void)t, (void)upto;
    DIR *folder = opendir(".");
    int fd = dirfd(folder);
    return closedir(folder) || fcntl(fd, F_GETFD) != -1 ||
           plain_open(".", O_RDONLY) != fd;
}

RUN(p_tmpfile)
{
    struct stat st;
    (void)upto;
    int fd = open(".", O_TMPFILE | O_RDWR, 0612);
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (written(fd, "no name\n") != 8 || fstat(fd, &st) ||
        ftruncate(fd, 3) ||
        linkat(HERE, link, HERE, beside(t, "named"), AT_SYMLINK_FOLLOW))
        return -1;
    return st.st_mode & 07777;
}

RUN(p_memfd)
{
    (void)t, (void)upto;
    int fd = memfd_create("any:name", MFD_CLOEXEC);
    return written(fd, "memory\n") != 7 || ftruncate(fd, 0) ||
           lseek(fd, 0, SEEK_END) != 0;
}

RUN(p_fifo)
{
    (void)upto;
    const char *fifo = beside(t, "fifo");
    if (mkfifo(fifo, 0600))
        return -1;
    int fd = open(fifo, O_RDWR | O_TRUNC);
    FILE *stream = fopen(fifo, "w");
    fputs("through\n", stream);
    fclose(stream);
    if (read(fd, buffer, 8) != 8 || truncate(fifo, 0) != -1)
        return -1;
    return rename(beside(t, "fifo"), beside(t, "moved"));
}

RUN(p_ficlone)
{
    (void)upto;
    const char *other = beside(t, "other");
    put_file(other, "another file\n");
    int from = plain_open(other, O_RDONLY), to = plain_open(t, O_RDWR);
    struct stat before, after;
    fstat(to, &before);
    /* where the file system cannot clone, it says so itself */
    int failed = ioctl(to, FICLONE, from);
    fstat(to, &after);
    return failed && before.st_size != after.st_size ? -7 : failed;
}

/* ---- after a refusal ----------------------------------------------- */

CALL(a_read, got_file(t, 10))
CALL(a_append, written(plain_open(t, O_WRONLY | O_APPEND), "x"))
CALL(a_write, plain_open(t, O_WRONLY))
CALL(a_again, plain_open(t, O_WRONLY | O_TRUNC))
CALL(a_creat, creat(t, 0644))
CALL(a_update, plain_open(t, O_RDWR))
CALL(a_number, syscall(SYS_openat, HERE, t, O_RDWR))
CALL(a_fopen_plus, fopen(t, "r+") ? 0 : -1)
CALL(a_fopen_a, streamed(t, "a"))
CALL(a_freopen_plus, freopen(t, "r+", stdin) ? 0 : -1)
CALL(a_truncate, truncate(t, 1))
CALL(a_unlink, unlink(t))
CALL(a_unlinkat, unlinkat(HERE, t, 0))
CALL(a_remove, remove(t))
CALL(a_unlink_number, syscall(SYS_unlinkat, HERE, t, 0))
CALL(a_away, rename(t, beside(t, "away")))
CALL(a_away_number, syscall(SYS_renameat2, HERE, t, HERE, beside(t, "b"), 0))
CALL(a_over, (put_file(beside(t, "src"), "new\n"),
              rename(beside(t, "src"), t)))
CALL(a_link, link(t, beside(t, "hard")))
CALL(a_new, put_file(beside(t, "new"), "new\n"))

/* What a refused shrink leaves of its descriptors. */
static long
shrunk(const char *t, int flags, long (*then)(int))
{
    int fd = plain_open(t, flags | O_CLOEXEC);
    lseek(fd, 5, SEEK_SET);
    if (!ftruncate(fd, 0)) /* unguarded */
        return then(fd);
    if (errno != EPERM)
        return -77;
    if (fcntl(fd, F_GETFD) != FD_CLOEXEC || lseek(fd, 0, SEEK_CUR) != 5)
        return -78;
    errno = 0;
    return then(fd);
}

static long
then_write(int fd)
{
    return write(fd, "new\n", 4);
}

static long
then_pwrite(int fd)
{
    return pwrite(fd, "new\n", 4, 0);
}

static long
then_stream(int fd)
{
    FILE *stream = fdopen(fd, "r+");
    if (!stream)
        return -1;
    fputs("new\n", stream);
    return fflush(stream);
}

static long
then_read(int fd)
{
    return read(fd, buffer, 10) >= 0 ? 0 : -1;
}

RUN(a_shrink_dup)
{
    int fd = plain_open(t, O_RDWR), other = dup(fd), third = dup(fd);
    (void)upto;
    (void)ftruncate(other, 0);
    errno = 0;
    return write(third, "new\n", 4) + write(fd, "new\n", 4);
}

RUN(a_shrink_fork)
{
    int fd = plain_open(t, O_RDWR);
    (void)upto;
    (void)ftruncate(fd, 0);
    pid_t child = fork();
    if (!child)
        _exit(write(fd, "new\n", 4) == 4 ? 0 : errno);
    return ended(child);
}

RUN(a_stream_shrunk)
{
    FILE *stream = fopen(t, "r+");
    (void)upto;
    (void)ftruncate(fileno(stream), 0);
    fputs("new\n", stream);
    errno = 0;
    return fclose(stream);
}

CALL(a_shrink_write, shrunk(t, O_RDWR, then_write))
CALL(a_shrink_wronly, shrunk(t, O_WRONLY, then_write))
CALL(a_shrink_pwrite, shrunk(t, O_RDWR, then_pwrite))
CALL(a_shrink_stream, shrunk(t, O_RDWR, then_stream))
CALL(a_shrink_read, shrunk(t, O_RDWR, then_read))

/* ---- ends ---------------------------------------------------------- */

/* A child reads `upto` bytes, writes a file and ends; its file is put over
 * what it read. That is refused only where it is known what it read. */
static long
left(const char *t, long upto, void (*end)(void))
{
    pid_t child = fork();
    if (!child) {
        int fd = plain_open(t, O_RDONLY);
        read_until(fd, upto);
        put_file(beside(t, "out"), "made of it\n");
        end();
        _exit(55);
    }
    long status = ended(child);
    if (status)
        return status;
    return rename(beside(t, "out"), t);
}

static void
by_underscore(void)
{
    _exit(0);
}

static void
by_capital(void)
{
    _Exit(0);
}

static void
quickly(void)
{
    quick_exit(0);
}

static void
plainly(void)
{
    exit(0);
}

static void
by_number(void)
{
    syscall(SYS_exit_group, 0);
}

static void
by_program(void)
{
    execlp("true", "true", (char *)NULL);
}

RUN(x_underscore) { return left(t, upto, by_underscore); }
RUN(x_capital) { return left(t, upto, by_capital); }
RUN(x_quick) { return left(t, upto, quickly); }
RUN(x_exit) { return left(t, upto, plainly); }
RUN(x_number) { return left(t, upto, by_number); }
RUN(x_exec) { return left(t, upto, by_program); }

const struct entry passes[] = {
    {"open:append", p_append, PASSES},
    {"fopen:append", p_fopen_a, PASSES},
    {"fopen:edit", p_fopen_edit, PASSES},
    {"open:edit", p_edit, PASSES},
    {"open:pwrite", p_pwrite, PASSES},
    {"ftruncate:grow", p_grow, PASSES},
    {"truncate:grow", p_grow_path, PASSES},
    {"ftruncate:same", p_same, PASSES},
    {"fallocate:grow", p_allocate, PASSES},
    {"fallocate:part", p_punch_part, PASSES},
    {"open:excl", p_excl, PASSES},
    {"open:path", p_path, PASSES},
    {"open:tmpfile", p_tmpfile, PASSES},
    {"unlink", p_unlink, PASSES},
    {"unlinkat", p_unlinkat, PASSES},
    {"remove", p_remove, PASSES},
    {"unlinkat:folder", p_rmdir, PASSES},
    {"rmdir", p_rmdir_plain, PASSES},
    {"remove:folder", p_remove_folder, PASSES},
    {"rename:away", p_away, PASSES},
    {"rename:self", p_self, PASSES},
    {"rename:same-file", p_link_over_itself, PASSES},
    {"rename:fifo", p_fifo, PASSES},
    {"link", p_link, PASSES},
    {"linkat", p_linkat, PASSES},
    {"fstat", p_fstat, PASSES},
    {"fstat64", p_fstat64, PASSES},
    {"__fxstat", p_fxstat, PASSES},
    {"__fxstat64", p_fxstat64, PASSES},
    {"fcntl:flags", p_fcntl, PASSES},
    {"fcntl:lock", p_lock, PASSES},
    {"fcntl64", p_fcntl64, PASSES},
    {"close", p_close, PASSES},
    {"__close", p_inner_close, PASSES},
    {"close_range", p_close_range, PASSES},
    {"close_range:marks", p_close_range_marks, PASSES},
    {"closefrom", p_closefrom, PASSES},
    {"closedir", p_closedir, PASSES},
    {"ioctl", p_ioctl, PASSES},
    {"ioctl:ficlone", p_ficlone, PASSES},
    {"chdir", p_chdir, PASSES},
    {"fchdir", p_fchdir, PASSES},
    {"prctl", p_prctl, PASSES},
    {"syscall", p_syscall, PASSES},
    {"syscall:io_uring", p_io_uring, PASSES},
    {"ftruncate:memfd", p_memfd, PASSES},
    {"mkstemp", p_mkstemp, PASSES},
    {"mkstemp64", p_mkstemp64, PASSES},
    {"mkostemp", p_mkostemp, PASSES},
    {"mkostemp64", p_mkostemp64, PASSES},
    {"mkstemps", p_mkstemps, PASSES},
    {"mkstemps64", p_mkstemps64, PASSES},
    {"mkostemps", p_mkostemps, PASSES},
    {"mkostemps64", p_mkostemps64, PASSES},
    {"read", a_read, AFTER},
    {"append", a_append, AFTER},
    {"fopen-append", a_fopen_a, AFTER},
    {"write", a_write, AFTER},
    {"truncating-again", a_again, AFTER},
    {"creat", a_creat, AFTER},
    {"update", a_update, AFTER},
    {"syscall", a_number, AFTER},
    {"fopen-plus", a_fopen_plus, AFTER},
    {"freopen-plus", a_freopen_plus, AFTER},
    {"truncate", a_truncate, AFTER},
    {"unlink", a_unlink, AFTER},
    {"unlinkat", a_unlinkat, AFTER},
    {"remove", a_remove, AFTER},
    {"unlink-number", a_unlink_number, AFTER},
    {"away", a_away, AFTER},
    {"away-number", a_away_number, AFTER},
    {"over", a_over, AFTER},
    {"link", a_link, AFTER},
    {"new", a_new, AFTER},
    {"shrink-write", a_shrink_write, AFTER},
    {"shrink-wronly", a_shrink_wronly, AFTER},
    {"shrink-pwrite", a_shrink_pwrite, AFTER},
    {"shrink-stream", a_shrink_stream, AFTER},
    {"shrink-read", a_shrink_read, AFTER},
    {"shrink-dup", a_shrink_dup, AFTER},
    {"shrink-fork", a_shrink_fork, AFTER},
    {"stream-shrunk", a_stream_shrunk, AFTER},
    {"_exit", x_underscore, ENDS},
    {"_Exit", x_capital, ENDS},
    {"quick_exit", x_quick, ENDS},
    {"exit", x_exit, ENDS},
    {"syscall:exit_group", x_number, ENDS},
    {"execlp:ends", x_exec, ENDS},
    {NULL, NULL, PASSES},
};
