/* What a descriptor stands for, from its opening to its closing, and what is
 * reported of it. */
#include <string.h>

#include "shim.h"

#define AREA_UNASKED 99 /* an inherited file whose path nobody asked yet */

/* ---- opening ------------------------------------------------------- */

static void
keep_path(struct nc_description *of, const char *path, size_t size)
{
    of->path_size = 0;
    if (size && size <= sizeof of->path) {
        memcpy(of->path, path, size);
        of->path_size = (uint16_t)size;
    }
}

static void
keep_folder(struct nc_description *of, const char *path, size_t size)
{
    keep_path(of, path, size);
    if (of->path_size && nc_area_is_whole(path, size))
        of->flags |= NC_WHOLE;
}

void
nc_note_folder(int fd, struct nc_description *of)
{
    char where[NC_PATH_MAX];
    size_t size;
    of->area = nc_area_of_fd(fd, where, &size);
    keep_folder(of, where, size);
    of->kind = NC_FOLDER;
}

static uint32_t
access_flags(int flags)
{
    uint32_t out = 0;
    if ((flags & O_ACCMODE) != O_WRONLY)
        out |= NC_READER;
    if ((flags & O_ACCMODE) != O_RDONLY)
        out |= NC_WRITER;
    if ((flags & O_ACCMODE) == O_RDWR)
        out |= NC_SHARED; /* writes move the offset too, and are not seen */
    if (flags & O_APPEND)
        out |= NC_APPENDER;
    return out;
}

void
nc_note_open(int fd, int dirfd, const char *path, int flags, int made)
{
    if (!nc_process.active || nc_is_guest() || fd < 0)
        return;
    int kept = errno;
    char where[NC_PATH_MAX];
    size_t size = 0;
    if (flags & O_PATH) {
        nc_fd_set(fd, NC_UNKNOWN);
        return;
    }
    /* of what is only read no report has the path */
    int is_read =
        (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_DIRECTORY | O_TRUNC));
    enum nc_area area = NC_AREA_ROOT;
    if (!is_read || !nc_area_at_once(dirfd, path))
        area = nc_area_of_open(dirfd, path, fd, where, &size);
    if (area != NC_AREA_ROOT && !(flags & O_DIRECTORY) &&
        !(nc_process.agent && area == NC_AREA_ELSE)) {
        nc_fd_set(fd, NC_NOTHING);
        errno = kept;
        return;
    }
    struct nc_description *of =
        nc_description_new(flags & O_DIRECTORY ? NC_FOLDER : NC_FILE);
    if (!of) {
        nc_fd_set(fd, NC_NOTHING);
        errno = kept;
        return;
    }
    of->area = area;
    of->epoch = nc_process.epoch;
    of->flags = access_flags(flags);
    if (of->kind == NC_FOLDER)
        keep_folder(of, where, size);
    else if (!is_read)
        keep_path(of, where, size);
    if (of->kind == NC_FILE && (of->flags & NC_WRITER)) {
        struct stat st;
        if (nc_stat(fd, &st) || !S_ISREG(st.st_mode)) {
            nc_description_free(of);
            nc_fd_set(fd, NC_NOTHING);
            errno = kept;
            return;
        }
        nc_version_from(&of->opened, &st);
        of->version = of->opened;
        of->flags |= NC_VERSIONED;
        if (!st.st_size)
            of->flags |= NC_FRESH;
        if (made)
            of->flags |= NC_MADE;
    }
    nc_fd_set(fd, of);
    errno = kept;
}

static int
leads_to_the_agent(const struct stat *pipe)
{
    return (uint64_t)pipe->st_ino == nc_process.pump[0] ||
           (uint64_t)pipe->st_ino == nc_process.pump[1];
}

/* Descriptors that the program did not open here: inherited, passed over a
 * socket, or made by a call that nobody follows. */
