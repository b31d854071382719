/* Calls that throw a file's content away other than by opening: shrinking,
 * punching, cloning over. */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <string.h>

#include "shim.h"

static int
ask_about(enum nc_op op, int fd, const struct stat *st, uint64_t start,
          uint64_t end)
{
    char path[NC_PATH_MAX];
    size_t size;
    if (nc_area_of_fd(fd, path, &size) == NC_AREA_NONE)
        return 0;
    struct nc_version version;
    nc_version_from(&version, st);
    const struct nc_ask ask = {
        .op = op,
        .fd = fd,
        .other = -1,
        .start = start,
        .end = end,
        .path = path,
        .path_size = size,
        .version = &version,
    };
    return nc_ask(&ask);
}

/* May what `path` names be emptied? -1: refused. Where it could be, *held is a
 * descriptor of it and `link` a path that leads to that very file; else the
 * program's own call goes on as it stands and gives the kernel's answer. */
int
nc_may_empty(int dirfd, const char *path, char *link, size_t link_size,
             int *held)
{
    int kept = errno;
    *held = -1;
    int fd = nc_raw_open(dirfd, path, NC_OPEN_LOOK, 0);
    if (fd < 0) {
        errno = kept;
        return 0;
    }
    struct stat st;
    if (nc_stat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size) {
        nc_raw_close(fd);
        errno = kept;
        return 0;
    }
    if (nc_raw(faccessat, AT_FDCWD, (nc_link_to(fd, link), link), W_OK)) {
        nc_raw_close(fd); /* the kernel would not allow it, or has no /proc */
        errno = kept;
        return 0;
    }
    (void)link_size;
    if (ask_about(NC_OP_TRUNCATE, fd, &st, 0, (uint64_t)st.st_size)) {
        nc_raw_close(fd);
        errno = EPERM;
        return -1;
    }
    *held = fd;
    errno = kept;
    return 0;
}

/* ---- shrinking ----------------------------------------------------- */

/* After a refused shrink nothing more may be written through descriptors of
 * that description: a program that takes no notice would write over the old
 * bytes. Streams cannot be hooked, so the descriptors become read-only. */
