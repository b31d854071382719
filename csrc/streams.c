/* stdio. Its reads happen inside the C library; the descriptor's offset tells
 * what was read: between two samples it was read in sequence. */
#include <string.h>

#include "shim.h"

/* A stream's open flags from its mode, as fopen(3) has them. */
static int
flags_of(const char *mode)
{
    int plus = strchr(mode, '+') != NULL;
    int flags = plus ? O_RDWR : O_WRONLY;
    if (*mode == 'r')
        flags = plus ? O_RDWR : O_RDONLY;
    else if (*mode == 'a')
        flags |= O_APPEND | O_CREAT;
    else
        flags |= O_TRUNC | O_CREAT;
    return flags;
}

/* Those that say whether the opening may change something: of a mode that
 * fopen does not know, nothing. */
static int
full_flags_of(const char *mode)
{
    if (!strchr("rwa", *mode))
        return O_RDONLY;
    return flags_of(mode) | (strchr(mode, 'x') ? O_EXCL : 0);
}

/* The C library will read, and nobody will see it ask for the version. */
static void
follow(FILE *stream, int fd, struct nc_description *of)
{
    struct stat st;
    if (of == NC_NOTHING || of == NC_UNKNOWN || of->kind != NC_FILE)
        return;
    of->flags |= NC_STREAM;
    if (of->flags & NC_WRITER)
        of->stream = stream;
    int kept = errno;
    if (!(of->flags & NC_VERSIONED) && !nc_stat(fd, &st)) {
        nc_version_from(&of->version, &st);
        of->flags |= NC_VERSIONED;
    }
    errno = kept;
}

static int
is_refused(int fd, int flags)
{
    struct stat st;
    if (nc_unlikely(nc_refusals) && !(flags & O_APPEND) && !nc_stat(fd, &st) &&
        nc_was_refused(&st))
        return 1;
    return (flags & O_CREAT) && nc_may_create(fd, -1);
}

static FILE *
opened(FILE *stream, const char *path, const char *mode)
{
    if (!stream || !nc_process.active)
        return stream;
    int fd = fileno(stream);
    int flags = flags_of(mode);
    if ((flags & O_ACCMODE) != O_RDONLY && is_refused(fd, flags)) {
        if (!nc_is_guest()) /* the old bytes in it are not our writing */
            nc_fd_set(fd, NC_NOTHING);
        fclose(stream);
        errno = EPERM;
        return NULL;
    }
    nc_before_update(fd, flags);
    nc_note_open(fd, AT_FDCWD, path, flags & ~O_TRUNC, 0);
    if (!nc_is_guest())
        follow(stream, fd, nc_fd_get(fd));
    return stream;
}

/* Runs `call` with `path` led to the very file that was judged. */
#define OPEN_STREAM(path, mode, call)                                 \
    char link[64];                                                    \
    const char *given = path;                                         \
    int held = -1;                                                    \
    if (NC_REFUSES(path && mode &&                                    \
                   nc_may_open(AT_FDCWD, path, full_flags_of(mode)))) \
        return NULL;                                                  \
    if (nc_process.active && path && mode && *mode == 'w' &&          \
        !strchr(mode, 'x')) {                                         \
        if (nc_may_empty(AT_FDCWD, path, link, sizeof link, &held))   \
            return NULL;                                              \
        if (held >= 0)                                                \
            path = link;                                              \
    }                                                                 \
    FILE *stream = call;                                              \
    if (held >= 0) {                                                  \
        int kept = errno;                                             \
        nc_raw_close(held);                                           \
        errno = kept;                                                 \
    }                                                                 \
    return opened(stream, given, mode)

NC_EXPORT FILE *
fopen(const char *path, const char *mode)
{
    OPEN_STREAM(path, mode, REAL(fopen)(path, mode));
}

NC_EXPORT FILE *
fopen64(const char *path, const char *mode)
{
    OPEN_STREAM(path, mode, REAL(fopen64)(path, mode));
}

/* freopen closes first, even where the opening then fails. */
static void
before_reopening(FILE *stream)
{
    if (!nc_process.active || nc_is_guest())
        return;
    int fd = fileno(stream);
    if (fd >= 0) {
        struct nc_description *of = nc_fd_get(fd);
        fflush(stream);
        if (of != NC_NOTHING && of != NC_UNKNOWN)
            of->stream = NULL;
        nc_note_close(fd);
    }
}

#define REOPEN(function)                              \
    char link[64];                                    \
    const char *name = path;                          \
    if (!nc_process.active || !mode)                  \
        return REAL(function)(path, mode, old);       \
    if (!path) { /* another mode for the same file */ \
        nc_link_to(fileno(old), link);                \
        name = link;                                  \
    }                                                 \
    if (((*mode == 'w' && !strchr(mode, 'x')) ||      \
         nc_unlikely(nc_process.read_only)) &&        \
        refuse_reopening(name, mode, old))            \
        return NULL;                                  \
    before_reopening(old);                            \
    return opened(REAL(function)(path, mode, old), name, mode)

/* A refused freopen leaves the stream closed, as a failed one does. */
static int
refuse_reopening(const char *path, const char *mode, FILE *old)
{
    char link[64];
    int held = -1;
    int refused =
        NC_REFUSES(nc_may_open(AT_FDCWD, path, full_flags_of(mode))) ||
        (*mode == 'w' && !strchr(mode, 'x') &&
         nc_may_empty(AT_FDCWD, path, link, sizeof link, &held));
    if (held >= 0) {
        int kept = errno;
        nc_raw_close(held);
        errno = kept;
    }
    if (refused) {
        before_reopening(old);
        /* cannot be opened: an empty name */
        REAL(freopen)("", "r", old);
        errno = EPERM;
    }
    return refused;
}

