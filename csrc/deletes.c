/* Names deleted: told before it is too late to keep the content. */
#include <string.h>

#include "client.h"

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

static struct nc_gone
gone_record(const struct deleting *gone, size_t kept_size)
{
    return (struct nc_gone){
        .record = {.type = NC_GONE, .flags = kept_size ? NC_KEPT : 0},
        .version = gone->version,
        .path_size = (uint32_t)gone->path_size,
        .kept_size = (uint32_t)kept_size,
    };
}

static void
tell_gone(const struct deleting *gone, const char *kept_as, size_t kept_size)
{
    struct nc_gone record = gone_record(gone, kept_size);
    nc_report(&record.record, sizeof record, gone->path, gone->path_size,
              kept_as, kept_size);
}

/* Where no daemon hears of it the next one has to read it: in a file of this
 * process's own, beside what it kept. */
static int
write_down(const struct deleting *gone, size_t name_size)
{
    char path[NC_PATH_MAX];
    char out[NC_HELLO_ROOM + sizeof(struct nc_gone) + NC_PATH_MAX + KEPT_NAME];
    size_t at = strlen(gone->link), size = 0;
    const char *name = gone->link + at - name_size;
    at = (size_t)(strchr(name, '-') - gone->link);
    memcpy(path, gone->link, at);
    path[at] = 0;
    int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    int fd = nc_raw_open(AT_FDCWD, path, flags | O_CREAT | O_EXCL, 0600);
    if (fd >= 0)
        size = nc_hello(out, NC_HELLO_ROOM);
    else
        fd = nc_raw_open(AT_FDCWD, path, flags, 0);
    struct nc_gone record = gone_record(gone, name_size);
    size += nc_record_put(out + size, &record.record, sizeof record, gone->path,
                          gone->path_size, name, name_size);
    int is_written = fd >= 0 && nc_raw(write, fd, out, size) == (long)size;
    if (fd >= 0)
        nc_raw_close(fd);
    return is_written;
}

/* A second name keeps the content. The size of its last part, 0: there can be
 * none. */
static size_t
name_again(int dirfd, const char *path, struct deleting *gone)
{
    size_t size = name_in_store(gone->link, sizeof gone->link);
    if (!size || nc_raw(linkat, dirfd, path, AT_FDCWD, gone->link, 0)) {
        gone->link[0] = 0;
        return 0;
    }
    return size;
}

static int
give_up(struct deleting *gone)
{
    nc_raw(unlinkat, AT_FDCWD, gone->link, 0);
    gone->link[0] = 0;
    return 0;
}

/* It is kept, and the daemon told before the first name goes: a question for
 * each of thousands of files would take longer than all the rest. 0: it has to
 * be asked. */
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
    size_t size = name_again(dirfd, path, gone);
    if (!size)
        return 0;
    if (!nc_tomb_mark(gone->path, gone->path_size))
        return give_up(gone);
    tell_gone(gone, gone->link + strlen(gone->link) - size, size);
    nc_flush();
    gone->is_told = 1;
    return !nc_is_unsent() || write_down(gone, size) || give_up(gone);
}

/* Nobody answers: it is kept, and the daemon hears of it when there is one. */
static int
keep_unasked(int dirfd, const char *path, struct deleting *gone, nlink_t names)
{
    if (names != 1)
        return 1; /* its other names keep it */
    size_t size = name_again(dirfd, path, gone);
    if (!size)
        return 0;
    (void)nc_tomb_mark(gone->path, gone->path_size);
    if (!write_down(gone, size))
        return give_up(gone);
    if (!nc_is_guest())
        tell_gone(gone, gone->link + strlen(gone->link) - size, size);
    nc_keeps = gone->is_told = 1; /* each question would wait as long */
    return 1;
}

/* ---- asking -------------------------------------------------------- */

static int
ask(int dirfd, const char *path, struct deleting *gone, int fd, nlink_t names)
{
    int unanswered = 0;
    const struct nc_ask question = {
        .op = NC_OP_DELETE,
        .fd = fd,
        .other = -1,
        .end = gone->version.size,
        .path = gone->path,
        .path_size = gone->path_size,
        .version = &gone->version,
        .unanswered = &unanswered,
    };
    int refused = nc_ask(&question);
    if (!unanswered || keep_unasked(dirfd, path, gone, names) ||
        nc_process.fail_open)
        return refused;
    return nc_refuse_unanswered(&question);
}

/* By the name alone: 1: it may go, 0: it has to be looked at. */
static int
may_go(int dirfd, const char *path, struct deleting *gone)
{
    struct stat st;
    size_t size = 0;
    if (nc_is_guest() || nc_process.read_only || nc_refusals)
        return 0;
    int has_scopes = nc_knows_scopes();
    if (has_scopes) {
        if (!nc_readable(path))
            return 0;
        size = nc_path_in(dirfd, path, gone->path);
        if (size && nc_area_of(gone->path, size) == NC_AREA_ROOT &&
            nc_in_known_scope(gone->path, size))
            return 1;
    }
    /* what is not there the kernel says, and whether the name is readable */
    if (nc_raw(newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(st.st_mode) || !st.st_size)
        return 1;
    nc_version_from(&gone->version, &st);
    if (nc_is_made(&gone->version))
        return 1; /* of what it made itself nobody need be told */
    if (!has_scopes)
        size = nc_path_in(dirfd, path, gone->path);
    if (!size || nc_area_of(gone->path, size) != NC_AREA_ROOT)
        return 0;
    gone->path_size = size;
    int is_kept = keep(dirfd, path, gone, st.st_nlink);
    if (!is_kept)
        gone->path_size = 0;
    return is_kept;
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
        if (!is_settled && ask(dirfd, path, gone, fd, st.st_nlink)) {
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
