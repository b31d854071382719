/* Where a path lies. Decided by the name alone where that is certain; else by
 * the name that the kernel gives the open descriptor, kept by folder: on the
 * way to a verdict every microsecond of a plain open would show. */
#include <string.h>

#include "shim.h"

#define MOST_PLACES 64
#define PLACES_TEXT 8192
#define FOLDERS_KEPT 256

struct place {
    const char *path;
    size_t size;
    enum nc_area area;
};

static struct place places[MOST_PLACES]; /* the longest path first */
static int place_count;
NC_COLD static char text[PLACES_TEXT];
static size_t text_used;

NC_COLD static char cwd[NC_PATH_MAX];
static size_t cwd_size; /* 0: to be asked for */
static int cwd_is_whole;

/* Folders outside every root whose real place was asked for once. */
NC_COLD static struct {
    uint64_t hash;
    uint32_t area;
} folders[FOLDERS_KEPT];

/* ---- the places ---------------------------------------------------- */

static void
add_place(const char *path, size_t size, enum nc_area area)
{
    while (size > 1 && path[size - 1] == '/')
        size--;
    if (place_count >= MOST_PLACES || !size)
        return;
    int at = place_count++;
    for (; at && places[at - 1].size < size; at--)
        places[at] = places[at - 1];
    places[at] = (struct place){path, size, area};
}

/* A list of folders parted by `:`, where `\` guards `:` and itself. It stays
 * where it is: only what was guarded is copied. */
static void
add_places(const char *list, enum nc_area area)
{
    while (list && *list) {
        const char *begin = list;
        size_t size = 0;
        while (list[size] && list[size] != ':' && list[size] != '\\')
            size++;
        list += size;
        if (*list == '\\') {
            char *copy = text + text_used;
            if (text_used + size >= sizeof text)
                return;
            memcpy(copy, begin, size);
            for (begin = copy; *list && *list != ':'; list++) {
                if (*list == '\\' && list[1])
                    list++;
                if (text_used + size + 1 >= sizeof text)
                    return;
                copy[size++] = *list;
            }
            text_used += size;
        }
        list += *list == ':';
        add_place(begin, size, area);
    }
}

void
nc_area_start(const char *roots, const char *skipped)
{
    static const char *const systems[] = {"/proc", "/sys", "/dev",  "/usr",
                                          "/lib",  "/bin", "/sbin", "/lib64"};
    /* roots first: a long list of other places must not crowd them out */
    add_places(roots, NC_AREA_ROOT);
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        add_place(systems[i], strlen(systems[i]), NC_AREA_NONE);
    add_places(skipped, NC_AREA_NONE);
}

enum nc_area
nc_area_of(const char *path, size_t size)
{
    for (int i = 0; i < place_count; i++) {
        const struct place *at = &places[i];
        if (size < at->size || path[at->size - 1] != at->path[at->size - 1])
            continue; /* nearly all of them */
        if ((size == at->size || path[at->size] == '/' || at->size == 1) &&
            !memcmp(path, at->path, at->size))
            return at->area;
    }
    return NC_AREA_ELSE;
}

int
nc_area_is_whole(const char *folder, size_t size)
{
    if (size <= 1 || nc_area_of(folder, size) != NC_AREA_ROOT)
        return 0;
    for (int i = 0; i < place_count; i++)
        if (places[i].size > size && places[i].path[size] == '/' &&
            !memcmp(places[i].path, folder, size))
            return 0;
    return 1;
}

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

size_t
nc_path_of(int fd, char *out, size_t size)
{
    int kept = errno;
    char link[32];
    char *at = link + sizeof link;
    unsigned number = (unsigned)fd;
    *--at = 0;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    at -= sizeof NC_FD_LINK - 1;
    memcpy(at, NC_FD_LINK, sizeof NC_FD_LINK - 1);
    ssize_t got = nc_raw_readlink(at, out, size - 1);
    errno = kept;
    if (got <= 0 || out[0] != '/')
        return 0;
    out[got] = 0;
    return (size_t)got;
}

/* Deeper than a path may be long: is one of its parents a root? `out` then
 * says as much of the path as there is room for. */
static enum nc_area
area_by_climbing(int fd, char *out, size_t *out_size)
{
    static const char far_below[] = "/...";
    int kept = errno;
    struct stat st, roots[MOST_PLACES];
    const struct place *names[MOST_PLACES];
    int known = 0;
    for (int i = 0; i < place_count; i++) {
        char path[NC_PATH_MAX];
        if (places[i].area != NC_AREA_ROOT || places[i].size + 8 >= sizeof path)
            continue;
        memcpy(path, places[i].path, places[i].size);
        path[places[i].size] = 0;
        int root = nc_raw_open(AT_FDCWD, path, NC_OPEN_LOOK, 0);
        if (root < 0)
            continue;
        if (!nc_stat(root, &st)) {
            names[known] = &places[i];
            roots[known++] = st;
        }
        nc_raw_close(root);
    }
    enum nc_area area = NC_AREA_ELSE;
    int folder = nc_raw_open(fd, "..", NC_OPEN_LOOK, 0);
    struct stat last = {0};
    for (int depth = 0; folder >= 0 && depth < 65536; depth++) {
        if (nc_stat(folder, &st) ||
            (st.st_dev == last.st_dev && st.st_ino == last.st_ino))
            break;
        for (int i = 0; i < known; i++)
            if (st.st_dev == roots[i].st_dev && st.st_ino == roots[i].st_ino) {
                area = NC_AREA_ROOT;
                memcpy(out, names[i]->path, names[i]->size);
                memcpy(out + names[i]->size, far_below, sizeof far_below);
                *out_size = names[i]->size + sizeof far_below - 1;
            }
        last = st;
        int above = nc_raw_open(folder, "..", NC_OPEN_LOOK, 0);
        nc_raw_close(folder);
        folder = above;
        if (area == NC_AREA_ROOT)
            break;
    }
    if (folder >= 0)
        nc_raw_close(folder);
    errno = kept;
    return area;
}

enum nc_area
nc_area_of_fd(int fd, char *out, size_t *out_size)
{
    size_t size = nc_path_of(fd, out, NC_PATH_MAX);
    *out_size = size;
    if (size)
        return nc_area_of(out, size);
    /* no name: longer than PATH_MAX, and so somewhere below where we are */
    return area_by_climbing(AT_FDCWD, out, out_size);
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