static struct nc_description *
examine(int fd, int ask_path)
{
    struct stat st;
    char where[NC_PATH_MAX];
    size_t size = 0;
    struct nc_description *of = NC_NOTHING;
    if (nc_stat(fd, &st))
        return NC_NOTHING; /* no such descriptor; keep it unknown */
    if (S_ISFIFO(st.st_mode) && leads_to_the_agent(&st)) {
        of = NC_NOTHING;
    } else if (S_ISFIFO(st.st_mode) ||
               (nc_process.agent && !S_ISREG(st.st_mode) &&
                !S_ISDIR(st.st_mode) && nc_way_of(fd))) { /* the agent's */
        of = nc_description_new(NC_CHANNEL);
        if (of)
            of->version.ino = (uint64_t)st.st_ino;
        if (of && nc_process.agent)
            nc_intake_begin(fd, of, &st);
    } else if (S_ISDIR(st.st_mode)) {
        enum nc_area area = nc_area_of_fd(fd, where, &size);
        of = nc_description_new(NC_FOLDER);
        if (of) {
            of->area = area;
            keep_folder(of, where, size);
        }
    } else if (S_ISREG(st.st_mode)) {
        uint32_t area = AREA_UNASKED;
        if (ask_path)
            area = nc_area_of_fd(fd, where, &size);
        if (area != NC_AREA_NONE && area != NC_AREA_ELSE) {
            of = nc_description_new(NC_FILE);
            if (of) {
                int flags = (int)nc_raw(fcntl, fd, F_GETFL);
                of->area = area;
                of->flags =
                    access_flags(flags) | NC_SHARED | NC_VERSIONED | NC_ELDER;
                nc_version_from(&of->version, &st);
                of->opened = of->version;
                if (!st.st_size)
                    of->flags |= NC_FRESH;
                off_t at = nc_raw_lseek(fd, 0, SEEK_CUR);
                of->position = of->block = at > 0 ? (uint64_t)at : 0;
                keep_path(of, where, size);
            }
        }
    }
    if (!of)
        of = NC_NOTHING;
    else if (of != NC_NOTHING)
        of->epoch = nc_process.epoch;
    if (of != NC_NOTHING || ask_path) /* at the start: when it is used */
        nc_fd_set(fd, of);
    return of;
}

struct nc_description *
nc_look(int fd)
{
    struct nc_description *of = nc_fd_get(fd);
    if (of == NC_UNKNOWN) {
        int kept = errno;
        of = examine(fd, 1);
        errno = kept;
    }
    return of;
}

void
nc_note_inherited(void)
{
    for (int fd = 0; fd < 3; fd++) {
        struct nc_description *of = examine(fd, 0);
        if (of == NC_NOTHING || of == NC_UNKNOWN || of->kind != NC_FILE)
            continue;
        if (of->flags & NC_READER)
            of->flags |= NC_STREAM; /* stdin may be read by stdio alone */
    }
}

void
nc_note_dup(int from, int to)
{
    if (!nc_process.active || nc_is_guest() || from == to)
        return;
    struct nc_description *of = nc_fd_get(from);
    struct nc_description *gone = nc_fd_set(to, of);
    if (gone)
        nc_description_free(gone); /* nc_note_close(to) came before */
}

/* ---- reporting ----------------------------------------------------- */

/* An inherited file is of interest only under a root. */
static inline int
is_of_interest(int fd, struct nc_description *of)
{
    if (of->area == AREA_UNASKED) {
        char where[NC_PATH_MAX];
        size_t size;
        of->area = nc_area_of_fd(fd, where, &size);
        keep_path(of, where, size);
    }
    return of->area == NC_AREA_ROOT ||
           (nc_process.agent && of->area == NC_AREA_ELSE);
}

