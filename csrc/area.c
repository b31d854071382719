/* Where a path lies. Decided by the name alone where that is certain; else by
 * the name that the kernel gives the open descriptor, kept by folder: on the
 * way to a verdict every microsecond of a plain open would show. */
#include <string.h>

#include "shim.h"

#define FOLDERS_KEPT 256

NC_COLD static char cwd[NC_PATH_MAX];
static size_t cwd_size; /* 0: to be asked for */
static int cwd_is_whole;

/* Folders outside every root whose real place was asked for once. */
NC_COLD static struct {
    uint64_t hash;
    uint32_t area;
} folders[FOLDERS_KEPT];

/* ---- the working directory ----------------------------------------- */

void
nc_cwd_changed(void)
{
    __atomic_store_n(&cwd_size, 0, __ATOMIC_RELEASE);
}

static size_t
working_directory(void)
{
    size_t size = __atomic_load_n(&cwd_size, __ATOMIC_ACQUIRE);
    if (size)
        return size;
    int kept = errno;
    char found[NC_PATH_MAX];
    long got = nc_raw(getcwd, found, sizeof found);
    errno = kept;
    if (got <= 1 || found[0] != '/')
        return 0;
    size = (size_t)got - 1;
    memcpy(cwd, found, size);
    cwd_is_whole = nc_area_is_whole(cwd, size);
    __atomic_store_n(&cwd_size, size, __ATOMIC_RELEASE);
    return size;
}

/* ---- names --------------------------------------------------------- */

/* Joins and cleans `.`, `..` and `//` by the name alone. 0: too long. A `..`
 * may be wrong behind a symbolic link: *climbs tells. */
static size_t
join(const char *base, size_t base_size, const char *path, char *out,
     int *climbs)
{
    size_t size = 0;
    *climbs = 0;
    if (*path != '/') {
        memcpy(out, base, base_size);
        size = base_size == 1 ? 0 : base_size;
    }
    while (*path) {
        while (*path == '/')
            path++;
        size_t part = 0;
        while (path[part] && path[part] != '/')
            part++;
        if (part == 1 && path[0] == '.') {
            path++;
            continue;
        }
        if (part == 2 && path[0] == '.' && path[1] == '.') {
            *climbs = 1;
            while (size && out[size - 1] != '/')
                size--;
            if (size)
                size--;
            path += 2;
            continue;
        }
        if (!part)
            break;
        if (size + part + 2 > NC_PATH_MAX)
            return 0;
        out[size++] = '/';
        memcpy(out + size, path, part);
        size += part;
        path += part;
    }
    if (!size)
        out[size++] = '/';
    out[size] = 0;
    return size;
}

size_t
nc_path_in(int dirfd, const char *name, char *out)
{
    size_t size = strlen(name), base_size = 0;
    const char *base = cwd;
    if (!size || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return 0;
    if (dirfd == AT_FDCWD) {
        base_size = working_directory();
    } else {
        struct nc_description *folder = nc_look(dirfd);
        if (folder == NC_NOTHING || folder == NC_UNKNOWN ||
            folder->kind != NC_FOLDER)
            return 0;
        if (!(folder->flags & NC_CANONICAL)) {
            char real[NC_PATH_MAX];
            size_t found = nc_path_of(dirfd, real, sizeof real);
            if (!found || found > sizeof folder->path)
                return 0;
            memcpy(folder->path, real, found);
            folder->path_size = (uint16_t)found;
            folder->flags |= NC_CANONICAL;
        }
        base = folder->path;
        base_size = folder->path_size;
    }
    if (!base_size || base_size + size + 2 > NC_PATH_MAX)
        return 0;
    memcpy(out, base, base_size);
    if (base_size > 1)
        out[base_size++] = '/';
    memcpy(out + base_size, name, size + 1);
    return base_size + size;
}

static uint64_t
hash_of(const char *at, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)at[i]) * 0x100000001b3U;
    return hash ? hash : 1;
}

/* Outside the roots by its name, but a symbolic link may lead inside. */
static enum nc_area
area_behind_links(char *path, size_t *size, int fd, enum nc_area named)
{
    size_t folder = *size;
    while (folder && path[folder - 1] != '/')
        folder--;
    uint64_t hash = hash_of(path, folder);
    unsigned slot = (unsigned)(hash % FOLDERS_KEPT);
    if (__atomic_load_n(&folders[slot].hash, __ATOMIC_ACQUIRE) == hash)
        return folders[slot].area;
    char real[NC_PATH_MAX];
    size_t real_size;
    enum nc_area area = nc_area_of_fd(fd, real, &real_size);
    if (area == NC_AREA_ROOT) {
        memcpy(path, real, real_size + 1);
        *size = real_size;
        return area;
    }
    __atomic_store_n(&folders[slot].hash, 0, __ATOMIC_RELEASE);
    folders[slot].area = named;
    __atomic_store_n(&folders[slot].hash, hash, __ATOMIC_RELEASE);
    return area;
}

int
nc_area_at_once(int dirfd, const char *path)
{
    if (*path == '/' || strstr(path, ".."))
        return 0;
    if (dirfd == AT_FDCWD)
        return working_directory() && cwd_is_whole;
    const struct nc_description *folder = nc_look(dirfd);
    return folder != NC_NOTHING && folder != NC_UNKNOWN &&
           folder->kind == NC_FOLDER && (folder->flags & NC_WHOLE);
}

enum nc_area
nc_area_of_open(int dirfd, const char *path, int fd, char *out,
                size_t *out_size)
{
    *out_size = 0;
    const char *base = cwd;
    size_t base_size = 0;
    if (*path != '/') {
        if (dirfd == AT_FDCWD) {
            base_size = working_directory();
        } else {
            struct nc_description *folder = nc_look(dirfd);
            if (folder != NC_NOTHING && folder != NC_UNKNOWN &&
                folder->kind == NC_FOLDER && folder->path_size) {
                base = folder->path;
                base_size = folder->path_size;
            }
        }
        if (!base_size)
            return nc_area_of_fd(fd, out, out_size);
    }
    int climbs;
    size_t size = join(base, base_size, path, out, &climbs);
    if (!size)
        return nc_area_of_fd(fd, out, out_size);
    *out_size = size;
    enum nc_area area = nc_area_of(out, size);
    if (area == NC_AREA_ROOT)
        return area;
    if (area == NC_AREA_NONE) {
        /* names of descriptors and of processes' folders are aliases */
        if (!strncmp(out, "/proc/", 6) || !strncmp(out, "/dev/fd/", 8) ||
            !strncmp(out, "/dev/std", 8))
            return nc_area_of_fd(fd, out, out_size);
        if (!climbs)
            return area;
    }
    return area_behind_links(out, out_size, fd, area);
}
