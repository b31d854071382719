/* What the program got from the kernel: counted by what was returned, never by
 * what was asked for, and by range. */
#include "shim.h"

/* ---- credit -------------------------------------------------------- */

static void
credit(struct nc_description *to, uint64_t start, uint64_t end)
{
    if (nc_unlikely(!nc_description_try(to)))
        return;
    if (!nc_coverage_extend(&to->coverage, start, end))
        nc_coverage_add(&to->coverage, start, end);
    if (nc_unlikely((to->flags & (NC_NEWS | NC_BORROWED)) != NC_NEWS))
        to->flags = (to->flags | NC_NEWS) & ~(uint32_t)NC_BORROWED;
    __atomic_store_n(&to->busy, 0, __ATOMIC_RELEASE);
}

void
nc_credit(int fd, struct nc_description *to, uint64_t start, uint64_t end)
{
    (void)fd;
    if (start < end)
        credit(to, start, end);
}

void
nc_sample(int fd, struct nc_description *of)
{
    if (!(of->flags & NC_READER) || (of->flags & NC_APPENDER))
        return; /* appending moves the offset to the end unread */
    off_t at = nc_raw_lseek(fd, 0, SEEK_CUR);
    if (at < 0)
        return;
    if ((uint64_t)at > of->position) {
        if (fd == 0 && nc_process.stdin_is_script)
            of->flags |= NC_SOURCED;
        nc_credit(fd, of, of->position, (uint64_t)at);
    }
    of->position = (uint64_t)at;
}

/* The version must be known before the bytes are. */
static void
before_reading(int fd, struct nc_description *of)
{
    struct stat st;
    int kept = errno;
    if (!nc_stat(fd, &st) && S_ISREG(st.st_mode)) {
        nc_version_from(&of->version, &st);
        of->flags |= NC_VERSIONED;
    } else {
        struct nc_description *gone = nc_fd_set(fd, NC_NOTHING);
        if (gone)
            nc_description_free(gone);
    }
    errno = kept;
}

/* What is to be counted of a descriptor, or NULL. */
static inline struct nc_description *
watch(int fd)
{
    if (nc_unlikely(!nc_process.active))
        return NULL;
    struct nc_description *of = nc_fd_get(fd);
    if (nc_likely(of == NC_NOTHING) || nc_is_guest())
        return NULL;
    if (of == NC_UNKNOWN) {
        of = nc_look(fd);
        if (of == NC_NOTHING)
            return NULL;
    }
    if (of->kind == NC_FILE && !(of->flags & NC_VERSIONED)) {
        before_reading(fd, of);
        of = nc_fd_get(fd);
        if (of == NC_NOTHING || of == NC_UNKNOWN)
            return NULL;
    }
    return of->kind == NC_FOLDER ? NULL : of;
}

/* A shell obeys the files that it reads, but for what is its input. */
static void
mark_script(int fd, struct nc_description *of)
{
    if (fd != 0 || nc_process.stdin_is_script)
        of->flags |= NC_SOURCED;
}

static void
read_on(int fd, struct nc_description *of, uint64_t got)
{
    if (of->kind == NC_CHANNEL) {
        __atomic_add_fetch(&of->bytes, got, __ATOMIC_RELAXED);
        of->flags |= NC_NEWS;
        return;
    }
    uint64_t start = of->position;
    if (nc_unlikely((of->flags & NC_SHARED) || of->epoch != nc_process.epoch)) {
        int kept = errno;
        off_t at = nc_raw_lseek(fd, 0, SEEK_CUR);
        errno = kept;
        of->flags |= NC_SHARED;
        if (at < (off_t)got)
            return;
        start = (uint64_t)at - got;
    }
    of->block = start;
    of->position = start + got;
    if (nc_unlikely(nc_process.is_shell))
        mark_script(fd, of);
    credit(of, start, start + got);
}

static void
read_at(int fd, struct nc_description *of, uint64_t start, uint64_t got)
{
    if (of->kind == NC_CHANNEL)
        return;
    if (nc_unlikely(nc_process.is_shell))
        mark_script(fd, of);
    nc_credit(fd, of, start, start + got);
}

/* Whether a read goes on from where this process left off: then its place is
 * known, and nothing else is to be told of it. */
static inline int
goes_on(const struct nc_description *of)
{
    return of->kind == NC_FILE && !(of->flags & NC_SHARED) &&
           of->epoch == nc_process.epoch && !nc_process.is_shell;
}

