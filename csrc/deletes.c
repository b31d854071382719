/* Names deleted: told before it is too late to keep the content. */
#include <string.h>

#include "shim.h"

#define INCOMING "incoming" /* beside the socket: a folder of the store */
#define ASK_FROM 16         /* deletions */
#define KEPT_NAME 40        /* bytes of a name in the store, at most */

struct deleting {
    struct nc_version version;
    size_t path_size;
    int is_told; /* reported before it was deleted */
    char path[NC_PATH_MAX];
    char link[NC_PATH_MAX]; /* the name in the store, empty: none */
};

/* ---- what this process keeps itself -------------------------------- */

static size_t
put_hex(char *out, uint64_t value)
{
    size_t size = 0;
    for (int shift = 60; shift >= 0; shift -= 4)
        if (size || value >> shift || !shift)
            out[size++] = "0123456789abcdef"[value >> shift & 15];
    return size;
}

/* `incoming/TOKEN-NUMBER` beside the socket. The size of its last part. */
static size_t
name_in_store(char *out, size_t room)
{
    static unsigned number;
    const char *socket = nc_environment_get("NOCLOBBER_SOCKET");
    const char *slash = socket ? strrchr(socket, '/') : NULL;
    size_t at = slash ? (size_t)(slash - socket) + 1 : 0;
    if (!at || at + sizeof INCOMING + KEPT_NAME >= room)
        return 0;
    memcpy(out, socket, at);
    memcpy(out + at, INCOMING "/", sizeof INCOMING);
    at += sizeof INCOMING;
    size_t size = put_hex(out + at, nc_token());
    out[at + size++] = '-';
    size += put_hex(out + at + size,
                    __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED));
    out[at + size] = 0;
    return size;
}

static void
tell_gone(const struct deleting *gone, const char *kept_as, size_t kept_size)
{
    struct nc_gone record = {
        .record = {.type = NC_GONE, .flags = kept_size ? NC_KEPT : 0},
        .version = gone->version,
        .path_size = (uint32_t)gone->path_size,
        .kept_size = (uint32_t)kept_size,
    };
    nc_report(&record.record, sizeof record, gone->path, gone->path_size,
              kept_as, kept_size);
}

/* A second name keeps the content, and the daemon is told before the first one
 * goes: a question for each of thousands of files would take longer than all
 * the rest. 0: it has to be asked. */
static int
keep(int dirfd, const char *path, struct deleting *gone, nlink_t names)
{
    static unsigned tries;
    if (!nc_keeps || names != 1)
        return 0;
    /* now and then it is asked: it may be where nothing is protected */
    unsigned number = __atomic_add_fetch(&tries, 1, __ATOMIC_RELAXED);
    if (number >= ASK_FROM && !(number & (number - 1)))
        return 0;
    size_t size = name_in_store(gone->link, sizeof gone->link);
    if (!size || nc_raw(linkat, dirfd, path, AT_FDCWD, gone->link, 0)) {
        gone->link[0] = 0;
        return 0;
    }
    if (!nc_tomb_mark(gone->path, gone->path_size)) {
        nc_raw(unlinkat, AT_FDCWD, gone->link, 0);
        gone->link[0] = 0;
        return 0;
    }
    tell_gone(gone, gone->link + strlen(gone->link) - size, size);
    nc_flush();
    gone->is_told = 1;
    return 1;
}

/* ---- asking -------------------------------------------------------- */

static int
ask(struct deleting *gone, int fd)
{
    const struct nc_ask question = {
        .op = NC_OP_DELETE,
        .fd = fd,
        .other = -1,
        .end = gone->version.size,
        .path = gone->path,
        .path_size = gone->path_size,
        .version = &gone->version,
    };
    return nc_ask(&question);
}

/* By the name alone: 1: it may go, 0: it has to be looked at. */
static int
may_go(int dirfd, const char *path, struct deleting *gone)
{
    struct stat st;
    if (nc_is_guest() || nc_process.read_only || nc_refusals ||
        !nc_readable(path))
        return 0;
    size_t size = nc_path_in(dirfd, path, gone->path);
    if (!size || nc_area_of(gone->path, size) != NC_AREA_ROOT)
        return 0;
    if (nc_in_known_scope(gone->path, size))
        return 1;
    if (nc_raw(newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(st.st_mode) || !st.st_size)
        return 0;
    nc_version_from(&gone->version, &st);
    gone->path_size = size;
    int is_made = nc_is_made(&gone->version);
    if (!is_made && keep(dirfd, path, gone, st.st_nlink))
        return 1;
    gone->path_size = 0; /* of what it made itself nobody need be told */
    return is_made;
}

/* Refused only to a process that was refused this file, or where what is about
 * to go cannot be kept. */
static int
may_delete(int dirfd, const char *path, struct deleting *gone)
{
    int kept = errno;
    struct stat st;
    gone->path_size = 0;
    gone->is_told = 0;
    gone->link[0] = 0;
    if (may_go(dirfd, path, gone)) {
        errno = kept;
        return 0;
    }
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
        nc_version_from(&gone->version, &st);
        int is_settled = !nc_is_guest() && !nc_process.read_only &&
                         (nc_is_made(&gone->version) ||
                          keep(dirfd, path, gone, st.st_nlink));
        if (!is_settled && ask(gone, fd)) {
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
    if (!gone->path_size || gone->is_told || nc_is_guest())
        return;
    int kept = errno;
    tell_gone(gone, NULL, 0);
    nc_flush();
    errno = kept;
}

/* The name stands: what was kept of it is not wanted. */
static void
note_failed(const struct deleting *gone)
{
    int kept = errno;
    if (gone->link[0])
        nc_raw(unlinkat, AT_FDCWD, gone->link, 0);
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
    if (result)                                     \
        note_failed(&gone);                         \
    else                                            \
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
