/* Calls that get a file's bytes: each gets those from 0 to `upto`. */
#include "entry.h"

#define GETS(name) static long name(const char *t, long upto)

NAMED(ssize_t, inner_read, __read, (int, void *, size_t));
NAMED(ssize_t, inner_pread64, __pread64, (int, void *, size_t, long));
NAMED(long, inner_lseek, __lseek, (int, long, int));
NAMED(int, inner_dup2, __dup2, (int, int));
NAMED(int, inner_fcntl, __fcntl, (int, int, ...));
NAMED(ssize_t, read_chk, __read_chk, (int, void *, size_t, size_t));
NAMED(ssize_t, named_pread, pread, (int, void *, size_t, long));
NAMED(ssize_t, named_pread64, pread64, (int, void *, size_t, long));
NAMED(ssize_t, pread_chk, __pread_chk, (int, void *, size_t, long, size_t));
NAMED(ssize_t, pread64_chk, __pread64_chk,
      (int, void *, size_t, long, size_t));
NAMED(ssize_t, named_preadv, preadv,
      (int, const struct iovec *, int, long));
NAMED(ssize_t, named_preadv64, preadv64,
      (int, const struct iovec *, int, long));
NAMED(ssize_t, named_preadv2, preadv2,
      (int, const struct iovec *, int, long, int));
NAMED(ssize_t, named_preadv64v2, preadv64v2,
      (int, const struct iovec *, int, long, int));
NAMED(long, named_lseek, lseek, (int, long, int));
NAMED(long, named_lseek64, lseek64, (int, long, int));
NAMED(ssize_t, named_sendfile, sendfile, (int, int, long *, size_t));
NAMED(ssize_t, named_sendfile64, sendfile64, (int, int, long *, size_t));
NAMED(void *, named_mmap, mmap, (void *, size_t, int, int, int, long));
NAMED(void *, named_mmap64, mmap64, (void *, size_t, int, int, int, long));
NAMED(FILE *, named_fopen64, fopen64, (const char *, const char *));
NAMED(int, named_fseeko64, fseeko64, (FILE *, long, int));
NAMED(int, named_uflow, __uflow, (FILE *));
NAMED(int, named_underflow, __underflow, (FILE *));

static int
source(const char *t)
{
    return plain_open(t, O_RDONLY | O_CLOEXEC);
}

static int
sink(void)
{
    return plain_open("/dev/null", O_WRONLY);
}

GETS(by_read) { return read_until(source(t), upto); }
GETS(by_read_chk)
{
    return read_chk(source(t), buffer, (size_t)upto, sizeof buffer);
}
GETS(by_inner_read) { return inner_read(source(t), buffer, (size_t)upto); }
GETS(by_inner_pread64)
{
    return inner_pread64(source(t), buffer, (size_t)upto, 0);
}
GETS(by_pread) { return named_pread(source(t), buffer, (size_t)upto, 0); }
GETS(by_pread64) { return named_pread64(source(t), buffer, (size_t)upto, 0); }
GETS(by_pread_chk)
{
    return pread_chk(source(t), buffer, (size_t)upto, 0, sizeof buffer);
}
GETS(by_pread64_chk)
{
    return pread64_chk(source(t), buffer, (size_t)upto, 0, sizeof buffer);
}

#define PARTS                                                             \
    const struct iovec parts[2] = {{buffer, 1000},                        \
                                   {buffer + 1000, (size_t)upto - 1000}}

GETS(by_readv) { PARTS; return readv(source(t), parts, 2); }
GETS(by_preadv) { PARTS; return named_preadv(source(t), parts, 2, 0); }
GETS(by_preadv64) { PARTS; return named_preadv64(source(t), parts, 2, 0); }
GETS(by_preadv2) { PARTS; return named_preadv2(source(t), parts, 2, 0, 0); }
GETS(by_preadv2_on) { PARTS; return named_preadv2(source(t), parts, 2, -1, 0); }
GETS(by_preadv64v2)
{
    PARTS;
    return named_preadv64v2(source(t), parts, 2, -1, 0);
}