NC_EXPORT FILE *
freopen(const char *path, const char *mode, FILE *old)
{
    REOPEN(freopen);
}

NC_EXPORT FILE *
freopen64(const char *path, const char *mode, FILE *old)
{
    REOPEN(freopen64);
}

NC_EXPORT FILE *
fdopen(int fd, const char *mode)
{
    FILE *stream = REAL(fdopen)(fd, mode);
    if (!stream || !nc_process.active || nc_is_guest())
        return stream;
    struct nc_description *of = nc_look(fd);
    if (of != NC_NOTHING && of != NC_UNKNOWN && of->kind == NC_FILE) {
        off_t at = nc_raw_lseek(fd, 0, SEEK_CUR);
        if (at >= 0)
            of->position = (uint64_t)at;
    }
    follow(stream, fd, of);
    return stream;
}

static struct nc_description *
watch_stream(FILE *stream, int *fd)
{
    if (!nc_process.active || !stream || nc_is_guest())
        return NULL;
    int kept = errno;
    *fd = fileno(stream);
    errno = kept;
    if (*fd < 0)
        return NULL;
    struct nc_description *of = nc_fd_get(*fd);
    return of == NC_NOTHING || of == NC_UNKNOWN ? NULL : of;
}

NC_EXPORT int
fclose(FILE *stream)
{
    int fd, refused = 0;
    struct nc_description *of = watch_stream(stream, &fd);
    if (of) {
        int kept = errno;
        if (of->kind == NC_CHANNEL || (of->flags & NC_WRITER))
            fflush(stream); /* what is reported is what was written */
        of->stream = NULL;  /* other descriptors may keep `of` */
        refused = nc_note_close(fd);
        errno = kept;
    } else if (nc_process.active && stream && !nc_is_guest()) {
        int kept = errno;
        fd = fileno(stream);
        if (fd >= 0)
            nc_note_close(fd);
        errno = kept;
    }
    int result = REAL(fclose)(stream);
    if (nc_unlikely(refused) && !result) {
        errno = EPERM;
        return EOF;
    }
    return result;
}

/* ---- samples ------------------------------------------------------- */

static void
before_seeking(FILE *stream)
{
    int fd, kept = errno;
    struct nc_description *of = watch_stream(stream, &fd);
    if (of && of->kind == NC_FILE && (of->flags & NC_STREAM))
        nc_sample(fd, of);
    errno = kept;
}

/* Where the next reading begins. */
static void
after_seeking(FILE *stream)
{
    int fd, kept = errno;
    struct nc_description *of = watch_stream(stream, &fd);
    if (of && of->kind == NC_FILE && (of->flags & NC_STREAM)) {
        off_t at = nc_raw_lseek(fd, 0, SEEK_CUR);
        if (at >= 0)
            of->position = (uint64_t)at;
    }
    errno = kept;
}

NC_EXPORT int
fseek(FILE *stream, long offset, int whence)
{
    before_seeking(stream);
    int result = REAL(fseek)(stream, offset, whence);
    after_seeking(stream);
    return result;
}

NC_EXPORT int
fseeko(FILE *stream, off_t offset, int whence)
{
    before_seeking(stream);
    int result = REAL(fseeko)(stream, offset, whence);
    after_seeking(stream);
    return result;
}

NC_EXPORT int
fseeko64(FILE *stream, off_t offset, int whence)
{
    before_seeking(stream);
    int result = REAL(fseeko64)(stream, offset, whence);
    after_seeking(stream);
    return result;
}

NC_EXPORT void
rewind(FILE *stream)
{
    before_seeking(stream);
    REAL(rewind)(stream);
    after_seeking(stream);
}

NC_EXPORT int
fsetpos(FILE *stream, const fpos_t *to)
{
    before_seeking(stream);
    int result = REAL(fsetpos)(stream, to);
    after_seeking(stream);
    return result;
}

NC_EXPORT int
fsetpos64(FILE *stream, const fpos64_t *to)
{
    before_seeking(stream);
    int result = REAL(fsetpos64)(stream, to);
    after_seeking(stream);
    return result;
}

int __uflow(FILE *stream);
int __underflow(FILE *stream);

/* Refill points that macros call: a stream over a descriptor that was never
 * looked at is met here first, before its first byte. */
static void
first_refill(FILE *stream)
{
    if (!nc_process.active || nc_is_guest())
        return;
    int kept = errno;
    int fd = fileno(stream);
    if (fd >= 0 && nc_fd_get(fd) == NC_UNKNOWN) {
        follow(stream, fd, nc_look(fd));
    }
    errno = kept;
}

NC_EXPORT int
__uflow(FILE *stream)
{
    first_refill(stream);
    return REAL(__uflow)(stream);
}

NC_EXPORT int
__underflow(FILE *stream)
{
    first_refill(stream);
    return REAL(__underflow)(stream);
}

/* ---- the end ------------------------------------------------------- */

static void
flush_one(FILE *stream)
{
    /* one that another thread is inside of is left alone, as exit does */
    if (ftrylockfile(stream))
        return;
    fflush_unlocked(stream);
    funlockfile(stream);
}

void
nc_streams_flush(void)
{
    for (int fd = nc_fd_last(); fd >= 0; fd--) {
        struct nc_description *of = nc_fd_get(fd);
        if (of == NC_NOTHING || of == NC_UNKNOWN || of->kind != NC_FILE ||
            !(of->flags & NC_WRITER))
            continue;
        if (of->stream)
            flush_one(of->stream);
        else if (fd == 1 && (of->flags & NC_ELDER))
            flush_one(stdout);
    }
}
