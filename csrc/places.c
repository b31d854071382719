/* The roots and the other places, and where among them a path lies. */
#include <string.h>

#include "shim.h"

#define MOST_PLACES 64
#define PLACES_TEXT 8192

struct place {
    const char *path;
    size_t size;
    enum nc_area area;
};

static struct place places[MOST_PLACES]; /* the longest path first */
static int place_count;
NC_COLD static char text[PLACES_TEXT];
static size_t text_used;

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

/* ---- what is open ---------------------------------------------------- */

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
enum nc_area
nc_area_by_climbing(int fd, char *out, size_t *out_size)
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
    return nc_area_by_climbing(AT_FDCWD, out, out_size);
}
