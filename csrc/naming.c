/* Renames, links and deletions. They are made here, by the folders that were
 * looked at, where the process has no other rights than we have; else the
 * kernel makes them once they are judged. */
#include "supervise.h"

#include <string.h>

#define KNOWN_FLAGS \
    ((unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))

struct naming {
    const struct nc_notice *notice;
    struct nc_image *image;
    struct nc_found from, to;
    char from_path[NC_PATH_MAX], to_path[NC_PATH_MAX];
    unsigned flags;
    bool agrees;
};

static bool
ends_in_slash(const char *path)
{
    size_t size = strlen(path);
    return size && path[size - 1] == '/';
}

static int
look(struct naming *n, int dirfd, uint64_t name, char *path,
     struct nc_found *out)
{
    out->fd = out->folder = -1;
    return nc_peek_path(n->notice->tid, name, path)
               ? EFAULT
               : nc_resolve(n->image, n->notice->tid, dirfd, path, false, out);
}

static bool
in_root(const struct nc_found *found)
{
    return found->size && found->area == NC_AREA_ROOT;
}

static void
report(struct naming *n, struct nc_record *record, size_t size,
       const struct nc_found *first, const struct nc_found *second)
{
    char out[256 + 2 * NC_PATH_MAX] = {0};
    size_t first_size = first ? first->size : 0;
    size_t second_size = second ? second->size : 0;
    size_t whole = (size + first_size + second_size + 7) & ~(size_t)7;
    record->size = (uint32_t)whole;
    record->version = NC_VERSION;
    memcpy(out, record, size);
    if (first)
        memcpy(out + size, first->path, first_size);
    if (second)
        memcpy(out + size + first_size, second->path, second_size);
    nc_image_send(n->image, out, whole, NULL, 0);
}

/* ---- deleting ------------------------------------------------------------- */

static int
may_delete(struct naming *n, struct nc_version *version)
{
    const struct nc_found *at = &n->from;
    if (at->fd < 0)
        return 0;
    if (nc_image_was_refused(n->image, &at->st))
        return EPERM;
    if (!S_ISREG(at->st.st_mode) || !at->st.st_size || !in_root(at))
        return 0;
    nc_version_from(version, &at->st);
    if (nc_is_made(version))
        return 0;
    const struct nc_ask ask = {
        .op = NC_OP_DELETE,
        .fd = at->fd,
        .other = -1,
        .end = version->size,
        .path = at->path,
        .path_size = at->size,
        .version = version,
    };
    return nc_judge(n->image, n->notice->tid, &ask);
}

static int delete (struct naming *n, bool is_folder)
{
    struct nc_gone gone = {.record = {.type = NC_GONE}};
    struct nc_found *at = &n->from;
    if (at->fd < 0 || ends_in_slash(n->from_path))
        return NC_GO_ON;
    int refused = is_folder ? 0 : may_delete(n, &gone.version);
    if (refused || !n->agrees || at->folder < 0 || !in_root(at) ||
        !nc_notice_stands(n->notice))
        return refused ? refused : NC_GO_ON;
    if (unlinkat(at->folder, at->name, is_folder ? AT_REMOVEDIR : 0))
        return errno;
    if (is_folder)
        gone.record.flags = NC_FOLDER_GONE;
    if (is_folder ? nc_tombs_any() : gone.version.size != 0) {
        gone.path_size = (uint32_t)at->size;
        report(n, &gone.record, sizeof gone, at, NULL);
    }
    if (at->st.st_nlink < 2 && !is_folder)
        nc_kept_drop_file(&at->st); /* its room is free again */
    nc_notice_return(n->notice, 0);
    return NC_SENT;
}

/* ---- a new name ------------------------------------------------------------- */

/* May a name that something was deleted from be taken? Where the answer is no,
 * a placeholder becomes the old file again. */
