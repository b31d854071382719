/* Names: renamed over, linked. */
#include <string.h>

#include "shim.h"

/* What a path names, its last part not followed. -1: nothing that counts. */
int
nc_look_at(int dirfd, const char *path, struct stat *st)
{
    int fd = nc_raw_open(dirfd, path, NC_OPEN_LOOK | O_NOFOLLOW, 0);
    if (fd >= 0 && !nc_stat(fd, st))
        return fd;
    if (fd >= 0)
        nc_raw_close(fd);
    return -1;
}

void
nc_let_go(int fd, int kept)
{
    if (fd >= 0)
        nc_raw_close(fd);
    errno = kept;
}

/* ---- renaming ------------------------------------------------------ */

/* An absolute path for a report, by the name of its folder. */
size_t
nc_full_path(int dirfd, const char *path, char *out)
{
    const char *name = strrchr(path, '/');
    char folder[NC_PATH_MAX];
    size_t size = name ? (size_t)(name - path) : 0;
    if (size >= sizeof folder)
        return 0;
    memcpy(folder, path, size);
    folder[size] = 0;
    if (name && !size) {
        folder[0] = '/';
        folder[1] = 0;
    }
    int fd = nc_raw_open(dirfd, name ? folder : ".", NC_OPEN_LOOK, 0);
    if (fd < 0)
        return 0;
    size = nc_path_of(fd, out, NC_PATH_MAX);
    nc_raw_close(fd);
    name = name ? name + 1 : path;
    size_t length = strlen(name);
    if (!size || size + length + 2 > NC_PATH_MAX)
        return 0;
    if (size > 1)
        out[size++] = '/';
    memcpy(out + size, name, length + 1);
    return size + length;
}

static int
ask_rename(enum nc_op op, int target, const struct stat *to, int source)
{
    char path[NC_PATH_MAX], other[NC_PATH_MAX];
    size_t size;
    if (nc_area_of_fd(target, path, &size) == NC_AREA_NONE)
        return 0;
    struct nc_version version;
    nc_version_from(&version, to);
    const struct nc_ask ask = {
        .op = op,
        .fd = target,
        .other = source,
        .end = version.size,
        .path = path,
        .path_size = size,
        .other_path = other,
        .other_size = nc_path_of(source, other, sizeof other),
        .version = &version,
    };
    return nc_ask(&ask);
}

struct moving {
    int from_dir;
    const char *from;
    int to_dir;
    const char *to;
    unsigned flags;
};

static int
ends_in_slash(const char *path)
{
    size_t size = strlen(path);
    return size && path[size - 1] == '/';
}

