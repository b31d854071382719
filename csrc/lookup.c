/* Paths as a supervised process means them: from its own directory and root,
 * with its own descriptors under /proc/self. */
#include "supervise.h"

#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>

#define MOST_LINKS 40 /* as the kernel has it */

void
nc_found_drop(struct nc_found *found)
{
    if (found->fd >= 0)
        nc_raw_close(found->fd);
    if (found->folder >= 0)
        nc_raw_close(found->folder);
    found->fd = found->folder = -1;
}

static int
open_path(int base, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {
        .flags = (unsigned)(O_PATH | O_CLOEXEC | flags),
        .resolve = resolve,
    };
    return (int)syscall(SYS_openat2, base, path, &how, sizeof how);
}

/* The folder that a path starts from. */
static int
base_of(const struct nc_image *image, pid_t tid, int dirfd, const char *path,
        uint64_t *resolve)
{
    char link[64];
    *resolve = RESOLVE_NO_MAGICLINKS;
    if (*path == '/' && image->shares_root)
        return open_path(AT_FDCWD, "/", 0, 0);
    if (*path == '/') {
        *resolve = RESOLVE_IN_ROOT;
        snprintf(link, sizeof link, "/proc/%d/root", tid);
    } else if (dirfd == AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/%d/cwd", tid);
    } else {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", tid, dirfd);
    }
    return open_path(AT_FDCWD, link, 0, 0);
}

/* A path that speaks of the process itself, as we have to say it; NULL: it
 * does not. */
static const char *
own(pid_t tid, const char *path, char out[NC_PATH_MAX])
{
    static const struct {
        const char *from, *to;
    } all[] = {
        {"/dev/stdin", "fd/0"},     {"/dev/stdout", "fd/1"},
        {"/dev/stderr", "fd/2"},    {"/dev/fd/", "fd/"},
        {"/proc/thread-self/", ""}, {"/proc/self/", ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t size = strlen(all[i].from);
        if (strncmp(path, all[i].from, size))
            continue;
        int used = snprintf(out, NC_PATH_MAX, "/proc/%d/%s%s", tid, all[i].to,
                            path + size);
        return used < NC_PATH_MAX ? out : NULL;
    }
    return strncmp(path, "/proc/", 6) ? NULL : path;
}

/* Longer than a path may be, and so somewhere below the process's directory. */
static void
climb(pid_t tid, struct nc_found *found)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/cwd", tid);
    int folder = open_path(AT_FDCWD, link, 0, 0);
    found->size = 0;
    found->area = nc_area_by_climbing(folder, found->path, &found->size);
    if (folder >= 0)
        nc_raw_close(folder);
}

static void
place(pid_t tid, struct nc_found *found)
{
    size_t length = strlen(found->name);
    bool is_there = found->fd >= 0;
    found->size = nc_path_of(is_there ? found->fd : found->folder, found->path,
                             NC_PATH_MAX);
    if (!is_there && found->size && found->size + length + 2 <= NC_PATH_MAX) {
        if (found->size > 1)
            found->path[found->size++] = '/';
        memcpy(found->path + found->size, found->name, length + 1);
        found->size += length;
    } else if (!is_there) {
        found->size = 0;
    }
    if (found->size)
        found->area = nc_area_of(found->path, found->size);
    else
        climb(tid, found);
}

/* Splits off the last name. 0: there is none that can be made or taken. */
static int
split(const char *path, char folder[NC_PATH_MAX], char name[256])
{
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    size_t size = slash ? (size_t)(slash - path) : 0;
    if (!*last || !strcmp(last, ".") || !strcmp(last, "..") ||
        strlen(last) > NAME_MAX)
        return 0;
    memcpy(name, last, strlen(last) + 1);
    memcpy(folder, path, size);
    if (slash && !size)
        folder[size++] = '/';
    if (!slash)
        folder[size++] = '.';
    folder[size] = 0;
    return 1;
}

static int
look_up(const struct nc_image *image, pid_t tid, int base, uint64_t resolve,
        const char *path, bool follows, int links, struct nc_found *out)
{
    char text[NC_PATH_MAX], folder[NC_PATH_MAX];
    const char *mine = *path == '/' ? own(tid, path, text) : NULL;
    if (mine)
        out->fd = open_path(AT_FDCWD, mine, follows ? 0 : O_NOFOLLOW, 0);
    else
        out->fd = open_path(base, path, follows ? 0 : O_NOFOLLOW, resolve);
    int why = out->fd < 0 ? errno : 0;
    if (out->fd >= 0 && nc_stat(out->fd, &out->st))
        return errno;
    if (mine && out->fd < 0)
        return why;
    int has_name = split(path, folder, out->name);
    if (has_name)
        out->folder = open_path(base, folder, O_DIRECTORY, resolve);
    if (out->fd >= 0)
        return 0;
    if (out->folder < 0 || (why != ENOENT && why != ELOOP))
        return why;
    /* nothing, or a link to nothing, or to what is the process's own */
    struct stat st;
    if (!follows || fstatat(out->folder, out->name, &st, AT_SYMLINK_NOFOLLOW) ||
        !S_ISLNK(st.st_mode))
        return why == ENOENT ? 0 : why;
    ssize_t size = readlinkat(out->folder, out->name, text, sizeof text - 1);
    if (size <= 0 || links >= MOST_LINKS)
        return size <= 0 ? ENOENT : ELOOP;
    text[size] = 0;
    int next = *text == '/' && !image->shares_root
                   ? base_of(image, tid, AT_FDCWD, text, &resolve)
                   : out->folder;
    if (next < 0)
        return errno;
    out->folder = -1;
    why = look_up(image, tid, next, resolve, text, true, links + 1, out);
    nc_raw_close(next);
    return why;
}

int
nc_resolve(const struct nc_image *image, pid_t tid, int dirfd, const char *path,
           bool follows, struct nc_found *out)
{
    uint64_t resolve;
    out->fd = out->folder = -1;
    out->size = 0;
    out->area = NC_AREA_NONE;
    if (!*path)
        return ENOENT;
    int base = base_of(image, tid, dirfd, path, &resolve);
    if (base < 0)
        return errno;
    int why = look_up(image, tid, base, resolve, path, follows, 0, out);
    nc_raw_close(base);
    if (why)
        nc_found_drop(out);
    else
        place(tid, out);
    return why;
}

int
nc_resolve_fd(pid_t tid, int fd, struct nc_found *out)
{
    char link[64];
    out->folder = -1;
    *out->name = 0;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", tid, fd);
    out->fd = open_path(AT_FDCWD, link, 0, 0);
    if (out->fd >= 0 && nc_stat(out->fd, &out->st))
        nc_found_drop(out);
    if (out->fd >= 0)
        place(tid, out);
    return out->fd;
}