/* At the end of the file nothing was read ahead: nothing can be given back. */
static inline void
count(int fd, struct nc_description *of, ssize_t got)
{
    if (nc_likely(got > 0 && goes_on(of))) {
        of->block = of->position;
        of->position += (uint64_t)got;
        credit(of, of->block, of->position);
    } else if (got > 0) {
        read_on(fd, of, (uint64_t)got);
    }
    if (got == 0)
        of->block = of->position;
}

#define COUNTED(call)                      \
    struct nc_description *of = watch(fd); \
    ssize_t got = call;                    \
    if (of)                                \
        count(fd, of, got);                \
    return got

/* The same where `bytes` may have come from the agent's child. */
#define TAKEN_IN(call, take)                      \
    struct nc_description *of = watch(fd);        \
    ssize_t got = call;                           \
    if (of) {                                     \
        count(fd, of, got);                       \
        if (of->kind == NC_CHANNEL && of->intake) \
            take;                                 \
    }                                             \
    return got

#define COUNTED_AT(call)                                  \
    struct nc_description *of = watch(fd);                \
    ssize_t got = call;                                   \
    if (of && got > 0)                                    \
        read_at(fd, of, (uint64_t)offset, (uint64_t)got); \
    return got

NC_EXPORT ssize_t
read(int fd, void *out, size_t size)
{
    TAKEN_IN(REAL(read)(fd, out, size), nc_intake(of, out, got));
}

NC_ALSO(ssize_t, __read, (int, void *, size_t), read);

NC_EXPORT ssize_t
__read_chk(int fd, void *out, size_t size, size_t room)
{
    TAKEN_IN(REAL(__read_chk)(fd, out, size, room), nc_intake(of, out, got));
}

NC_EXPORT ssize_t
readv(int fd, const struct iovec *parts, int many)
{
    TAKEN_IN(REAL(readv)(fd, parts, many),
             nc_intake_parts(of, parts, many, got));
}

NC_EXPORT ssize_t
pread(int fd, void *out, size_t size, off_t offset)
{
    COUNTED_AT(REAL(pread)(fd, out, size, offset));
}

NC_EXPORT ssize_t
pread64(int fd, void *out, size_t size, off_t offset)
{
    COUNTED_AT(REAL(pread64)(fd, out, size, offset));
}

NC_ALSO(ssize_t, __pread64, (int, void *, size_t, off_t), pread64);

NC_EXPORT ssize_t
__pread_chk(int fd, void *out, size_t size, off_t offset, size_t room)
{
    COUNTED_AT(REAL(__pread_chk)(fd, out, size, offset, room));
}

NC_EXPORT ssize_t
__pread64_chk(int fd, void *out, size_t size, off_t offset, size_t room)
{
    COUNTED_AT(REAL(__pread64_chk)(fd, out, size, offset, room));
}

NC_EXPORT ssize_t
preadv(int fd, const struct iovec *parts, int many, off_t offset)
{
    COUNTED_AT(REAL(preadv)(fd, parts, many, offset));
}

NC_EXPORT ssize_t
preadv64(int fd, const struct iovec *parts, int many, off_t offset)
{
    COUNTED_AT(REAL(preadv64)(fd, parts, many, offset));
}

NC_EXPORT ssize_t
preadv2(int fd, const struct iovec *parts, int many, off_t offset, int flags)
{
    if (offset == -1) { /* reads on, as readv does */
        COUNTED(REAL(preadv2)(fd, parts, many, offset, flags));
    }
    COUNTED_AT(REAL(preadv2)(fd, parts, many, offset, flags));
}

NC_EXPORT ssize_t
preadv64v2(int fd, const struct iovec *parts, int many, off_t offset, int flags)
{
    if (offset == -1) {
        COUNTED(REAL(preadv64v2)(fd, parts, many, offset, flags));
    }
    COUNTED_AT(REAL(preadv64v2)(fd, parts, many, offset, flags));
}

/* ---- copies inside the kernel -------------------------------------- */

/* `*at` before the call, where the program gave a place of its own. A bad
 * pointer is the kernel's to refuse: it is read only after a success. */
#define MOVED(source, at, call)                                      \
    int fd = source;                                                 \
    struct nc_description *of = watch(fd);                           \
    ssize_t got = call;                                              \
    if (of && got > 0) {                                             \
        if (at)                                                      \
            read_at(fd, of, (uint64_t)(*(at) - got), (uint64_t)got); \
        else                                                         \
            count(fd, of, got);                                      \
    }                                                                \
    return got

