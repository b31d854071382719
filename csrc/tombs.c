/* Creating anew what this session deleted. Nearly every creation is of a name
 * that nobody deleted, and costs a look at a page that the daemon shares:
 * where the path's slot is empty there is nothing to ask. */
#include <string.h>

#include "shim.h"

#define TOMBS_NAME "tombs" /* beside the daemon's socket */

static const struct nc_tombs *tombs;
static int looked; /* 1: `tombs` is as it will be */
NC_COLD static struct nc_tombs all_taken;

uint64_t
nc_tomb_hash(const char *path, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)path[i]) * 0x100000001b3U;
    return hash;
}

static const struct nc_tombs *
look(void)
{
    if (__atomic_load_n(&looked, __ATOMIC_ACQUIRE))
        return tombs;
    const char *socket = nc_environment_get("NOCLOBBER_SOCKET");
    const char *name = socket ? strrchr(socket, '/') : NULL;
    char path[NC_PATH_MAX];
    size_t folder = name ? (size_t)(name - socket) + 1 : 0;
    const struct nc_tombs *found = NULL;
    if (folder && folder + sizeof TOMBS_NAME < sizeof path) {
        memcpy(path, socket, folder);
        memcpy(path + folder, TOMBS_NAME, sizeof TOMBS_NAME);
        int kept = errno;
        int fd = nc_raw_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        struct stat st;
        if (fd >= 0) {
            if (!nc_stat(fd, &st) && st.st_size >= (off_t)sizeof *tombs) {
                found = nc_raw_mmap(NULL, sizeof *tombs, PROT_READ, MAP_SHARED,
                                    fd, 0);
                if (found == MAP_FAILED)
                    found = NULL;
            }
            nc_raw_close(fd);
        } else if (nc_environment_get("NOCLOBBER_LIFELINE")) {
            /* out of sight in this namespace: ask each time */
            all_taken.count = 1;
            found = &all_taken;
        }
        errno = kept;
    }
    tombs = found;
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    return found;
}

int
nc_tombs_any(void)
{
    const struct nc_tombs *page = look();
    return page && __atomic_load_n(&page->count, __ATOMIC_ACQUIRE);
}

static int
may_stand(const char *path, size_t size)
{
    const struct nc_tombs *page = tombs;
    if (page == &all_taken)
        return 1;
    return page->slots[nc_tomb_hash(path, size) % NC_TOMB_SLOTS] != 0;
}

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
        !may_stand(path, size)) {
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
    if (!size || !may_stand(where, size)) {
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