/* Would the kernel do it? Only then is there a question. */
static int
may_move(const struct moving *m, struct stat *moved)
{
    int kept = errno;
    struct stat to;
    moved->st_mode = 0;
    if (m->flags &
        ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
        return 0;
    int source = nc_look_at(m->from_dir, m->from, moved);
    if (source < 0) {
        errno = kept;
        return 0;
    }
    if (nc_unlikely(nc_refusals) && nc_was_refused(moved)) {
        nc_let_go(source, EPERM);
        return -1;
    }
    int target =
        m->flags & RENAME_NOREPLACE ? -1 : nc_look_at(m->to_dir, m->to, &to);
    int refused = 0;
    if (target >= 0 && moved->st_dev == to.st_dev &&
        moved->st_ino != to.st_ino && !ends_in_slash(m->to)) {
        int swaps = (m->flags & RENAME_EXCHANGE) != 0;
        if (S_ISREG(to.st_mode) && to.st_size &&
            (swaps || !S_ISDIR(moved->st_mode)))
            refused = ask_rename(swaps ? NC_OP_EXCHANGE : NC_OP_RENAME, target,
                                 &to, source);
        if (!refused && swaps && S_ISREG(moved->st_mode) && moved->st_size)
            refused = ask_rename(NC_OP_EXCHANGE, source, moved, target);
    }
    if (target >= 0)
        nc_raw_close(target);
    else if (S_ISREG(moved->st_mode))
        refused = nc_may_take_name(m->to_dir, m->to, source);
    nc_let_go(source, refused ? EPERM : kept);
    return refused;
}

static void
report_named(int flags, const struct stat *st, const char *from,
             size_t from_size, const char *to, size_t to_size)
{
    struct nc_named record = {
        .record = {.type = NC_NAMED, .flags = (uint16_t)flags},
        .from_size = (uint32_t)from_size,
        .to_size = (uint32_t)to_size,
    };
    nc_version_from(&record.version, st);
    nc_report(&record.record, sizeof record, from, from_size, to, to_size);
}

static void
note_named(int how, const struct moving *m, const struct stat *before)
{
    char from[NC_PATH_MAX], to[NC_PATH_MAX];
    struct stat st;
    int is_folder = S_ISDIR(before->st_mode);
    if (nc_is_guest() ||
        !(is_folder ? nc_tombs_any()
                    : S_ISREG(before->st_mode) && before->st_size))
        return;
    int kept = errno;
    int fd = nc_look_at(m->to_dir, m->to, &st);
    if (fd >= 0 && st.st_ino == before->st_ino) {
        size_t to_size = nc_path_of(fd, to, sizeof to);
        if (to_size && nc_area_of(to, to_size) == NC_AREA_ROOT) {
            size_t from_size = nc_full_path(m->from_dir, m->from, from);
            report_named(how, &st, from, from_size, to, to_size);
            nc_flush();
        }
    }
    nc_let_go(fd, kept);
}

#define MOVE(call, ...)                                                       \
    if (!nc_process.active)                                                   \
        return call;                                                          \
    const struct moving moving = {__VA_ARGS__};                               \
    struct stat moved;                                                        \
    if (!moving.from || !moving.to)                                           \
        return call;                                                          \
    if (NC_REFUSES(nc_may_move(moving.from_dir, moving.from, moving.to_dir,   \
                               moving.to, moving.flags)))                     \
        return -1;                                                            \
    if (may_move(&moving, &moved))                                            \
        return -1;                                                            \
    int result = call;                                                        \
    if (!result)                                                              \
        note_named(moving.flags &RENAME_EXCHANGE ? NC_EXCHANGED : NC_RENAMED, \
                   &moving, &moved);                                          \
    return result

NC_EXPORT int
rename(const char *from, const char *to)
{
    MOVE(REAL(rename)(from, to), AT_FDCWD, from, AT_FDCWD, to, 0);
}

NC_EXPORT int
renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    MOVE(REAL(renameat)(from_dir, from, to_dir, to), from_dir, from, to_dir, to,
         0);
}

NC_EXPORT int
renameat2(int from_dir, const char *from, int to_dir, const char *to,
          unsigned flags)
{
    MOVE(REAL(renameat2)(from_dir, from, to_dir, to, flags), from_dir, from,
         to_dir, to, flags);
}

/* ---- linking ------------------------------------------------------- */

static void
note_linked(int from_dir, const char *from, int to_dir, const char *to)
{
    const struct moving moving = {from_dir, from, to_dir, to, 0};
    struct stat st;
    int kept = errno;
    int fd = nc_look_at(to_dir, to, &st);
    nc_let_go(fd, kept);
    if (fd >= 0)
        note_named(NC_LINKED, &moving, &st);
}

/* 0: the name may be taken. */
static int
may_link(int from_dir, const char *from, int to_dir, const char *to)
{
    int kept = errno, refused = 0;
    struct stat st;
    if (!nc_process.active || !nc_tombs_any())
        return 0;
    int source = nc_look_at(from_dir, from, &st);
    if (source >= 0 && S_ISREG(st.st_mode))
        refused = nc_may_take_name(to_dir, to, source);
    nc_let_go(source, refused ? EPERM : kept);
    return refused;
}

NC_EXPORT int
link(const char *from, const char *to)
{
    if (NC_REFUSES(nc_may_join(AT_FDCWD, from, AT_FDCWD, to, 0)))
        return -1;
    if (may_link(AT_FDCWD, from, AT_FDCWD, to))
        return -1;
    int result = REAL(link)(from, to);
    if (!result && nc_process.active)
        note_linked(AT_FDCWD, from, AT_FDCWD, to);
    return result;
}

NC_EXPORT int
linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (NC_REFUSES(nc_may_join(from_dir, from, to_dir, to, flags)))
        return -1;
    if (may_link(from_dir, from, to_dir, to))
        return -1;
    int result = REAL(linkat)(from_dir, from, to_dir, to, flags);
    if (!result && nc_process.active)
        note_linked(from_dir, from, to_dir, to);
    return result;
}
