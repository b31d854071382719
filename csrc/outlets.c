/* Which of the command's outputs are carried: those behind which a harness may
 * stand. A closed descriptor and a device (/dev/null) are left alone; so is a
 * file under a root, which is work and not what the agent is shown: it stays
 * the file that `cat f >> f` must recognise. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#define SAME_FILE 0 /* KCMP_FILE of linux/kcmp.h */
#endif

enum outlet { SILENT, OPAQUE, CARRIED, TERMINAL };

static bool
is_under_root(int fd, const struct nc_launch *launch)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    for (size_t i = 0; i < launch->root_count; i++) {
        size_t length = strlen(launch->roots[i]);
        if (!strncmp(path, launch->roots[i], length) &&
            (path[length] == '/' || launch->roots[i][length - 1] == '/'))
            return true;
    }
    return false;
}

static enum outlet
classify(int fd, const struct nc_launch *launch, struct stat *status,
         enum nc_target *target)
{
    int type = SOCK_STREAM;
    socklen_t size = sizeof type;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, status) < 0)
        return SILENT;
    switch (status->st_mode & S_IFMT) {
    case S_IFCHR:
        *target = NC_TO_TERMINAL;
        return isatty(fd) ? TERMINAL : SILENT;
    case S_IFIFO:
        *target = NC_TO_PIPE;
        return CARRIED;
    case S_IFSOCK:
        *target = NC_TO_SOCKET;
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
        return type == SOCK_STREAM ? CARRIED : OPAQUE;
    case S_IFREG:
        *target = NC_TO_FILE;
        return is_under_root(fd, launch) ? SILENT : CARRIED;
    default:
        return OPAQUE;
    }
}

/* Two descriptors of one file with an offset each write over one another, and
 * must go on doing so. */
static bool
share_offset(int a, int b)
{
#if defined __linux__ && defined SYS_kcmp
    long differ = syscall(SYS_kcmp, getpid(), getpid(), SAME_FILE, a, b);
    if (differ >= 0)
        return differ == 0;
#endif
    return lseek(a, 0, SEEK_CUR) == lseek(b, 0, SEEK_CUR);
}

static bool
is_one_place(const struct stat *a, const struct stat *b)
{
    if (a->st_dev != b->st_dev || a->st_ino != b->st_ino)
        return false;
    if (!S_ISREG(a->st_mode))
        return true;
    int flags = fcntl(STDOUT_FILENO, F_GETFL) & fcntl(STDERR_FILENO, F_GETFL);
    return flags & O_APPEND || share_offset(STDOUT_FILENO, STDERR_FILENO);
}

static bool
carry(struct nc_pump *pump, int fd, enum nc_target target, unsigned tag)
{
    struct nc_stream *stream = &pump->streams[pump->count];
    int ends[2];
    *stream = (struct nc_stream){.from = -1, .to = -1, .given = -1};
    if (nc_pipe(ends, true) < 0)
        return false;
    stream->from = ends[0];
    stream->given = ends[1];
    stream->to = nc_move_high(dup(fd));
    stream->target = target;
    stream->tag = tag;
    pump->count++;
    return stream->from >= 0 && stream->given >= 0 && stream->to >= 0;
}

/* A terminal like the harness's. Its master is stream 0. */
static bool
make_terminal(struct nc_pump *pump, const struct stat *status)
{
    struct nc_pty *pty = &pump->pty;
    struct nc_stream *stream = &pump->streams[0];
    struct winsize size;
    char name[PATH_MAX];
    if (tcgetattr(STDOUT_FILENO, &pty->modes) < 0)
        return false;
    pty->master = nc_move_high(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (pty->master < 0 || grantpt(pty->master) < 0 ||
        unlockpt(pty->master) < 0 ||
        ptsname_r(pty->master, name, sizeof name) != 0)
        return false;
    pty->slave = nc_move_high(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (pty->slave < 0 || tcsetattr(pty->slave, TCSANOW, &pty->modes) < 0)
        return false;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        ioctl(pty->slave, TIOCSWINSZ, &size);

    for (int fd = 0; fd < 3; fd++) {
        struct stat other;
        pty->is_slave[fd] = isatty(fd) && fstat(fd, &other) == 0 &&
                            other.st_rdev == status->st_rdev;
    }
    /* Else a neighbour in a pipeline may want what is typed. */
    pty->eager = pty->is_slave[0] || getpgrp() == getpid();
    pty->terminal =
        nc_move_high(dup(pty->is_slave[0] ? STDIN_FILENO : STDOUT_FILENO));
    *stream = (struct nc_stream){.from = nc_move_high(dup(pty->master)),
                                 .to = nc_move_high(dup(STDOUT_FILENO)),
                                 .given = -1,
                                 .target = NC_TO_TERMINAL,
                                 .tag = NC_STDOUT | NC_TTY};
    if (pty->is_slave[2])
        stream->tag |= NC_STDERR;
    pump->count = 1;
    return pty->terminal >= 0 && stream->from >= 0 && stream->to >= 0;
}

bool
nc_plan_outlets(struct nc_pump *pump, const struct nc_launch *launch,
                bool *attested)
{
    struct stat out = {0}, err = {0};
    enum nc_target out_target, err_target;
    enum outlet first = classify(STDOUT_FILENO, launch, &out, &out_target);
    enum outlet second = classify(STDERR_FILENO, launch, &err, &err_target);
    bool made = true;
    pump->launch = launch;
    pump->count = 0;
    pump->pty.master = pump->pty.slave = pump->pty.terminal = -1;
    *attested = first != OPAQUE && second != OPAQUE &&
                (second != TERMINAL || first == TERMINAL);
    if (first == TERMINAL) {
        made = make_terminal(pump, &out);
        if (pump->pty.is_slave[2])
            second = SILENT;
    } else if (first == CARRIED) {
        bool both = second == CARRIED && is_one_place(&out, &err);
        made = carry(pump, STDOUT_FILENO, out_target,
                     both ? NC_STDOUT | NC_STDERR : NC_STDOUT);
        if (both)
            second = SILENT;
    }
    if (made && second == CARRIED)
        made = carry(pump, STDERR_FILENO, err_target, NC_STDERR);
    if (!made) {
        /* No descriptors left, say: the command itself may need none. */
        nc_drop_outlets(pump);
        *attested = false;
    }
    return pump->count > 0;
}

static void
drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void
nc_drop_outlets(struct nc_pump *pump)
{
    drop(&pump->pty.master);
    drop(&pump->pty.slave);
    drop(&pump->pty.terminal);
    for (size_t i = 0; i < pump->count; i++) {
        drop(&pump->streams[i].from);
        drop(&pump->streams[i].to);
        drop(&pump->streams[i].given);
    }
    pump->count = 0;
}

void
nc_take_places(const struct nc_pump *pump)
{
    for (int fd = 0; fd < 3; fd++)
        if (pump->pty.master >= 0 && pump->pty.is_slave[fd])
            dup2(pump->pty.slave, fd);
    for (size_t i = 0; i < pump->count; i++) {
        const struct nc_stream *stream = &pump->streams[i];
        if (stream->given < 0)
            continue;
        if (stream->tag & NC_STDOUT)
            dup2(stream->given, STDOUT_FILENO);
        if (stream->tag & NC_STDERR)
            dup2(stream->given, STDERR_FILENO);
    }
}
