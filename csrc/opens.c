/* Opening. A truncating open is made without O_TRUNC, asked about, and then
 * shortened through that very descriptor: the kernel gives its own errors
 * first, and nothing can be swapped in between. */
#include <string.h>

#include "shim.h"

static int
call(const struct nc_opening *o, int flags)
{
    switch (o->hook) {
    case NC_HOOK_open:
        return REAL(open)(o->path, flags, o->mode);
    case NC_HOOK_open64:
        return REAL(open64)(o->path, flags, o->mode);
    case NC_HOOK_openat:
        return REAL(openat)(o->dirfd, o->path, flags, o->mode);
    case NC_HOOK_openat64:
        return REAL(openat64)(o->dirfd, o->path, flags, o->mode);
    default: /* a number given to syscall() */
#ifdef SYS_openat2
        if (o->how) {
            char how[NC_HOW_MAX];
            uint64_t wide = (uint64_t)(unsigned)flags;
            if (o->how_size < sizeof wide || o->how_size > sizeof how)
                return (int)REAL(syscall)(SYS_openat2, o->dirfd, o->path,
                                          o->how, o->how_size);
            memcpy(how, o->how, o->how_size);
            memcpy(how, &wide, sizeof wide); /* open_how.flags */
            return (int)REAL(syscall)(SYS_openat2, o->dirfd, o->path, how,
                                      o->how_size);
        }
#endif
        return (int)REAL(syscall)(SYS_openat, o->dirfd, o->path, flags,
                                  o->mode);
    }
}

static int
refuse(int fd)
{
    nc_raw_close(fd);
    errno = EPERM;
    return -1;
}

/* 0: may be emptied. The descriptor is the target itself. */
static int
ask_about(int fd, const struct stat *st)
{
    char path[NC_PATH_MAX];
    size_t size;
    if (nc_area_of_fd(fd, path, &size) == NC_AREA_NONE)
        return 0;
    struct nc_version version;
    nc_version_from(&version, st);
    const struct nc_ask ask = {
        .op = NC_OP_TRUNCATE,
        .fd = fd,
        .other = -1,
        .end = version.size,
        .path = path,
        .path_size = size,
        .version = &version,
    };
    return nc_ask(&ask);
}

static int
open_truncating(const struct nc_opening *o)
{
    int fd = call(o, o->flags & ~O_TRUNC);
    if (fd < 0)
        return fd;
    int kept = errno;
    struct stat st;
    if (nc_stat(fd, &st) || !S_ISREG(st.st_mode))
        goto done; /* truncation means nothing here */
    if (st.st_size && ask_about(fd, &st))
        return refuse(fd);
    if ((o->flags & O_ACCMODE) == O_RDONLY) {
        nc_raw_close(fd); /* not writable: made again as it was asked for */
        errno = kept;
        fd = call(o, o->flags);
    } else if (nc_raw(ftruncate, fd, (off_t)0)) {
        int why = errno;
        nc_raw_close(fd);
        errno = why;
        return -1;
    }
    if (fd < 0)
        return fd;
    if ((o->flags & O_CREAT) && !st.st_size && nc_may_create(fd, -1))
        return refuse(fd);
done:
    errno = kept;
    nc_note_open(fd, o->dirfd, o->path, o->flags, 0);
    return fd;
}

/* Writing through a new descriptor would get round an earlier refusal. */
static int
reopens_refused(int fd, int flags)
{
    struct stat st;
    if ((flags & O_ACCMODE) == O_RDONLY || (flags & (O_APPEND | O_PATH)))
        return 0;
    return !nc_stat(fd, &st) && nc_was_refused(&st);
}

int
nc_open(const struct nc_opening *o)
{
    if (nc_unlikely(!nc_process.active))
        return call(o, o->flags);
    if (NC_REFUSES(nc_may_open(o->dirfd, o->path, o->flags)))
        return -1;
    if ((o->flags & O_TRUNC) && !(o->flags & O_PATH) &&
        (o->flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL))
        return open_truncating(o);
    int fd = call(o, o->flags);
    if (fd < 0)
        return fd;
    if (nc_unlikely(nc_refusals) && reopens_refused(fd, o->flags))
        return refuse(fd);
    if ((o->flags & O_CREAT) && (o->flags & O_ACCMODE) != O_RDONLY &&
        nc_may_create(fd, -1))
        return refuse(fd);
    nc_before_update(fd, o->flags);
    nc_note_open(fd, o->dirfd, o->path, o->flags,
                 (o->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL));
    return fd;
}

