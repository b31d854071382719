/* Calls that throw a file's content away other than by opening. */
#include "supervise.h"

#include <dirent.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shrinking {
    enum nc_op op;
    bool by_path;
    uint64_t name; /* of a path in its memory */
    int fd;
    int mode;           /* of fallocate */
    int64_t start, end; /* `end` -1: the file's */
};

/* A 64-bit length in two halves, where a process has 32 bits: ARM wants an
 * even register for the first one. */
static int64_t
wide(const uint64_t *args, int at)
{
#ifdef __aarch64__
    at += at & 1;
#endif
    return (int64_t)(args[at] | args[at + 1] << 32);
}

static void
read_length(struct shrinking *s, const struct nc_notice *notice)
{
    const uint64_t *args = notice->args;
    s->op = NC_OP_SHRINK;
    s->by_path = notice->kind == NC_CALL_TRUNCATE ||
                 notice->kind == NC_CALL_TRUNCATE_WIDE;
    s->name = args[0];
    s->fd = (int)args[0];
    s->end = -1;
    if (notice->kind == NC_CALL_TRUNCATE_WIDE ||
        notice->kind == NC_CALL_FTRUNCATE_WIDE)
        s->start = wide(args, 1);
    else
        s->start = notice->is_narrow ? (int32_t)args[1] : (int64_t)args[1];
}

static void
read_hole(struct shrinking *s, const struct nc_notice *notice)
{
    const uint64_t *args = notice->args;
    int64_t size = notice->is_narrow ? wide(args, 4) : (int64_t)args[3];
    s->op = NC_OP_PUNCH;
    s->fd = (int)args[0];
    s->mode = (int)args[1];
    s->start = notice->is_narrow ? wide(args, 2) : (int64_t)args[2];
    if (s->start < 0 || size <= 0 ||
        __builtin_add_overflow(s->start, size, &s->end))
        s->end = s->start = INT64_MAX; /* nothing comes of it */
}

/* Is it more than an edit, and would the kernel do it? */
static bool
is_loss(struct shrinking *s, const struct nc_notice *notice,
        const struct stat *st)
{
    if (s->op == NC_OP_PUNCH &&
        !nc_can_lose(s->mode, s->start, s->end - s->start, st))
        return false;
    if (s->end < 0 || s->end > st->st_size)
        s->end = st->st_size;
    if (s->start < 0 || s->start >= s->end)
        return false;
    return notice->kind != NC_CALL_FALLOCATE ||
           (s->mode & FALLOC_FL_COLLAPSE_RANGE) ||
           (!s->start && s->end == st->st_size);
}

/* How the process has a descriptor open. */
static unsigned long
flags_of(pid_t tid, int fd, int64_t *offset)
{
    char name[32], text[512];
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    nc_read_of(tid, name, text, sizeof text);
    if (offset)
        *offset = strtoll(nc_field(text, "pos:"), NULL, 10);
    return strtoul(nc_field(text, "flags:"), NULL, 8);
}

/* May it be written through, and would a clone come of it? */
static bool
is_writable(const struct nc_notice *notice, struct nc_image *image,
            const struct shrinking *s, const struct nc_found *found)
{
    char link[64];
    if (s->by_path)
        return !access((nc_link_to(found->fd, link), link), W_OK);
    if ((flags_of(notice->tid, s->fd, NULL) & O_ACCMODE) == O_RDONLY)
        return false;
    if (notice->kind != NC_CALL_IOCTL)
        return true;
    int to = (int)syscall(SYS_pidfd_getfd, image->pidfd, s->fd, 0);
    int from =
        (int)syscall(SYS_pidfd_getfd, image->pidfd, (int)notice->args[2], 0);
    bool clones = to >= 0 && from >= 0 && nc_can_clone(to, from);
    if (to >= 0)
        nc_raw_close(to);
    if (from >= 0)
        nc_raw_close(from);
    return clones;
}

/* After a refusal nothing more may be written through that open file: a
 * program that takes no notice would write over the old bytes. */
static void
disarm(const struct nc_notice *notice, int fd, const struct nc_found *found)
{
    char path[64], link[64];
    nc_link_to(found->fd, link);
    pid_t pid = nc_process_of(notice->tid);
    int look = open(link, O_RDONLY | O_CLOEXEC);
    if (look < 0)
        look = open(link, O_PATH | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd", notice->tid);
    DIR *all = opendir(path);
    struct dirent *entry;
    bool closes = false;
    while (look >= 0 && all && (entry = readdir(all))) {
        int other = atoi(entry->d_name);
        if (*entry->d_name == '.' ||
            (other != fd && syscall(SYS_kcmp, pid, pid, KCMP_FILE,
                                    (unsigned long)fd, (unsigned long)other)))
            continue;
        int64_t offset;
        unsigned long flags = flags_of(notice->tid, other, &offset);
        if (other == fd) { /* itself last: the others are known by it */
            lseek(look, offset, SEEK_SET);
            closes = flags & O_CLOEXEC;
        } else {
            nc_notice_give(notice, look, other, flags & O_CLOEXEC);
        }
    }
    if (all)
        closedir(all);
    if (look >= 0) {
        nc_notice_give(notice, look, fd, closes);
        nc_raw_close(look);
    }
}

int
nc_call_shrink(const struct nc_notice *notice, struct nc_image *image)
{
    struct shrinking s = {0};
    char path[NC_PATH_MAX];
    struct nc_found found;
    if (notice->kind == NC_CALL_FALLOCATE)
        read_hole(&s, notice);
    else
        read_length(&s, notice);
    if (notice->kind == NC_CALL_IOCTL) { /* a clone of another file over it */
        s.op = NC_OP_TRUNCATE;
        s.start = 0;
    }
    if (s.by_path) {
        if (nc_peek_path(notice->tid, s.name, path) ||
            nc_resolve(image, notice->tid, AT_FDCWD, path, true, &found))
            return NC_GO_ON;
    } else if (nc_resolve_fd(notice->tid, s.fd, &found) < 0) {
        return NC_GO_ON;
    }
    int result = NC_GO_ON;
    if (found.fd >= 0 && S_ISREG(found.st.st_mode) &&
        found.area != NC_AREA_NONE && is_loss(&s, notice, &found.st) &&
        is_writable(notice, image, &s, &found)) {
        struct nc_version version;
        nc_version_from(&version, &found.st);
        const struct nc_ask ask = {
            .op = s.op,
            .fd = found.fd,
            .other = -1,
            .start = (uint64_t)s.start,
            .end = (uint64_t)s.end,
            .path = found.path,
            .path_size = found.size,
            .version = &version,
        };
        result = nc_judge(image, notice->tid, &ask);
        if (!result)
            result = NC_GO_ON;
        else if (!s.by_path)
            disarm(notice, s.fd, &found);
    }
    nc_found_drop(&found);
    return result;
}