static int
may_take_name(struct naming *n)
{
    struct nc_found *to = &n->to;
    if (!in_root(to) || to->folder < 0 || !nc_tombs_any() ||
        !nc_tomb_may_stand(to->path, to->size))
        return 0;
    int fd = openat(to->folder, to->name,
                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0; /* taken, or impossible: the kernel says so itself */
    int refused = nc_judge_creation(n->image, n->notice->tid, fd, n->from.fd,
                                    to->path, to->size);
    nc_raw_close(fd);
    if (!refused)
        unlinkat(to->folder, to->name, 0);
    return refused;
}

static int
may_replace(struct naming *n, enum nc_op op, const struct nc_found *target,
            const struct nc_found *source)
{
    struct nc_version version;
    if (target->area == NC_AREA_NONE || !S_ISREG(target->st.st_mode) ||
        !target->st.st_size)
        return 0;
    nc_version_from(&version, &target->st);
    const struct nc_ask ask = {
        .op = op,
        .fd = target->fd,
        .other = source->fd,
        .end = version.size,
        .path = target->path,
        .path_size = target->size,
        .other_path = source->path,
        .other_size = source->size,
        .version = &version,
    };
    return nc_judge(n->image, n->notice->tid, &ask);
}

/* Would the kernel do it? Only then is there a question. */
static int
may_move(struct naming *n)
{
    const struct nc_found *from = &n->from, *to = &n->to;
    if (nc_image_was_refused(n->image, &from->st))
        return EPERM;
    if (to->fd < 0)
        return S_ISREG(from->st.st_mode) ? may_take_name(n) : 0;
    if (n->flags & RENAME_NOREPLACE || from->st.st_dev != to->st.st_dev ||
        from->st.st_ino == to->st.st_ino || ends_in_slash(n->to_path))
        return 0;
    bool swaps = n->flags & RENAME_EXCHANGE;
    enum nc_op op = swaps ? NC_OP_EXCHANGE : NC_OP_RENAME;
    int refused =
        swaps || !S_ISDIR(from->st.st_mode) ? may_replace(n, op, to, from) : 0;
    return !refused && swaps ? may_replace(n, op, from, to) : refused;
}

static void
report_named(struct naming *n, int how)
{
    struct stat st;
    struct nc_named named = {
        .record = {.type = NC_NAMED, .flags = (uint16_t)how},
        .from_size = (uint32_t)n->from.size,
        .to_size = (uint32_t)n->to.size,
    };
    bool counts = S_ISDIR(n->from.st.st_mode)
                      ? nc_tombs_any()
                      : S_ISREG(n->from.st.st_mode) && n->from.st.st_size;
    if (!counts || !in_root(&n->to) || nc_stat(n->from.fd, &st))
        return;
    nc_kept_tell(n->image); /* of what it wrote before it was called so */
    nc_version_from(&named.version, &st);
    report(n, &named.record, sizeof named, &n->from, &n->to);
}

static int
name_anew(struct naming *n, bool is_link)
{
    struct nc_found *from = &n->from, *to = &n->to;
    int refused = 0;
    if (from->fd < 0)
        return NC_GO_ON;
    nc_kept_tell(n->image); /* the version changes with the name */
    if (!is_link)
        refused = may_move(n);
    else if (to->fd < 0 && S_ISREG(from->st.st_mode))
        refused = may_take_name(n);
    if (refused || !n->agrees || from->folder < 0 || to->folder < 0 ||
        ends_in_slash(n->from_path) || ends_in_slash(n->to_path) ||
        !nc_notice_stands(n->notice))
        return refused ? refused : NC_GO_ON;
    if (is_link ? linkat(from->folder, from->name, to->folder, to->name, 0)
                : renameat2(from->folder, from->name, to->folder, to->name,
                            n->flags))
        return errno;
    report_named(n, is_link                      ? NC_LINKED
                    : n->flags & RENAME_EXCHANGE ? NC_EXCHANGED
                                                 : NC_RENAMED);
    nc_notice_return(n->notice, 0);
    return NC_SENT;
}

/* ---- which call ---------------------------------------------------------------- */

int
nc_call_name(const struct nc_notice *notice, struct nc_image *image)
{
    struct naming n = {.notice = notice, .image = image};
    const uint64_t *args = notice->args;
    bool is_folder = notice->kind == NC_CALL_RMDIR, deletes = false;
    bool is_link =
        notice->kind == NC_CALL_LINK || notice->kind == NC_CALL_LINKAT;
    int from_dir = AT_FDCWD, to_dir = AT_FDCWD;
    uint64_t from = args[0], to = args[1];
    switch (notice->kind) {
    case NC_CALL_RMDIR:
    case NC_CALL_UNLINK:
        deletes = true;
        break;
    case NC_CALL_UNLINKAT:
        if (args[2] & ~(uint64_t)AT_REMOVEDIR & UINT32_MAX)
            return NC_GO_ON; /* flags that are none */
        deletes = true;
        is_folder = args[2] & AT_REMOVEDIR;
        from_dir = (int)args[0];
        from = args[1];
        break;
    case NC_CALL_RENAME:
    case NC_CALL_LINK:
        break;
    default: /* two folders and two names */
        from_dir = (int)args[0];
        from = args[1];
        to_dir = (int)args[2];
        to = args[3];
        if (notice->kind != NC_CALL_RENAMEAT)
            n.flags = (unsigned)args[4];
        if (!is_link && n.flags & ~KNOWN_FLAGS)
            return NC_GO_ON;
    }
    mode_t mask;
    n.agrees = nc_image_agrees(image, notice->tid, &mask);
    if (is_link && n.flags)
        n.agrees = false; /* by an empty name, or through a link */
    int result = NC_GO_ON;
    n.to.fd = n.to.folder = -1;
    if (!look(&n, from_dir, from, n.from_path, &n.from)) {
        if (deletes)
            result = delete (&n, is_folder);
        else if (!look(&n, to_dir, to, n.to_path, &n.to))
            result = name_anew(&n, is_link);
    }
    nc_found_drop(&n.from);
    nc_found_drop(&n.to);
    return result;
}
