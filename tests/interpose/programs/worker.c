/* Does as it is told, a line at a time, and answers each line with the result
 * (0, or an errno's name) and the milliseconds it took:
 *
 *     read PATH UPTO    gets the bytes from 0 to UPTO (0: all)
 *     empty PATH        opens with O_TRUNC
 *     write PATH        the same, and writes a line
 *     append PATH       appends a line
 *     create PATH       makes a new file, with a line in it
 *     move FROM TO      renames
 *     shrink PATH       opens for writing, then ftruncate to 1
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char bytes[1 << 16];

static int
get(const char *path, long upto)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return -1;
    for (long got, all = 0; !upto || all < upto; all += got) {
        size_t most = upto && upto - all < (long)sizeof bytes
                          ? (size_t)(upto - all)
                          : sizeof bytes;
        got = read(fd, bytes, most);
        if (got <= 0)
            break;
    }
    return close(fd);
}

static int
put(const char *path, int flags, const char *text)
{
    int fd = open(path, O_WRONLY | flags, 0644);
    if (fd < 0)
        return -1;
    size_t size = strlen(text);
    if (write(fd, text, size) != (ssize_t)size)
        return -1;
    return close(fd);
}

static int
shrink(const char *path)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return -1;
    int result = ftruncate(fd, 1);
    int why = errno;
    close(fd);
    errno = why;
    return result;
}

static int
obey(const char *verb, const char *path, const char *other)
{
    if (!strcmp(verb, "read"))
        return get(path, atol(other));
    if (!strcmp(verb, "empty"))
        return put(path, O_TRUNC, "");
    if (!strcmp(verb, "write"))
        return put(path, O_TRUNC, "written anew\n");
    if (!strcmp(verb, "append"))
        return put(path, O_APPEND, "appended\n");
    if (!strcmp(verb, "create"))
        return put(path, O_CREAT | O_EXCL, "created\n");
    if (!strcmp(verb, "move"))
        return rename(path, other);
    if (!strcmp(verb, "shrink"))
        return shrink(path);
    errno = ENOSYS;
    return -1;
}

int
main(void)
{
    char line[9000], verb[16], path[4096], other[4096];
    struct timespec before, after;
    setvbuf(stdin, NULL, _IONBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        *other = 0;
        if (sscanf(line, "%15s %4095s %4095s", verb, path, other) < 2)
            return 2;
        clock_gettime(CLOCK_MONOTONIC, &before);
        errno = 0;
        int result = obey(verb, path, other);
        const char *why = result ? strerrorname_np(errno) : "0";
        clock_gettime(CLOCK_MONOTONIC, &after);
        long taken = (after.tv_sec - before.tv_sec) * 1000 +
                     (after.tv_nsec - before.tv_nsec) / 1000000;
        printf("%s %ld\n", why, taken);
        fflush(stdout);
    }
    return 0;
}