#define MODE_OF(flags)                                      \
    mode_t mode = 0;                                        \
    if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
        va_list list;                                       \
        va_start(list, flags);                              \
        mode = (mode_t)va_arg(list, unsigned);              \
        va_end(list);                                       \
    }

#define OPEN(name, folder, given, given_mode) \
    const struct nc_opening opening = {       \
        .hook = NC_HOOK_##name,               \
        .dirfd = folder,                      \
        .path = path,                         \
        .flags = given,                       \
        .mode = given_mode,                   \
    };                                        \
    return nc_open(&opening)

NC_EXPORT int
open(const char *path, int flags, ...)
{
    MODE_OF(flags);
    OPEN(open, AT_FDCWD, flags, mode);
}

NC_ALSO(int, __open, (const char *, int, ...), open);

NC_EXPORT int
open64(const char *path, int flags, ...)
{
    MODE_OF(flags);
    OPEN(open64, AT_FDCWD, flags, mode);
}

NC_ALSO(int, __open64, (const char *, int, ...), open64);

NC_EXPORT int
openat(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags);
    OPEN(openat, dirfd, flags, mode);
}

NC_EXPORT int
openat64(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags);
    OPEN(openat64, dirfd, flags, mode);
}

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* The fortified twins stop a program that forgot its mode: so must we. */
#define WITHOUT_MODE(flags) \
    (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE)

NC_EXPORT int
__open_2(const char *path, int flags)
{
    if (WITHOUT_MODE(flags))
        return REAL(__open_2)(path, flags);
    OPEN(open, AT_FDCWD, flags, 0);
}

NC_EXPORT int
__open64_2(const char *path, int flags)
{
    if (WITHOUT_MODE(flags))
        return REAL(__open64_2)(path, flags);
    OPEN(open64, AT_FDCWD, flags, 0);
}

NC_EXPORT int
__openat_2(int dirfd, const char *path, int flags)
{
    if (WITHOUT_MODE(flags))
        return REAL(__openat_2)(dirfd, path, flags);
    OPEN(openat, dirfd, flags, 0);
}

NC_EXPORT int
__openat64_2(int dirfd, const char *path, int flags)
{
    if (WITHOUT_MODE(flags))
        return REAL(__openat64_2)(dirfd, path, flags);
    OPEN(openat64, dirfd, flags, 0);
}

NC_EXPORT int
creat(const char *path, mode_t mode)
{
    OPEN(open, AT_FDCWD, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

NC_EXPORT int
creat64(const char *path, mode_t mode)
{
    OPEN(open64, AT_FDCWD, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* ---- files with made-up names -------------------------------------- */

static int
made(int fd, const char *path)
{
    if (fd >= 0)
        nc_note_open(fd, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 1);
    return fd;
}

/* Has the template the six letters that are replaced? */
static int
is_template(const char *path, int tail)
{
    size_t size = nc_readable(path) ? strlen(path) : 0;
    return tail >= 0 && size >= 6 + (size_t)tail &&
           !memcmp(path + size - (size_t)tail - 6, "XXXXXX", 6);
}

#define MAKES(name, parameters, arguments, tail)        \
    NC_EXPORT int name parameters                       \
    {                                                   \
        if (NC_REFUSES(is_template(path, tail) &&       \
                       nc_may_make(AT_FDCWD, path, 0))) \
            return -1;                                  \
        return made(REAL(name) arguments, path);        \
    }

NC_EXPORT char *
mkdtemp(char *path)
{
    if (NC_REFUSES(is_template(path, 0) && nc_may_make(AT_FDCWD, path, 1)))
        return NULL;
    return REAL(mkdtemp)(path);
}

/* clang-format off */
MAKES(mkstemp, (char *path), (path), 0)
MAKES(mkstemp64, (char *path), (path), 0)
MAKES(mkostemp, (char *path, int flags), (path, flags), 0)
MAKES(mkostemp64, (char *path, int flags), (path, flags), 0)
MAKES(mkstemps, (char *path, int tail), (path, tail), tail)
MAKES(mkstemps64, (char *path, int tail), (path, tail), tail)
MAKES(mkostemps, (char *path, int tail, int flags), (path, tail, flags), tail)
MAKES(mkostemps64, (char *path, int tail, int flags), (path, tail, flags), tail)
/* clang-format on */
