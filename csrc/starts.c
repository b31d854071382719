/* Git is asked about before it starts: what it would do to files that the host
 * had under way is plain from its arguments, and from nothing later on. */
#include <string.h>

#include "shim.h"

#define ROOM_LEFT 64 /* bytes of the largest record that are no text */

static int
is_git_name(const char *path, size_t size)
{
    size_t at = size;
    while (at && path[at - 1] != '/')
        at--;
    path += at;
    size -= at;
    return size >= 3 && !memcmp(path, "git", 3) &&
           (size == 3 || path[3] == '-');
}

/* Is that program git, by its name or by what the name leads to, and will the
 * kernel start it? */
static int
is_git(const struct nc_start *start, const char *path, char *real)
{
    int fd = start->may_be_empty && !*path
                 ? (int)nc_raw(fcntl, start->at, F_DUPFD_CLOEXEC, 0)
                 : nc_raw_open(start->at, path, NC_OPEN_LOOK, 0);
    if (fd < 0)
        return 0;
    struct stat st;
    char link[64];
    nc_link_to(fd, link);
    int starts = !nc_stat(fd, &st) && S_ISREG(st.st_mode) &&
                 !nc_raw(faccessat, AT_FDCWD, link, X_OK);
    size_t size = nc_path_of(fd, real, NC_PATH_MAX);
    nc_raw_close(fd);
    return starts &&
           (is_git_name(real, size) || is_git_name(path, strlen(path)));
}

/* A string that the kernel can read: of one that it cannot, EFAULT is said. */
static int
is_text(const char *at)
{
    return at && !(nc_raw(faccessat, AT_FDCWD, at, F_OK) && errno == EFAULT);
}

/* What git looks at of its environment. */
static int
matters(const char *entry)
{
    return !strncmp(entry, "GIT_", 4) || !strncmp(entry, "HOME=", 5) ||
           !strncmp(entry, "XDG_CONFIG_HOME=", 16);
}

/* The strings that count, each ended by NUL, to `out` or (NULL) nowhere; bytes.
 * `most` is where it stops. */
static size_t
gather(char *const *from, int all, char *out, size_t most, int *cut)
{
    size_t used = 0;
    for (; from && nc_readable(from) && *from; from++) {
        if (!is_text(*from) || !(all || matters(*from)))
            continue;
        size_t size = strlen(*from) + 1;
        if (used + size > most) {
            *cut = 1;
            break;
        }
        if (out)
            memcpy(out + used, *from, size);
        used += size;
    }
    return used;
}

static int
ask(const struct nc_start *start, const char *program)
{
    int cut = 0;
    size_t most = NC_RECORD_MAX - ROOM_LEFT - NC_PATH_MAX;
    size_t words = gather(start->environment, 0, NULL, most / 2, &cut);
    struct nc_exec record = {
        .record = {.version = NC_VERSION, .type = NC_EXEC},
        .id = 1,
        .program_size = (uint32_t)strlen(program),
        .environ_size = (uint32_t)words,
        .argv_size = (uint32_t)gather(start->argv, 1, NULL, most - words, &cut),
    };
    size_t size = sizeof record + record.program_size + record.argv_size +
                  record.environ_size;
    size = (size + 7) & ~(size_t)7;
    char *room = nc_pages_get(size); /* zeroed; a guest has no other memory */
    int folder = start->dirfd == AT_FDCWD
                     ? nc_raw_open(AT_FDCWD, ".", NC_OPEN_LOOK, 0)
                     : (int)nc_raw(fcntl, start->dirfd, F_DUPFD_CLOEXEC, 0);
    int refused = 0;
    if (room && folder >= 0) {
        record.record.size = (uint32_t)size;
        record.record.flags =
            (uint16_t)((nc_process.read_only ? NC_ASKS_READ_ONLY : 0) |
                       (cut ? NC_CUT : 0));
        memcpy(room, &record, sizeof record);
        char *at = room + sizeof record;
        memcpy(at, program, record.program_size);
        at += record.program_size;
        at += gather(start->argv, 1, at, record.argv_size, &cut);
        gather(start->environment, 0, at, record.environ_size, &cut);
        const struct nc_ask question = {
            .fd = folder,
            .other = -1,
            .path = "",
            .record = room,
            .record_size = size,
        };
        refused = nc_ask(&question);
    }
    if (folder >= 0)
        nc_raw_close(folder);
    if (room)
        nc_pages_drop(room, size);
    return refused;
}

struct nc_program
nc_look_up(struct nc_start *start, char *found)
{
    int kept = errno;
    if (start->search)
        start->path =
            is_text(start->path) ? nc_search(start->path, found) : NULL;
    errno = kept;
    return nc_cover_of(start->at, start->path);
}

int
nc_may_start(const struct nc_start *start)
{
    char real[NC_PATH_MAX];
    int kept = errno;
    /* of a bad name the kernel says EFAULT */
    int refused = start->argv && is_text(start->path) &&
                  is_git(start, start->path, real) && ask(start, real);
    errno = refused ? EPERM : kept;
    return refused ? -1 : 0;
}