static void
disarm(int fd)
{
    char link[64];
    nc_link_to(fd, link);
    off_t at = nc_raw_lseek(fd, 0, SEEK_CUR);
    int look = nc_raw_open(AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    if (look < 0)
        look = nc_raw_open(AT_FDCWD, link, NC_OPEN_LOOK, 0);
    if (look < 0)
        return;
    nc_raw_lseek(look, at < 0 ? 0 : at, SEEK_SET);
    struct nc_description *of = nc_fd_get(fd);
    int last = of == NC_NOTHING || of == NC_UNKNOWN ? fd : nc_fd_last();
    for (int other = 0; other <= last; other++) {
        if (other != fd &&
            (of == NC_NOTHING || of == NC_UNKNOWN || nc_fd_get(other) != of))
            continue;
        int marks = (int)nc_raw(fcntl, other, F_GETFD);
        nc_raw(dup3, look, other, marks & FD_CLOEXEC ? O_CLOEXEC : 0);
    }
    nc_raw_close(look);
    if (of != NC_NOTHING && of != NC_UNKNOWN)
        of->flags &= ~(uint32_t)NC_WRITER;
}

int
nc_shrink(int fd, off_t size)
{
    struct stat st;
    int kept = errno;
    if (!nc_process.active || size < 0 || nc_stat(fd, &st) ||
        !S_ISREG(st.st_mode) || st.st_size <= size ||
        (nc_raw(fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        errno = kept;
        return 0;
    }
    errno = kept;
    if (!ask_about(NC_OP_SHRINK, fd, &st, (uint64_t)size, (uint64_t)st.st_size))
        return 0;
    disarm(fd);
    errno = EPERM;
    return -1;
}

static void
note_emptied(int fd, off_t size)
{
    if (size || nc_is_guest())
        return;
    struct nc_description *of = nc_fd_get(fd);
    if (of != NC_NOTHING && of != NC_UNKNOWN && of->kind == NC_FILE)
        of->flags |= NC_FRESH;
}

#define SHRINK(name)                   \
    if (nc_shrink(fd, size))           \
        return -1;                     \
    int result = REAL(name)(fd, size); \
    if (!result && nc_process.active)  \
        note_emptied(fd, size);        \
    return result

NC_EXPORT int
ftruncate(int fd, off_t size)
{
    SHRINK(ftruncate);
}

NC_EXPORT int
ftruncate64(int fd, off_t size)
{
    SHRINK(ftruncate64);
}

/* 0: go on. A descriptor of the very file is in *held where one was needed. */
static int
shrink_path(const char *path, off_t size, char *link, int *held)
{
    int kept = errno;
    struct stat st;
    *held = -1;
    int fd = nc_process.active && size >= 0
                 ? nc_raw_open(AT_FDCWD, path, NC_OPEN_LOOK, 0)
                 : -1;
    if (fd < 0) {
        errno = kept;
        return 0;
    }
    nc_link_to(fd, link);
    int is_loss = !nc_stat(fd, &st) && S_ISREG(st.st_mode) &&
                  st.st_size > size && !nc_raw(faccessat, AT_FDCWD, link, W_OK);
    if (is_loss && ask_about(NC_OP_SHRINK, fd, &st, (uint64_t)size,
                             (uint64_t)st.st_size)) {
        nc_raw_close(fd);
        errno = EPERM;
        return -1;
    }
    if (is_loss)
        *held = fd;
    else
        nc_raw_close(fd);
    errno = kept;
    return 0;
}

#define SHRINK_PATH(name)                                               \
    if (NC_REFUSES(size >= 0 && nc_may_open(AT_FDCWD, path, O_WRONLY))) \
        return -1;                                                      \
    char link[64];                                                      \
    int held;                                                           \
    if (shrink_path(path, size, link, &held))                           \
        return -1;                                                      \
    int result = REAL(name)(held >= 0 ? link : path, size);             \
    if (held >= 0) {                                                    \
        int why = errno;                                                \
        nc_raw_close(held);                                             \
        errno = why;                                                    \
    }                                                                   \
    return result

NC_EXPORT int
truncate(const char *path, off_t size)
{
    SHRINK_PATH(truncate);
}

NC_EXPORT int
truncate64(const char *path, off_t size)
{
    SHRINK_PATH(truncate64);
}

/* ---- holes and clones ---------------------------------------------- */

static int
may_punch(int fd, int mode, off_t offset, off_t size)
{
    struct stat st;
    int kept = errno;
    if (!nc_process.active || !(mode & ~FALLOC_FL_KEEP_SIZE) ||
        nc_stat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size ||
        !nc_can_lose(mode, offset, size, &st) ||
        (nc_raw(fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        errno = kept;
        return 0;
    }
    errno = kept;
    if (!(mode & FALLOC_FL_COLLAPSE_RANGE) && (offset || size < st.st_size))
        return 0; /* part of it: an edit */
    uint64_t end = (uint64_t)offset + (uint64_t)size;
    if (end > (uint64_t)st.st_size)
        end = (uint64_t)st.st_size;
    if (!ask_about(NC_OP_PUNCH, fd, &st, (uint64_t)offset, end))
        return 0;
    disarm(fd);
    errno = EPERM;
    return -1;
}

NC_EXPORT int
fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (may_punch(fd, mode, offset, size))
        return -1;
    return REAL(fallocate)(fd, mode, offset, size);
}

NC_EXPORT int
fallocate64(int fd, int mode, off_t offset, off_t size)
{
    if (may_punch(fd, mode, offset, size))
        return -1;
    return REAL(fallocate64)(fd, mode, offset, size);
}

NC_EXPORT int
ioctl(int fd, nc_ioctl_number request, ...)
{
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    struct stat st;
    int marks;
    if (NC_REFUSES(
            (request == FS_IOC_SETFLAGS || request == FS_IOC_FSSETXATTR) &&
            !nc_raw(ioctl, fd, FS_IOC_GETFLAGS, &marks) &&
            nc_may_change_fd(fd, NC_RIGHT_OWN)))
        return -1;
    if (nc_unlikely(request == FICLONE) && nc_process.active) {
        int kept = errno;
        int is_loss = !nc_stat(fd, &st) && S_ISREG(st.st_mode) && st.st_size &&
                      nc_can_clone(fd, (int)(intptr_t)argument);
        errno = kept;
        if (is_loss &&
            ask_about(NC_OP_TRUNCATE, fd, &st, 0, (uint64_t)st.st_size)) {
            disarm(fd);
            errno = EPERM;
            return -1;
        }
    }
    return REAL(ioctl)(fd, request, argument);
}
