/* What the agent's own process writes anew after it read it whole: the daemon
 * lets it go on, keeps the old content, and looks at the new one when the file
 * is closed. Nothing but that look can tell an edit from a part of the file
 * that goes back for the whole. */
#include "shim.h"

#define MOST_HELD 64 /* files at one time; more are kept and not looked at */

NC_COLD static struct {
    uint64_t dev, ino; /* ino 0: free */
} held[MOST_HELD];
int nc_holds;

static int
place_of(const struct nc_version *version)
{
    for (int i = 0; i < MOST_HELD; i++)
        if (held[i].ino == version->ino && held[i].dev == version->dev)
            return i;
    return -1;
}

void
nc_hold(const struct nc_version *version)
{
    if (place_of(version) >= 0)
        return;
    for (int i = 0; i < MOST_HELD; i++) {
        uint64_t none = 0;
        if (!__atomic_compare_exchange_n(&held[i].ino, &none, version->ino, 0,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        held[i].dev = version->dev;
        __atomic_add_fetch(&nc_holds, 1, __ATOMIC_RELEASE);
        return;
    }
}

void
nc_hold_drop(const struct nc_version *version)
{
    int at = nc_holds ? place_of(version) : -1;
    if (at < 0)
        return;
    __atomic_store_n(&held[at].ino, 0, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&nc_holds, 1, __ATOMIC_RELEASE);
}

void
nc_holds_forget(void)
{
    for (int i = 0; nc_holds && i < MOST_HELD; i++)
        held[i].ino = 0;
    nc_holds = 0;
}

static int
is_writer_of(const struct nc_description *of, const struct nc_version *version)
{
    return of != NC_UNKNOWN && of != NC_NOTHING && of->kind == NC_FILE &&
           (of->flags & NC_WRITER) && of->opened.ino == version->ino &&
           of->opened.dev == version->dev;
}

/* Is the file open for writing in this process in another way? */
static int
is_written_elsewhere(const struct nc_description *of)
{
    for (int fd = nc_fd_last(); fd >= 0; fd--) {
        const struct nc_description *other = nc_fd_get(fd);
        if (other != of && is_writer_of(other, &of->opened))
            return 1;
    }
    return 0;
}

int
nc_held_closing(int fd, const struct nc_description *of)
{
    char path[NC_PATH_MAX];
    size_t size;
    struct stat st;
    if (!is_writer_of(of, &of->opened) || place_of(&of->opened) < 0 ||
        is_written_elsewhere(of))
        return 0;
    nc_hold_drop(&of->opened);
    if (nc_stat(fd, &st) || (uint64_t)st.st_ino != of->opened.ino)
        return 0; /* another file by now */
    nc_area_of_fd(fd, path, &size);
    const struct nc_ask ask = {
        .op = NC_OP_CLOSE,
        .fd = fd,
        .other = -1,
        .start = of->epoch != nc_process.epoch,
        .end = (uint64_t)st.st_size,
        .path = path,
        .path_size = size,
        .version = &of->opened,
    };
    return nc_ask(&ask);
}

void
nc_held_settle(enum nc_moment moment)
{
    for (int fd = nc_fd_last(); fd >= 0 && nc_holds; fd--) {
        struct nc_description *of = nc_fd_get(fd);
        if (of == NC_UNKNOWN || of == NC_NOTHING)
            continue;
        if (moment == NC_AT_EXEC &&
            !((int)nc_raw(fcntl, fd, F_GETFD) & FD_CLOEXEC))
            continue; /* the next program writes on */
        if (nc_held_closing(fd, of))
            of->flags &= ~(uint32_t)NC_WRITER; /* not our writing any more */
    }
}
