/* The read-only tier: may this call change something under a root? Only a call
 * that would have succeeded is asked about; what fails anyway goes on and has
 * the kernel's own error. Nothing here runs in the default tier. */
#include <string.h>
#include <sys/un.h>

#include "shim.h"

#define MOST_LINKS 40 /* of symbolic links that lead to each other */

/* ---- the question -------------------------------------------------- */

static int
ask(int fd, const char *path, size_t size)
{
    const struct nc_ask question = {
        .op = NC_OP_CHANGE,
        .fd = fd,
        .other = -1,
        .path = path,
        .path_size = size,
    };
    return nc_ask(&question);
}

/* About what a descriptor is open on; a file without a name is nobody's. */
static int
ask_of(int fd, const struct stat *st)
{
    char path[NC_PATH_MAX];
    size_t size = nc_path_of(fd, path, sizeof path);
    if (!st->st_nlink || (!size && !S_ISREG(st->st_mode) &&
                          !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode)))
        return 0;
    enum nc_area area =
        size ? nc_area_of(path, size) : nc_area_of_fd(fd, path, &size);
    return area == NC_AREA_ROOT ? ask(fd, path, size) : 0;
}

/* Closes both; the call's errno stays where it is not refused. */
static int
done(int fd, int other, int refused, int kept)
{
    if (fd >= 0)
        nc_raw_close(fd);
    if (other >= 0)
        nc_raw_close(other);
    errno = refused ? EPERM : kept;
    return refused ? -1 : 0;
}

/* ---- rights -------------------------------------------------------- */

static int
may_access(int fd, int mode)
{
    char link[64];
    nc_link_to(fd, link);
    return !nc_raw(faccessat, AT_FDCWD, link, mode);
}

static int
owns(const struct stat *st)
{
    uid_t self = (uid_t)nc_raw(geteuid);
    return !self || self == st->st_uid;
}

/* Would the kernel let this process do it? */
static int
has_right(int fd, const struct stat *st, enum nc_right right)
{
    int writes = may_access(fd, W_OK);
    if (!writes && errno == EROFS)
        return 0;
    switch (right) {
    case NC_RIGHT_OWN:
        return owns(st);
    case NC_RIGHT_WRITE:
        return writes;
    default:
        return writes || owns(st);
    }
}

/* ---- what is there ------------------------------------------------- */

int
nc_may_change_fd(int fd, enum nc_right right)
{
    struct stat st;
    int kept = errno;
    long flags = nc_raw(fcntl, fd, F_GETFL);
    int refused = flags >= 0 && !(flags & O_PATH) && !nc_stat(fd, &st) &&
                  has_right(fd, &st, right) && ask_of(fd, &st);
    return done(-1, -1, refused, kept);
}

int
nc_may_change(int dirfd, const char *path, int flags, enum nc_right right)
{
    struct stat st;
    int kept = errno;
    int look = NC_OPEN_LOOK | (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
    int fd = !path || ((flags & AT_EMPTY_PATH) && nc_readable(path) && !*path)
                 ? (int)nc_raw(fcntl, dirfd, F_DUPFD_CLOEXEC, 0)
                 : nc_raw_open(dirfd, path, look, 0);
    int refused = fd >= 0 && !nc_stat(fd, &st) && has_right(fd, &st, right) &&
                  ask_of(fd, &st);
    return done(fd, -1, refused, kept);
}

/* ---- names --------------------------------------------------------- */

/* A name that is to be made, changed or taken away, and its folder. */
struct name {
    int folder; /* descriptor, or -1: the kernel will say why */
    size_t size;
    struct stat st;         /* of the folder */
    int slash;              /* something that is no folder cannot have it */
    char path[NC_PATH_MAX]; /* absolute where `size` is not 0 */
};

static void
find_name(int dirfd, const char *path, struct name *name)
{
    char folder[NC_PATH_MAX];
    name->folder = -1;
    name->size = 0;
    size_t end = strlen(path);
    name->slash = end && path[end - 1] == '/';
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start && path[start - 1] != '/')
        start--;
    if (!end || start >= sizeof folder || end - start > 255)
        return;
    memcpy(folder, start ? path : ".", start ? start : 1);
    folder[start ? start : 1] = 0;
    int fd = nc_raw_open(dirfd, folder, NC_OPEN_LOOK | O_DIRECTORY, 0);
    if (fd < 0)
        return;
    if (nc_stat(fd, &name->st) || !name->st.st_nlink ||
        !may_access(fd, W_OK | X_OK)) {
        nc_raw_close(fd);
        return;
    }
    name->folder = fd;
    size_t size = nc_path_of(fd, name->path, sizeof name->path);
    if (size && size + (end - start) + 2 <= sizeof name->path) {
        if (size > 1)
            name->path[size++] = '/';
        memcpy(name->path + size, path + start, end - start);
        name->size = size + end - start;
        name->path[name->size] = 0;
    }
}

