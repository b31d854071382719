/* Names deleted: told before it is too late to keep the content. */
#include "shim.h"

struct deleting {
    struct nc_version version;
    size_t path_size;
    uint32_t links;
    char path[NC_PATH_MAX];
};

/* Refused only to a process that was refused this file, or where what is about
 * to go cannot be kept. */
static int
may_delete(int dirfd, const char *path, struct deleting *gone)
{
    int kept = errno;
    struct stat st;
    gone->path_size = 0;
    int fd = nc_look_at(dirfd, path, &st);
    if (fd < 0) {
        errno = kept;
        return 0;
    }
    if (nc_unlikely(nc_refusals) && nc_was_refused(&st)) {
        nc_let_go(fd, EPERM);
        return -1;
    }
    size_t size;
    if (S_ISREG(st.st_mode) && st.st_size &&
        nc_area_of_fd(fd, gone->path, &size) == NC_AREA_ROOT && size) {
        gone->path_size = size;
        gone->links = (uint32_t)st.st_nlink - 1;
        nc_version_from(&gone->version, &st);
        const struct nc_ask ask = {
            .op = NC_OP_DELETE,
            .fd = fd,
            .other = -1,
            .end = gone->version.size,
            .path = gone->path,
            .path_size = size,
            .version = &gone->version,
        };
        if (nc_ask(&ask)) {
            nc_let_go(fd, EPERM);
            return -1;
        }
    }
    nc_let_go(fd, kept);
    return 0;
}

static void
note_deleted(const struct deleting *gone)
{
    if (!gone->path_size || nc_is_guest())
        return;
    int kept = errno;
    struct nc_gone record = {
        .record = {.type = NC_GONE},
        .version = gone->version,
        .path_size = (uint32_t)gone->path_size,
        .links = gone->links,
    };
    nc_report(&record.record, sizeof record, gone->path, gone->path_size, NULL,
              0);
    nc_flush();
    errno = kept;
}

#define DELETE(folder, name, call)                  \
    if (!nc_process.active)                         \
        return call;                                \
    if (NC_REFUSES(nc_may_unname(folder, name, 0))) \
        return -1;                                  \
    struct deleting gone;                           \
    if (may_delete(folder, name, &gone))            \
        return -1;                                  \
    int result = call;                              \
    if (!result)                                    \
        note_deleted(&gone);                        \
    return result

/* Tombstones do not outlive their directory. */
static size_t
before_rmdir(int dirfd, const char *path, char *out)
{
    int kept = errno;
    size_t size = 0;
    if (nc_process.active && !nc_is_guest() && nc_tombs_any()) {
        struct stat st;
        int fd = nc_look_at(dirfd, path, &st);
        enum nc_area area =
            fd >= 0 ? nc_area_of_fd(fd, out, &size) : NC_AREA_NONE;
        if (area != NC_AREA_ROOT)
            size = 0;
        if (fd >= 0)
            nc_raw_close(fd);
    }
    errno = kept;
    return size;
}

static void
note_rmdir(const char *path, size_t size)
{
    int kept = errno;
    struct nc_gone record = {
        .record = {.type = NC_GONE, .flags = NC_FOLDER_GONE},
        .path_size = (uint32_t)size,
    };
    if (size) {
        nc_report(&record.record, sizeof record, path, size, NULL, 0);
        nc_flush();
    }
    errno = kept;
}

NC_EXPORT int
rmdir(const char *path)
{
    if (NC_REFUSES(nc_may_unname(AT_FDCWD, path, 1)))
        return -1;
    char gone[NC_PATH_MAX];
    size_t size = before_rmdir(AT_FDCWD, path, gone);
    int result = REAL(rmdir)(path);
    if (!result)
        note_rmdir(gone, size);
    return result;
}

NC_EXPORT int
unlink(const char *path)
{
    DELETE(AT_FDCWD, path, REAL(unlink)(path));
}

NC_EXPORT int
unlinkat(int dirfd, const char *path, int flags)
{
    if (flags & AT_REMOVEDIR) {
        if (NC_REFUSES(nc_may_unname(dirfd, path, 1)))
            return -1;
        char left[NC_PATH_MAX];
        size_t size = before_rmdir(dirfd, path, left);
        int removed = REAL(unlinkat)(dirfd, path, flags);
        if (!removed)
            note_rmdir(left, size);
        return removed;
    }
    DELETE(dirfd, path, REAL(unlinkat)(dirfd, path, flags));
}

NC_EXPORT int
remove(const char *path)
{
    if (NC_REFUSES(nc_may_unname(AT_FDCWD, path, 1)))
        return -1;
    DELETE(AT_FDCWD, path, REAL(remove)(path));
}