static void
tell_read(struct nc_description *of)
{
    if (!nc_description_try(of))
        return;
    struct nc_read record = {
        .record = {.type = NC_READ},
        .version = of->version,
        .count = of->coverage.count,
    };
    if (of->flags & NC_WRITER)
        record.record.flags |= NC_WRITABLE;
    if (of->flags & NC_ELDER)
        record.record.flags |= NC_INHERITED;
    if (of->flags & NC_SOURCED)
        record.record.flags |= NC_EXECUTED;
    if (record.count)
        nc_report(&record.record, sizeof record,
                  nc_coverage_ranges(&of->coverage),
                  record.count * sizeof(struct nc_range), NULL, 0);
    nc_description_leave(of);
}

static void
tell_wrote(int fd, struct nc_description *of, int lives_on)
{
    struct stat st;
    if (nc_stat(fd, &st))
        return;
    struct nc_wrote record = {.record = {.type = NC_WROTE}};
    nc_version_from(&record.version, &st);
    record.opened = of->opened;
    if (record.version.ino != of->opened.ino ||
        record.version.dev != of->opened.dev)
        return; /* another file by now: closed behind our back */
    int changed =
        memcmp(&record.version, &of->opened, sizeof record.version) != 0;
    if (!changed && !(of->flags & NC_FRESH))
        return;
    uint16_t flags = 0;
    if (of->flags & NC_MADE)
        flags |= NC_CREATED;
    if (of->flags & NC_FRESH)
        flags |= NC_TRUNCATED;
    else
        flags |= of->flags & NC_APPENDER ? NC_APPEND : NC_UPDATE;
    if (of->flags & NC_ELDER)
        flags |= NC_INHERIT;
    if (lives_on)
        flags |= NC_OPENED;
    record.record.flags = flags;
    record.path_size = of->path_size;
    nc_report(&record.record, sizeof record, of->path, of->path_size, NULL, 0);
}

void
nc_tell(int fd, struct nc_description *of, enum nc_moment moment)
{
    if (of->kind == NC_CHANNEL) {
        nc_channel_tell(fd, of, moment);
        return;
    }
    if (of->kind != NC_FILE)
        return;
    if (of->flags & NC_STREAM)
        nc_sample(fd, of);
    int borrowed = (of->flags & NC_BORROWED) && moment != NC_AT_QUESTION;
    if ((of->flags & NC_NEWS) && !borrowed && is_of_interest(fd, of)) {
        of->flags &= ~(uint32_t)(NC_NEWS | NC_BORROWED);
        tell_read(of);
    }
    if ((of->flags & NC_WRITER) && is_of_interest(fd, of))
        tell_wrote(fd, of, moment != NC_AT_CLOSE);
}

/* ---- closing ------------------------------------------------------- */

int
nc_retire(int fd, struct nc_description *gone)
{
    int kept = errno;
    int refused = nc_unlikely(nc_holds) ? nc_held_closing(fd, gone) : 0;
    if (refused) /* what stands in it is not our writing */
        gone->flags &= ~(uint32_t)NC_WRITER;
    if (gone->intake)
        nc_intake_end(gone);
    nc_tell(fd, gone, NC_AT_CLOSE);
    if ((gone->kind == NC_FILE && (gone->flags & NC_WRITER)) ||
        (gone->kind == NC_CHANNEL && nc_has_news()))
        nc_flush();
    nc_description_free(gone);
    errno = kept;
    return refused;
}

int
nc_note_close(int fd)
{
    if (!nc_process.active || nc_is_guest())
        return 0;
    struct nc_description *of = nc_fd_get(fd);
    if (of == NC_NOTHING || of == NC_UNKNOWN) {
        if (nc_unlikely(nc_socket_is(fd)))
            nc_socket_lost(fd);
        if (of == NC_NOTHING)
            nc_fd_set(fd, NC_UNKNOWN);
        return 0;
    }
    if (of->kind == NC_FILE && (of->flags & NC_STREAM))
        nc_sample(fd, of);
    struct nc_description *gone = nc_fd_set(fd, NC_UNKNOWN);
    return gone ? nc_retire(fd, gone) : 0;
}