static int
ask_name(struct name *name)
{
    enum nc_area area =
        name->size ? nc_area_of(name->path, name->size)
                   : nc_area_of_fd(name->folder, name->path, &name->size);
    return area == NC_AREA_ROOT ? ask(name->folder, name->path, name->size) : 0;
}

/* Is there something of that name, itself? */
static int
look(int dirfd, const char *path, struct stat *st)
{
    int fd = nc_look_at(dirfd, path, st);
    if (fd >= 0)
        nc_raw_close(fd);
    return fd >= 0;
}

int
nc_may_make(int dirfd, const char *path, int is_folder)
{
    struct stat st;
    struct name name;
    int kept = errno;
    if (!nc_readable(path) || look(dirfd, path, &st) || errno != ENOENT)
        return done(-1, -1, 0, kept);
    find_name(dirfd, path, &name);
    int refused =
        name.folder >= 0 && (is_folder || !name.slash) && ask_name(&name);
    return done(name.folder, -1, refused, kept);
}

static int
is_dots(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    return end && path[end - 1] == '.' &&
           (end == 1 || path[end - 2] == '/' ||
            (path[end - 2] == '.' && (end == 2 || path[end - 3] == '/')));
}

static int
is_empty_folder(int dirfd, const char *path)
{
    char room[2048];
    int fd = nc_raw_open(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return 1; /* unreadable: its owner may still remove it */
    long got;
    int names = 0;
    while (names <= 2 && (got = nc_raw(getdents64, fd, room, sizeof room)) > 0)
        for (long at = 0; at < got; names++)
            at += ((struct dirent64 *)(void *)(room + at))->d_reclen;
    nc_raw_close(fd);
    return names <= 2;
}

/* A sticky folder gives up what is one's own alone. */
static int
gives_up(const struct name *name, const struct stat *st)
{
    return !(name->st.st_mode & S_ISVTX) || owns(&name->st) || owns(st);
}

int
nc_may_unname(int dirfd, const char *path, int is_folder)
{
    struct stat st;
    struct name name;
    int kept = errno;
    if (!nc_readable(path) || !look(dirfd, path, &st))
        return done(-1, -1, 0, kept);
    if (!S_ISDIR(st.st_mode) != !is_folder || is_dots(path) ||
        (is_folder && !is_empty_folder(dirfd, path)))
        return done(-1, -1, 0, kept);
    find_name(dirfd, path, &name);
    int refused = name.folder >= 0 && gives_up(&name, &st) &&
                  (!is_folder || st.st_dev == name.st.st_dev) &&
                  ask_name(&name);
    return done(name.folder, -1, refused, kept);
}

/* Would the kernel put one name in the place of the other? */
static int
can_move(int to_dir, const char *to, const struct stat *from,
         const struct name *source, const struct name *target, unsigned flags)
{
    struct stat st;
    int exists = look(to_dir, to, &st);
    int is_folder = S_ISDIR(from->st_mode);
    if (from->st_dev != target->st.st_dev || !gives_up(source, from))
        return 0;
    if (is_folder && source->size && target->size > source->size &&
        target->path[source->size] == '/' &&
        !memcmp(source->path, target->path, source->size))
        return 0; /* into itself */
    if (!exists)
        return !(flags & RENAME_EXCHANGE) && (is_folder || !target->slash);
    if ((flags & RENAME_NOREPLACE) || !gives_up(target, &st) ||
        (st.st_dev == from->st_dev && st.st_ino == from->st_ino))
        return 0;
    return (flags & RENAME_EXCHANGE) ||
           (S_ISDIR(st.st_mode) == is_folder &&
            (!is_folder || is_empty_folder(to_dir, to)));
}

int
nc_may_move(int from_dir, const char *from, int to_dir, const char *to,
            unsigned flags)
{
    struct stat st;
    struct name source, target;
    int kept = errno;
    if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) ||
        !nc_readable(from) || !nc_readable(to) || is_dots(from) ||
        is_dots(to) || !look(from_dir, from, &st))
        return done(-1, -1, 0, kept);
    find_name(from_dir, from, &source);
    find_name(to_dir, to, &target);
    int refused = source.folder >= 0 && target.folder >= 0 &&
                  can_move(to_dir, to, &st, &source, &target, flags) &&
                  (ask_name(&source) || ask_name(&target));
    return done(source.folder, target.folder, refused, kept);
}

