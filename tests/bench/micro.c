/* One system call, many times over, and what one of them took.
 *
 *   micro read FILE CALLS       4 KiB each, from the start again at the end
 *   micro open FILE CALLS       for reading, and closed; it may be absent
 *   micro fstat FILE CALLS
 *
 * Twice each, block by block in turn: by the C library's own function, and by
 * the one that this program is linked to, which a preload may have replaced.
 * Within one process and so close together, some 10 ns can be told apart.
 *
 *   micro verdict FILE CALLS    the truncating open of what was just written
 *   micro start N COMMAND...    fork, exec, and the end of it
 *   micro run OUT COMMAND...    once; its output goes to OUT
 *
 * Prints two numbers, in ns: for read, open and fstat the median block's mean
 * call, of the C library and as linked; for verdict the median and the 99th
 * percentile of single calls; for start and run wall time and processor time
 * of one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 200
#define CHUNK 4096 /* bytes */

static int64_t
now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static void
fail(const char *what)
{
    perror(what);
    exit(2);
}

/* ---- calls --------------------------------------------------------- */

struct functions {
    int (*open)(const char *, int, ...);
    int (*close)(int);
    ssize_t (*read)(int, void *, size_t);
    off_t (*lseek)(int, off_t, int);
    int (*fstat)(int, struct stat *);
};

static const struct functions linked = {open, close, read, lseek, fstat};
static struct functions own; /* the C library's */
static int file;
static const char *path;

static void
find_own(void)
{
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    static const char *const names[] = {"open", "close", "read", "lseek",
                                        "fstat"};
    void **into[] = {(void **)&own.open, (void **)&own.close,
                     (void **)&own.read, (void **)&own.lseek,
                     (void **)&own.fstat};
    for (int i = 0; i < 5; i++) {
        *into[i] = library ? dlsym(library, names[i]) : NULL;
        if (!*into[i]) {
            fprintf(stderr, "no %s in libc.so.6\n", names[i]);
            exit(2);
        }
    }
}

static void
read_on(const struct functions *by)
{
    static char room[CHUNK];
    ssize_t got = by->read(file, room, sizeof room);
    if (got < 0)
        fail(path);
    if (got < CHUNK && by->lseek(file, 0, SEEK_SET) < 0)
        fail(path);
}

static void
look(const struct functions *by)
{
    struct stat st;
    if (by->fstat(file, &st))
        fail(path);
}

static void
open_and_close(const struct functions *by)
{
    int fd = by->open(path, O_RDONLY);
    if (fd >= 0)
        by->close(fd);
}

static int
by_size(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int64_t
rank(int64_t *each, size_t many, size_t hundredths)
{
    qsort(each, many, sizeof *each, by_size);
    return each[many * hundredths / 100];
}

static int64_t
time_block(void (*call)(const struct functions *), const struct functions *by)
{
    int64_t began = now();
    for (int i = 0; i < BLOCK; i++)
        call(by);
    return (now() - began) / BLOCK;
}

static void
time_blocks(void (*call)(const struct functions *), size_t calls)
{
    size_t blocks = calls / BLOCK ? calls / BLOCK : 1;
    int64_t *bare = calloc(blocks, sizeof *bare);
    int64_t *guarded = calloc(blocks, sizeof *guarded);
    if (!bare || !guarded)
        fail("calloc");
    find_own();
    (void)time_block(call, &own);
    (void)time_block(call, &linked); /* what is done once is no call's price */
    for (size_t block = 0; block < blocks; block++) {
        bare[block] = time_block(call, &own);
        guarded[block] = time_block(call, &linked);
    }
    printf("%" PRId64 " %" PRId64 "\n", rank(bare, blocks, 50),
           rank(guarded, blocks, 50));
}

static void
time_verdicts(size_t calls)
{
    int64_t *each = calloc(calls, sizeof *each);
    if (!each)
        fail("calloc");
    for (size_t i = 0; i < calls + 10; i++) {
        int64_t began = now();
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        int64_t took = now() - began;
        if (fd < 0 || write(fd, "made here\n", 10) != 10 || close(fd))
            fail(path);
        if (i >= 10)
            each[i - 10] = took;
    }
    int64_t median = rank(each, calls, 50);
    printf("%" PRId64 " %" PRId64 "\n", median, rank(each, calls, 99));
}

/* ---- programs ------------------------------------------------------ */

static int64_t
processor(void)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

static int
run(char **command, const char *output)
{
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        if (output) {
            int out = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            if (out < 0 || dup2(out, 1) < 0 || close(out))
                fail(output);
        }
        execvp(*command, command);
        fail(*command);
    }
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int
time_programs(char **command, int64_t many, const char *output)
{
    int status = 0;
    int64_t used = processor(), began = now();
    for (int64_t i = 0; i < many; i++)
        status |= run(command, output);
    int64_t took = now() - began;
    printf("%" PRId64 " %" PRId64 "\n", took / many,
           (processor() - used) / many);
    return status;
}

int
main(int arguments, char **given)
{
    if (arguments < 4)
        return 2;
    const char *what = given[1];
    path = given[2];
    if (!strcmp(what, "run"))
        return time_programs(given + 3, 1, path);
    if (!strcmp(what, "start"))
        return time_programs(given + 3, atol(path), NULL);
    size_t calls = strtoul(given[3], NULL, 10);
    if (!strcmp(what, "open")) {
        time_blocks(open_and_close, calls);
    } else if (!strcmp(what, "verdict")) {
        time_verdicts(calls);
    } else {
        file = open(path, O_RDONLY);
        if (file < 0)
            fail(path);
        time_blocks(strcmp(what, "read") ? look : read_on, calls);
    }
    return 0;
}
