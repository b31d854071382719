/* May a name that this session deleted be created anew? */
#include "shim.h"

int
nc_may_create(int fd, int source)
{
    char path[NC_PATH_MAX];
    size_t size;
    struct stat st;
    if (!nc_tombs_any())
        return 0;
    int kept = errno;
    if (nc_stat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size ||
        nc_area_of_fd(fd, path, &size) != NC_AREA_ROOT || !size ||
        !nc_tomb_may_stand(path, size)) {
        errno = kept;
        return 0;
    }
    struct nc_version version;
    nc_version_from(&version, &st);
    const struct nc_ask ask = {
        .op = NC_OP_CREATE,
        .fd = fd,
        .other = source,
        .path = path,
        .path_size = size,
        .version = &version,
    };
    errno = kept;
    return nc_ask(&ask);
}

int
nc_may_take_name(int dirfd, const char *path, int source)
{
    char where[NC_PATH_MAX];
    if (!nc_tombs_any())
        return 0;
    int kept = errno;
    size_t size = nc_full_path(dirfd, path, where);
    if (!size || !nc_tomb_may_stand(where, size)) {
        errno = kept;
        return 0;
    }
    /* a placeholder: where the answer is no, it becomes the old file again */
    int fd =
        nc_raw_open(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        errno = kept;
        return 0; /* taken, or impossible: the kernel says so itself */
    }
    int refused = nc_may_create(fd, source);
    nc_raw_close(fd);
    if (!refused) {
        nc_raw(unlinkat, dirfd, path, 0);
        errno = kept;
        return 0;
    }
    errno = EPERM;
    return -1;
}
