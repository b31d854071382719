/* sweep MANNER PATH: closes everything above 2, as daemons do, between reading
 * and replacing; and sees that the guard writes into none of its files.
 * MANNER: close, close_range, closefrom, dup2 (onto every number), marks. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char bytes[1 << 17];

static long
get(const char *path, long upto)
{
    int fd = open(path, O_RDONLY);
    long got = read(fd, bytes, (size_t)upto);
    close(fd);
    return got;
}

int
main(int arguments, char **words)
{
    struct stat st;
    if (arguments != 3)
        return 9;
    const char *manner = words[1], *path = words[2];
    /* a connection stands from here on: a question was asked */
    if (get("own", sizeof bytes) < 1 || open("own", O_WRONLY | O_TRUNC) != 3)
        return 8;
    int mine = open("mine", O_RDWR | O_CREAT | O_EXCL, 0600);
    if (!strcmp(manner, "close"))
        for (int fd = 5; fd < 1100; fd++)
            close(fd);
    else if (!strcmp(manner, "close_range"))
        close_range(5, ~0U, 0);
    else if (!strcmp(manner, "closefrom"))
        closefrom(5);
    else if (!strcmp(manner, "marks"))
        close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    else
        for (int fd = 5; fd < 1024; fd++)
            if (dup2(mine, fd) != fd)
                return 7;
    if (stat(path, &st) || get(path, st.st_size) != st.st_size)
        return 6;
    int fd = open(path, O_WRONLY | O_TRUNC);
    if (!strcmp(manner, "dup2") ? fd >= 0 : fd != 5)
        return fd < 0 ? 1 : 5;
    if (fstat(mine, &st) || st.st_size)
        return 4; /* something that we did not write stands in our file */
    return 0;
}