GETS(by_sendfile) { return named_sendfile(sink(), source(t), NULL, (size_t)upto); }
GETS(by_sendfile_at)
{
    long at = 0;
    return named_sendfile(sink(), source(t), &at, (size_t)upto);
}
GETS(by_sendfile64)
{
    return named_sendfile64(sink(), source(t), NULL, (size_t)upto);
}

static long
through_pipe(int from, off64_t *at, long upto)
{
    int ends[2];
    long all = 0;
    if (pipe(ends))
        return -1;
    while (all < upto) {
        long got = splice(from, at, ends[1], NULL, (size_t)(upto - all), 0);
        if (got <= 0)
            break;
        all += got;
        for (long left = got; left > 0;)
            left -= read(ends[0], buffer, (size_t)left);
    }
    return all;
}

GETS(by_splice) { return through_pipe(source(t), NULL, upto); }
GETS(by_splice_at)
{
    off64_t at = 0;
    return through_pipe(source(t), &at, upto);
}
GETS(by_copy)
{
    int to = plain_open(beside(t, "copy"), O_WRONLY | O_CREAT);
    return copy_file_range(source(t), NULL, to, NULL, (size_t)upto, 0);
}

static long
touched(const char *t, long upto, void *(*map)(void *, size_t, int, int, int,
                                                long))
{
    struct stat st;
    volatile char sum = 0;
    int fd = source(t);
    if (fstat(fd, &st))
        return -1;
    size_t size = (size_t)st.st_size;
    volatile char *at = map(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return -1;
    close(fd);
    for (long i = 0; i < upto; i += 64)
        sum = (char)(sum + at[i]);
    munmap((void *)(uintptr_t)at, size);
    return upto;
}

GETS(by_mmap) { return touched(t, upto, named_mmap); }
GETS(by_mmap64) { return touched(t, upto, named_mmap64); }

/* ---- stdio --------------------------------------------------------- */

static long
gets_all(FILE *stream, long upto)
{
    return (long)fread(buffer, 1, (size_t)upto, stream);
}

GETS(by_fopen) { return gets_all(fopen(t, "r"), upto); }
GETS(by_fopen64) { return gets_all(named_fopen64(t, "r"), upto); }
GETS(by_fdopen) { return gets_all(fdopen(source(t), "r"), upto); }
GETS(by_freopen) { return gets_all(freopen(t, "r", stdin), upto); }
GETS(by_fclose)
{
    FILE *stream = fopen(t, "r");
    long got = gets_all(stream, upto);
    fclose(stream);
    return got;
}
GETS(by_getc)
{
    FILE *stream = fopen(t, "r");
    long got = 0;
    while (got < upto && getc_unlocked(stream) != EOF)
        got++;
    return got;
}
GETS(by_uflow)
{
    FILE *stream = fdopen(source(t), "r");
    setvbuf(stream, NULL, _IONBF, 0);
    long got = 0;
    while (got < upto && named_uflow(stream) != EOF)
        got++;
    return got;
}
GETS(by_underflow)
{
    FILE *stream = fdopen(source(t), "r");
    if (named_underflow(stream) == EOF)
        return -1;
    return gets_all(stream, upto);
}
GETS(by_getline)
{
    FILE *stream = fopen(t, "r");
    char *line = NULL;
    size_t room = 0;
    long got = 0, more;
    while (got < upto && (more = getline(&line, &room, stream)) > 0)
        got += more;
    return got >= upto ? upto : got;
}

/* The second half is got after going there by each of the seeking calls, the
 * first half before it; where only half is due, the first is left out. */
static long
halves(const char *t, long upto, int (*seek)(FILE *, long))
{
    struct stat st;
    FILE *stream = fopen(t, "r");
    if (fstat(fileno(stream), &st))
        return -1;
    long half = st.st_size / 2, got = 0;
    if (upto > half)
        got = gets_all(stream, half);
    if (seek(stream, half))
        return -1;
    return got + gets_all(stream, st.st_size - half);
}

static int
seek_long(FILE *stream, long to) { return fseek(stream, to, SEEK_SET); }
static int
seek_off(FILE *stream, long to) { return fseeko(stream, to, SEEK_SET); }
static int
seek_off64(FILE *stream, long to)
{
    return named_fseeko64(stream, to, SEEK_SET);
}
static int
seek_pos(FILE *stream, long to)
{
    fpos_t at;
    rewind(stream);
    return fseek(stream, to, SEEK_SET) || fgetpos(stream, &at) ||
           fsetpos(stream, &at);
}
static int
seek_pos64(FILE *stream, long to)
{
    fpos64_t at;
    return fseek(stream, to, SEEK_SET) || fgetpos64(stream, &at) ||
           fsetpos64(stream, &at);
}

GETS(by_fseek) { return halves(t, upto, seek_long); }
GETS(by_fseeko) { return halves(t, upto, seek_off); }
GETS(by_fseeko64) { return halves(t, upto, seek_off64); }
GETS(by_fsetpos) { return halves(t, upto, seek_pos); }
GETS(by_fsetpos64) { return halves(t, upto, seek_pos64); }
GETS(by_rewind)
{
    FILE *stream = fopen(t, "r");
    fgetc(stream);
    rewind(stream);
    return gets_all(stream, upto);
}

/* ---- shared descriptions and offsets ------------------------------- */

GETS(by_dup)
{
    int fd = source(t), other = dup(fd);
    long got = read_until(fd, upto / 2);
    close(fd);
    return got + read_until(other, upto - got);
}
GETS(by_dup2)
{
    int fd = source(t), other = dup2(fd, 77);
    close(fd);
    return read_until(other, upto);
}
GETS(by_dup3)
{
    int fd = source(t), other = dup3(fd, 78, O_CLOEXEC);
    return read_until(other, upto / 2) + read_until(fd, upto - upto / 2);
}
GETS(by_fcntl)
{
    int fd = source(t), other = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    return read_until(other, upto / 2) + read_until(fd, upto - upto / 2);
}

/* The first half is got by a forked child, over the same description. */
GETS(by_fork)
{
    int fd = source(t);
    pid_t child = fork();
    if (!child)
        _exit(read_until(fd, upto / 2) != upto / 2);
    if (ended(child))
        return -1;
    lseek(fd, 0, SEEK_SET);
    return read_until(fd, upto);
}

/* Over a socket to itself: a descriptor that nobody opened here. */
GETS(by_passing)
{
    int ends[2], fd = source(t);
    char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = room,
                             .msg_controllen = sizeof room};
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(first), &fd, sizeof fd);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
        sendmsg(ends[0], &message, 0) != 1)
        return -1;
    close(fd);
    if (recvmsg(ends[1], &message, 0) != 1)
        return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return read_until(fd, upto);
}

