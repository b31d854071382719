/* One system call, many times over, and what one of them took.
 *
 *   micro read FILE CALLS       4 KiB each, from the start again at the end
 *   micro open FILE CALLS       for reading, and closed; it may be absent
 *   micro fstat FILE CALLS
 *   micro verdict FILE CALLS    the truncating open of what was just written
 *   micro start N COMMAND...    fork, exec, and the end of it
 *   micro run OUT COMMAND...    once; its output goes to OUT
 *
 * Prints numbers on one line, in ns: for calls the median and the 99th
 * percentile (of single calls for verdict, else of the mean of each block of
 * BLOCK calls); for start and run wall time and processor time of one. */
#define _GNU_SOURCE
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

static int file;
static const char *path;

static void
start_reading(void)
{
    file = open(path, O_RDONLY);
    if (file < 0)
        fail(path);
}

static void
read_on(void)
{
    static char room[CHUNK];
    ssize_t got = read(file, room, sizeof room);
    if (got < 0)
        fail(path);
    if (got < CHUNK && lseek(file, 0, SEEK_SET) < 0)
        fail(path);
}

static void
look(void)
{
    struct stat st;
    if (fstat(file, &st))
        fail(path);
}

static void
open_and_close(void)
{
    int fd = open(path, O_RDONLY);
    if (fd >= 0)
        close(fd);
}

static int
by_size(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void
print(int64_t *each, size_t many)
{
    qsort(each, many, sizeof *each, by_size);
    printf("%" PRId64 " %" PRId64 "\n", each[many / 2], each[many * 99 / 100]);
}

static void
time_blocks(void (*call)(void), size_t calls)
{
    size_t blocks = calls / BLOCK ? calls / BLOCK : 1;
    int64_t *each = calloc(blocks, sizeof *each);
    if (!each)
        fail("calloc");
    for (int i = 0; i < BLOCK; i++)
        call(); /* what is done once is not this call's price */
    for (size_t block = 0; block < blocks; block++) {
        int64_t began = now();
        for (int i = 0; i < BLOCK; i++)
            call();
        each[block] = (now() - began) / BLOCK;
    }
    print(each, blocks);
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
    print(each, calls);
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
        start_reading();
        time_blocks(strcmp(what, "read") ? look : read_on, calls);
    }
    return 0;
}
