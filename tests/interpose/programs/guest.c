/* guest PATH: a vfork child closes, doubles and opens descriptors in its
 * parent's memory; the parent's own are as they were. It had read half of PATH
 * before and reads the other half after that, so that it may replace it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char bytes[1 << 17];

int
main(int arguments, char **words)
{
    struct stat st;
    int status, fd = open(words[arguments - 1], O_RDONLY);
    int other = open("/dev/null", O_RDONLY);
    if (fstat(fd, &st) || read(fd, bytes, (size_t)st.st_size / 2) < 1)
        return 9;
    pid_t child = vfork();
    if (!child) {
        dup2(other, fd);
        close(other);
        if (read(fd, bytes + sizeof bytes / 2, 9) != 0)
            _exit(8);
        int fresh = open(words[arguments - 1], O_RDONLY);
        (void)!read(fresh, bytes + sizeof bytes / 2, 9);
        closefrom(3);
        _exit(fresh == other ? 0 : 7);
    }
    if (waitpid(child, &status, 0) != child || status)
        return 6;
    if (fcntl(other, F_GETFD) < 0 || read(fd, bytes, sizeof bytes) < 1)
        return 5;
    close(fd);
    fd = open(words[arguments - 1], O_WRONLY | O_TRUNC);
    return fd < 0 ? 1 : 0;
}