/* All of it is got, and what is not due is given back. */
static long
given_back(const char *t, long upto, long (*seek)(int, long, int))
{
    int fd = source(t);
    long got = read(fd, buffer, sizeof buffer);
    return seek(fd, upto - got, SEEK_CUR);
}
GETS(by_inner_lseek) { return given_back(t, upto, inner_lseek); }
GETS(by_inner_dup2) { return read_until(inner_dup2(source(t), 77), upto); }
GETS(by_inner_fcntl)
{
    return read_until(inner_fcntl(source(t), F_DUPFD, 50), upto);
}
GETS(by_lseek) { return given_back(t, upto, named_lseek); }
GETS(by_lseek64) { return given_back(t, upto, named_lseek64); }

/* ---- numbers ------------------------------------------------------- */

GETS(n_read) { return syscall(SYS_read, source(t), buffer, upto); }
GETS(n_pread) { return syscall(SYS_pread64, source(t), buffer, upto, 0L); }
GETS(n_readv) { PARTS; return syscall(SYS_readv, source(t), parts, 2L); }
GETS(n_preadv) { PARTS; return syscall(SYS_preadv, source(t), parts, 2L, 0L, 0L); }
GETS(n_preadv2)
{
    PARTS;
    return syscall(SYS_preadv2, source(t), parts, 2L, 0L, 0L, 0L);
}
GETS(n_sendfile)
{
    return syscall(SYS_sendfile, sink(), source(t), NULL, upto);
}
GETS(n_copy)
{
    int to = plain_open(beside(t, "copy"), O_WRONLY | O_CREAT);
    return syscall(SYS_copy_file_range, source(t), NULL, to, NULL, upto, 0L);
}
GETS(n_lseek)
{
    int fd = source(t);
    long got = syscall(SYS_read, fd, buffer, sizeof buffer);
    return syscall(SYS_lseek, fd, upto - got, (long)SEEK_CUR);
}