int
nc_may_join(int from_dir, const char *from, int to_dir, const char *to,
            int flags)
{
    struct stat st, taken;
    struct name name;
    int kept = errno;
    if (!nc_readable(from) || !nc_readable(to))
        return 0;
    int look_flags =
        NC_OPEN_LOOK | (flags & AT_SYMLINK_FOLLOW ? 0 : O_NOFOLLOW);
    int fd = (flags & AT_EMPTY_PATH) && !*from
                 ? (int)nc_raw(fcntl, from_dir, F_DUPFD_CLOEXEC, 0)
                 : nc_raw_open(from_dir, from, look_flags, 0);
    if (fd < 0 || nc_stat(fd, &st) || S_ISDIR(st.st_mode) ||
        look(to_dir, to, &taken) || errno != ENOENT)
        return done(fd, -1, 0, kept);
    find_name(to_dir, to, &name);
    /* a second name outside of the root would be a way in */
    int refused = name.folder >= 0 && !name.slash &&
                  st.st_dev == name.st.st_dev &&
                  (ask_name(&name) || ask_of(fd, &st));
    return done(fd, name.folder, refused, kept);
}

/* ---- opening ------------------------------------------------------- */

/* O_CREAT goes where a symbolic link leads that leads to nothing. */
static int
may_create(int dirfd, const char *path)
{
    char room[2][NC_PATH_MAX];
    struct name name = {.folder = -1};
    struct stat st;
    int folder = -1, refused = 0;
    for (int depth = 0; depth < MOST_LINKS; depth++) {
        int at = folder >= 0 ? folder : dirfd;
        if (!look(at, path, &st)) {
            find_name(at, path, &name);
            refused = errno == ENOENT && name.folder >= 0 && !name.slash &&
                      ask_name(&name);
            break;
        }
        char *to = room[depth % 2];
        long got = S_ISLNK(st.st_mode)
                       ? nc_raw(readlinkat, at, path, to, sizeof room[0] - 1)
                       : -1;
        find_name(at, path, &name);
        if (got <= 0 || name.folder < 0)
            break;
        to[got] = 0;
        path = to;
        if (folder >= 0)
            nc_raw_close(folder);
        folder = name.folder;
        name.folder = -1;
    }
    return done(folder, name.folder, refused, errno);
}

int
nc_may_open(int dirfd, const char *path, int flags)
{
    struct stat st;
    int kept = errno;
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
    if ((flags & O_PATH) || (flags & O_TMPFILE) == O_TMPFILE ||
        !(writes || (flags & O_CREAT)) || !nc_readable(path))
        return 0;
    int is_new = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    int fd = nc_raw_open(
        dirfd, path,
        NC_OPEN_LOOK | (is_new || (flags & O_NOFOLLOW) ? O_NOFOLLOW : 0), 0);
    int refused = 0;
    if (fd >= 0)
        refused = !is_new && writes && !nc_stat(fd, &st) &&
                  S_ISREG(st.st_mode) && has_right(fd, &st, NC_RIGHT_WRITE) &&
                  ask_of(fd, &st);
    else if (errno == ENOENT && (flags & O_CREAT))
        refused = may_create(dirfd, path);
    return done(fd, -1, refused, kept);
}