NC_EXPORT ssize_t
sendfile(int to, int from, off_t *at, size_t size)
{
    MOVED(from, at, REAL(sendfile)(to, from, at, size));
}

NC_EXPORT ssize_t
sendfile64(int to, int from, off_t *at, size_t size)
{
    MOVED(from, at, REAL(sendfile64)(to, from, at, size));
}

NC_EXPORT ssize_t
splice(int from, off_t *at, int to, off_t *to_at, size_t size, unsigned flags)
{
    MOVED(from, at, REAL(splice)(from, at, to, to_at, size, flags));
}

NC_EXPORT ssize_t
copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t size,
                unsigned flags)
{
    MOVED(from, at, REAL(copy_file_range)(from, at, to, to_at, size, flags));
}

/* ---- the offset ---------------------------------------------------- */

/* `head -n 5` and a shell's `read` take a block and seek back to behind what
 * they used: what is given back was not read. Going back to the block's
 * beginning, or further, is reading anew. */
static void
sought(struct nc_description *of, off_t offset, int whence, uint64_t now)
{
    uint64_t before = of->position;
    if (of->flags & NC_SHARED)
        before = whence == SEEK_CUR ? now - (uint64_t)offset : before;
    int back = (whence == SEEK_CUR && offset < 0 && now >= of->block) ||
               (whence == SEEK_SET && now > of->block && now < before);
    if (back && now < before && nc_description_enter(of)) {
        nc_coverage_remove(&of->coverage, now, before);
        nc_description_leave(of);
    }
    of->position = of->block = now;
}

static inline struct nc_description *
watch_offset(int fd)
{
    if (nc_unlikely(!nc_process.active))
        return NULL;
    struct nc_description *of = nc_fd_get(fd);
    if (of == NC_NOTHING || of == NC_UNKNOWN || nc_is_guest() ||
        of->kind != NC_FILE)
        return NULL;
    if (of->flags & NC_STREAM)
        nc_sample(fd, of);
    return of;
}

NC_EXPORT off_t
lseek(int fd, off_t offset, int whence)
{
    struct nc_description *of = watch_offset(fd);
    off_t now = REAL(lseek)(fd, offset, whence);
    if (of && now >= 0)
        sought(of, offset, whence, (uint64_t)now);
    return now;
}

NC_ALSO(off_t, __lseek, (int, off_t, int), lseek);

NC_EXPORT off_t
lseek64(int fd, off_t offset, int whence)
{
    struct nc_description *of = watch_offset(fd);
    off_t now = REAL(lseek64)(fd, offset, whence);
    if (of && now >= 0)
        sought(of, offset, whence, (uint64_t)now);
    return now;
}

/* ---- the version, where the program itself asks for it ------------- */

static inline void
saw_stat(int fd, int result, const struct stat *st)
{
    if (nc_unlikely(!nc_process.active) || result)
        return;
    struct nc_description *of = nc_fd_get(fd);
    if (of == NC_NOTHING || of == NC_UNKNOWN || of->kind != NC_FILE ||
        (of->flags & NC_VERSIONED) || nc_is_guest())
        return;
    if (S_ISREG(st->st_mode)) {
        nc_version_from(&of->version, st);
        of->flags |= NC_VERSIONED;
    } else if (S_ISDIR(st->st_mode)) {
        int kept = errno;
        nc_note_folder(fd, of);
        errno = kept;
    }
}

NC_EXPORT int
fstat(int fd, struct stat *out)
{
    int result = REAL(fstat)(fd, out);
    saw_stat(fd, result, out);
    return result;
}

NC_EXPORT int
fstat64(int fd, struct stat64 *out)
{
    int result = REAL(fstat64)(fd, out);
    saw_stat(fd, result, (const struct stat *)out);
    return result;
}

int __fxstat(int version, int fd, struct stat *out);
int __fxstat64(int version, int fd, struct stat64 *out);

NC_EXPORT int
__fxstat(int version, int fd, struct stat *out)
{
    int result = REAL(__fxstat)(version, fd, out);
    saw_stat(fd, result, out);
    return result;
}

NC_EXPORT int
__fxstat64(int version, int fd, struct stat64 *out)
{
    int result = REAL(__fxstat64)(version, fd, out);
    saw_stat(fd, result, (const struct stat *)out);
    return result;
}
