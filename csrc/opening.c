/* Openings. What may be lost by one is opened here and handed over, so that no
 * other thread can put something else in its place after the question. */
#include "supervise.h"

#include <linux/openat2.h>
#include <string.h>

#define O_KERNEL_LARGEFILE 0100000 /* where the C library says 0 */
#define TRIES 8                    /* while others make and delete the name */
#define TEXT_PROBE 8192 /* bytes: a NUL among them, and nobody was shown it */

struct opening {
    const struct nc_notice *notice;
    struct nc_image *image;
    int dirfd;
    char path[NC_PATH_MAX];
    int flags;
    mode_t mode;
    uint64_t resolve; /* of openat2 */
};

/* The kernel has an error of its own for such an openat2. */
static bool
is_wrong(const struct open_how *how, uint64_t size)
{
    uint64_t own = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC |
                   O_APPEND | O_NONBLOCK | O_DSYNC | O_SYNC | FASYNC |
                   O_DIRECT | O_LARGEFILE | O_KERNEL_LARGEFILE | O_DIRECTORY |
                   O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_PATH | O_TMPFILE;
    return size != sizeof *how || how->flags & ~own ||
           (how->mode && (!(how->flags & O_CREAT) || how->mode & ~07777ULL));
}

/* openat2 may be told to go no further than some links and mounts: does the
 * kernel get to something? */
static bool
gets_there(const struct opening *o)
{
    char base[64];
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | (unsigned)(o->flags & O_NOFOLLOW),
        .resolve = o->resolve,
    };
    if (o->dirfd == AT_FDCWD)
        snprintf(base, sizeof base, "/proc/%d/cwd", o->notice->tid);
    else
        snprintf(base, sizeof base, "/proc/%d/fd/%d", o->notice->tid, o->dirfd);
    int folder = nc_raw_open(AT_FDCWD, base, O_PATH | O_CLOEXEC, 0);
    int fd = (int)nc_raw(openat2, folder, o->path, &how, sizeof how);
    bool found = fd >= 0 || (errno == ENOENT && o->flags & O_CREAT);
    if (fd >= 0)
        nc_raw_close(fd);
    if (folder >= 0)
        nc_raw_close(folder);
    return found;
}

/* What the call asks for. False: it makes no sense, or nothing is at stake. */
static bool
read_call(struct opening *o)
{
    const uint64_t *args = o->notice->args;
    uint64_t name = args[1];
    struct open_how how = {0};
    o->dirfd = (int)args[0];
    switch (o->notice->kind) {
    case NC_CALL_OPEN:
        o->dirfd = AT_FDCWD;
        name = args[0];
        how.flags = (uint32_t)args[1];
        how.mode = args[2];
        break;
    case NC_CALL_CREAT:
        o->dirfd = AT_FDCWD;
        name = args[0];
        how.flags = O_CREAT | O_WRONLY | O_TRUNC;
        how.mode = args[1];
        break;
    case NC_CALL_OPENAT:
        how.flags = (uint32_t)args[2];
        how.mode = args[3];
        break;
    default:
        if (args[3] < sizeof how ||
            nc_peek(o->notice->tid, args[2], &how, sizeof how) < sizeof how)
            return false;
        if (is_wrong(&how, args[3]))
            return false;
    }
    o->flags = (int)how.flags;
    o->mode = (mode_t)how.mode & 07777;
    o->resolve = how.resolve;
    if (o->flags & (O_PATH | O_DIRECTORY)) /* and so O_TMPFILE */
        return false;
    if (nc_peek_path(o->notice->tid, name, o->path))
        return false;
    return !o->resolve || gets_there(o);
}

static int
hand_over(const struct opening *o, int fd, const struct nc_found *found,
          bool is_made, bool is_emptied)
{
    struct stat st;
    int number = nc_notice_give(o->notice, fd, -1, o->flags & O_CLOEXEC);
    if (number < 0)
        return -number;
    /* only now: with no number left for it nothing may be lost */
    char link[64];
    nc_link_to(fd, link);
    if (is_emptied && !nc_stat(fd, &st) && st.st_size)
        (void)!((o->flags & O_ACCMODE) == O_RDONLY ? truncate(link, 0)
                                                   : ftruncate(fd, 0));
    struct nc_keeping kept = {
        .image = o->image,
        .fd = (int)nc_raw(fcntl, fd, F_DUPFD_CLOEXEC, 0),
        .is_reader = (o->flags & O_ACCMODE) != O_WRONLY,
        .is_writer = (o->flags & O_ACCMODE) != O_RDONLY,
        .is_made = is_made && (o->flags & O_EXCL),
        .appends = o->flags & O_APPEND,
        .path = found->path,
        .path_size = found->size,
    };
    if (found->area == NC_AREA_ROOT && kept.fd >= 0)
        nc_keep_open(&kept);
    else if (kept.fd >= 0)
        nc_raw_close(kept.fd);
    nc_notice_return(o->notice, number);
    return NC_SENT;
}