const struct entry reads[] = {
    {"read", by_read, READS},
    {"__read", by_inner_read, READS},
    {"__pread64", by_inner_pread64, READS},
    {"__lseek", by_inner_lseek, READS},
    {"__dup2", by_inner_dup2, READS},
    {"__fcntl", by_inner_fcntl, READS},
    {"__read_chk", by_read_chk, READS},
    {"pread", by_pread, READS},
    {"pread64", by_pread64, READS},
    {"__pread_chk", by_pread_chk, READS},
    {"__pread64_chk", by_pread64_chk, READS},
    {"readv", by_readv, READS},
    {"preadv", by_preadv, READS},
    {"preadv64", by_preadv64, READS},
    {"preadv2", by_preadv2, READS},
    {"preadv2:on", by_preadv2_on, READS},
    {"preadv64v2", by_preadv64v2, READS},
    {"sendfile", by_sendfile, READS},
    {"sendfile:at", by_sendfile_at, READS},
    {"sendfile64", by_sendfile64, READS},
    {"splice", by_splice, READS},
    {"splice:at", by_splice_at, READS},
    {"copy_file_range", by_copy, READS},
    {"mmap", by_mmap, READS},
    {"mmap64", by_mmap64, READS},
    {"munmap", by_mmap, READS},
    {"fopen", by_fopen, READS},
    {"fopen64", by_fopen64, READS},
    {"fdopen", by_fdopen, READS},
    {"freopen", by_freopen, READS},
    {"fclose", by_fclose, READS},
    {"fopen:getc", by_getc, READS},
    {"fopen:getline", by_getline, READS},
    {"__uflow", by_uflow, READS},
    {"__underflow", by_underflow, READS},
    {"fseek", by_fseek, READS},
    {"fseeko", by_fseeko, READS},
    {"fseeko64", by_fseeko64, READS},
    {"fsetpos", by_fsetpos, READS},
    {"fsetpos64", by_fsetpos64, READS},
    {"rewind", by_rewind, READS},
    {"dup", by_dup, READS},
    {"dup2", by_dup2, READS},
    {"dup3", by_dup3, READS},
    {"fcntl", by_fcntl, READS},
    {"fork:description", by_fork, READS},
    {"sendmsg", by_passing, READS},
    {"lseek", by_lseek, READS},
    {"lseek64", by_lseek64, READS},
    {"syscall:read", n_read, READS},
    {"syscall:pread64", n_pread, READS},
    {"syscall:readv", n_readv, READS},
    {"syscall:preadv", n_preadv, READS},
    {"syscall:preadv2", n_preadv2, READS},
    {"syscall:sendfile", n_sendfile, READS},
    {"syscall:copy", n_copy, READS},
    {"syscall:lseek", n_lseek, READS},
    {NULL, NULL, READS},
};