/* ---- of what is there ---------------------------------------------------- */

static bool
looks_binary(int fd)
{
    char head[TEXT_PROBE];
    ssize_t got = pread(fd, head, sizeof head, 0);
    return got > 0 && memchr(head, 0, (size_t)got);
}

static int
judge(const struct opening *o, const struct nc_found *found, int fd)
{
    struct nc_version version;
    nc_version_from(&version, &found->st);
    struct nc_ask ask = {
        .op = NC_OP_TRUNCATE,
        .fd = fd,
        .other = -1,
        .end = version.size,
        .path = found->path,
        .path_size = found->size,
        .version = &version,
    };
    bool is_writer = (o->flags & O_ACCMODE) != O_RDONLY;
    if (!found->st.st_size)
        return o->flags & O_CREAT && is_writer
                   ? nc_judge_creation(o->image, o->notice->tid, fd, -1,
                                       found->path, found->size)
                   : 0;
    if (o->flags & O_TRUNC)
        return nc_judge(o->image, o->notice->tid, &ask);
    if (!is_writer || (o->flags & O_APPEND))
        return 0;
    if (nc_image_was_refused(o->image, &found->st))
        return EPERM;
    ask.op = NC_OP_UPDATE;
    if (found->st.st_size <= NC_UPDATE_MAX &&
        !((o->flags & O_ACCMODE) == O_RDWR && looks_binary(fd)))
        (void)nc_judge(o->image, o->notice->tid, &ask);
    return 0;
}

static int
open_present(const struct opening *o, const struct nc_found *found)
{
    mode_t mask;
    if (!S_ISREG(found->st.st_mode) || found->area == NC_AREA_NONE ||
        (o->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return NC_GO_ON;
    bool is_read = !(o->flags & (O_ACCMODE | O_TRUNC));
    if (is_read && found->area != NC_AREA_ROOT)
        return NC_GO_ON;
    bool agrees = !o->resolve &&
                  (is_read ? o->image->shares_root
                           : nc_image_agrees(o->image, o->notice->tid, &mask));
    if (!agrees) {
        int refused = is_read ? 0 : judge(o, found, found->fd);
        return refused ? refused : NC_GO_ON;
    }
    char link[64];
    nc_link_to(found->fd, link);
    int fd =
        open(link, (o->flags & ~(O_TRUNC | O_CREAT | O_EXCL | O_NOFOLLOW)) |
                       O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return NC_GO_ON; /* the kernel has the same answer */
    /* as for the kernel: no opening that cannot be written to empties */
    int refused = (o->flags & O_TRUNC) && access(link, W_OK)
                      ? NC_GO_ON
                      : judge(o, found, fd);
    int result = refused ? refused : NC_GO_ON;
    if (!refused && nc_notice_stands(o->notice))
        result = hand_over(o, fd, found, false, o->flags & O_TRUNC);
    nc_raw_close(fd);
    return result;
}

/* ---- of what is not -------------------------------------------------------- */

/* EEXIST: somebody was quicker. */
static int
open_new(const struct opening *o, struct nc_found *found)
{
    mode_t mask;
    if (found->folder < 0 || found->area != NC_AREA_ROOT || o->resolve ||
        !nc_image_agrees(o->image, o->notice->tid, &mask))
        return NC_GO_ON;
    if (!nc_notice_stands(o->notice))
        return NC_GO_ON;
    umask(mask);
    int fd =
        openat(found->folder, found->name,
               (o->flags & ~O_TRUNC) | O_EXCL | O_CLOEXEC | O_NOCTTY, o->mode);
    if (fd < 0)
        return errno == EEXIST && !(o->flags & O_EXCL) ? EEXIST : NC_GO_ON;
    int refused = (o->flags & O_ACCMODE) == O_RDONLY
                      ? 0
                      : nc_judge_creation(o->image, o->notice->tid, fd, -1,
                                          found->path, found->size);
    int result = refused ? refused : hand_over(o, fd, found, true, false);
    nc_raw_close(fd);
    return result;
}

int
nc_call_open(const struct nc_notice *notice, struct nc_image *image)
{
    struct opening o = {.notice = notice, .image = image};
    if (!read_call(&o))
        return NC_GO_ON;
    bool excludes = (o.flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    bool follows = !(o.flags & O_NOFOLLOW) && !excludes;
    int result = EEXIST;
    for (int tries = 0; tries < TRIES && result == EEXIST; tries++) {
        struct nc_found found;
        if (nc_resolve(image, notice->tid, o.dirfd, o.path, follows, &found))
            return NC_GO_ON;
        if (found.fd >= 0)
            result = open_present(&o, &found);
        else
            result = o.flags & O_CREAT ? open_new(&o, &found) : NC_GO_ON;
        nc_found_drop(&found);
    }
    return result == EEXIST ? NC_GO_ON : result;
}
