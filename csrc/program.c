/* The file of a program that is about to start. One that makes no sense is not
 * known: the kernel will say what it thinks of it. */
#include "program.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statfs.h>

#include "elffile.h"
#include "platform.h"

#define MOST_SCRIPTS 6   /* the kernel gives up at the same depth */
#define SEARCH_ROOM 4096 /* bytes: PATH_MAX */
#define NOSUID 2         /* ST_NOSUID, as statfs has it */

#ifdef __GLIBC__
#define OWN NC_REASON_GLIBC
#else
#define OWN NC_REASON_MUSL
#endif

static enum nc_cover
cover_for(enum nc_reason why)
{
    switch (why) {
    case NC_REASON_GLIBC:
    case NC_REASON_MUSL:
        return why == OWN ? NC_COVER_PRELOAD : NC_COVER_OTHER;
    case NC_REASON_LOADER:
    case NC_REASON_STATIC:
    case NC_REASON_STATIC_PIE:
    case NC_REASON_GO:
    case NC_REASON_BUN:
    case NC_REASON_MACHINE:
        return NC_COVER_SUPERVISOR;
    case NC_REASON_SET_ID:
    case NC_REASON_CAPABLE:
        return NC_COVER_NONE;
    default:
        return NC_COVER_PRELOAD;
    }
}

/* ---- the file ------------------------------------------------------ */

/* Will the kernel give it more than this process has? The loader then takes no
 * preload. Not where the mount forbids it, nor under no_new_privs. */
static enum nc_reason
privilege(int fd, const struct stat *st)
{
    struct statfs mount;
    enum nc_reason why = NC_REASON_UNKNOWN;
    if (((st->st_mode & S_ISUID) && st->st_uid != nc_raw(getuid)) ||
        ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) &&
         st->st_gid != nc_raw(getgid)))
        why = NC_REASON_SET_ID;
    else if (fd >= 0 && nc_raw(getuid) &&
             nc_raw(fgetxattr, fd, "security.capability", NULL, 0L) > 0)
        why = NC_REASON_CAPABLE;
    if (why == NC_REASON_UNKNOWN ||
        nc_raw(prctl, PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) == 1 ||
        (fd >= 0 && !nc_raw(fstatfs, fd, &mount) && (mount.f_flags & NOSUID)))
        return NC_REASON_UNKNOWN;
    return why;
}

/* A descriptor to read the file by. */
static int
open_it(int dirfd, const char *path)
{
    char link[64];
    if (!*path) {
        nc_link_to(dirfd, link);
        path = link;
    }
    return nc_raw_open(dirfd, path,
                       O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
}

static struct nc_program
look(int dirfd, const char *path, char *line)
{
    struct stat st;
    struct nc_program out = {.why = NC_REASON_MISSING};
    /* a bad pointer is the kernel's to find */
    if (!path || nc_raw(newfstatat, dirfd, path, &st, AT_EMPTY_PATH))
        return out;
    out.why = NC_REASON_NO_FILE;
    if (!S_ISREG(st.st_mode))
        return out;
    struct nc_image image;
    image.fd = open_it(dirfd, path);
    image.file_size = st.st_size;
    if (image.fd < 0) {
        out.why = privilege(-1, &st);
        if (out.why == NC_REASON_UNKNOWN)
            out.why = NC_REASON_UNREADABLE;
        return out;
    }
    ssize_t got = nc_raw(pread64, image.fd, image.head, NC_HEAD, 0);
    image.size = got > 0 ? (size_t)got : 0;
    out.why = NC_REASON_UNKNOWN;
    if (image.size >= 2 && !memcmp(image.head, "#!", 2)) {
        size_t size = image.size < NC_SCRIPT_ROOM ? image.size : NC_SCRIPT_ROOM;
        memcpy(line, image.head + 2, size - 2);
        memset(line + size - 2, 0, NC_SCRIPT_ROOM - (size - 2));
        line[strcspn(line, "\n")] = 0;
        out.why = NC_REASON_SCRIPT;
    } else if (image.size >= SELFMAG && !memcmp(image.head, ELFMAG, SELFMAG)) {
        out.why = privilege(image.fd, &st);
        if (out.why == NC_REASON_UNKNOWN)
            out = nc_program_of_elf(&image);
    }
    nc_raw_close(image.fd);
    return out;
}

struct nc_program
nc_cover_step(int dirfd, const char *path, char line[NC_SCRIPT_ROOM])
{
    int kept = errno;
    *line = 0;
    struct nc_program out = look(dirfd, path, line);
    out.cover = cover_for(out.why);
    errno = kept;
    return out;
}

struct nc_program
nc_cover_of(int dirfd, const char *path)
{
    char line[NC_SCRIPT_ROOM], next[NC_SCRIPT_ROOM];
    struct nc_program out = nc_cover_step(dirfd, path, line);
    for (int i = 1; out.why == NC_REASON_SCRIPT; i++) {
        char *name = line + strspn(line, " \t");
        name[strcspn(name, " \t")] = 0;
        if (!*name || i == MOST_SCRIPTS) {
            out.why = NC_REASON_UNKNOWN;
            break;
        }
        memcpy(next, name, strlen(name) + 1);
        out = nc_cover_step(AT_FDCWD, next, line);
    }
    return out;
}

const char *
nc_search(const char *name, char *out)
{
    extern char **environ;
    const char *list = NULL;
    if (strchr(name, '/'))
        return name;
    for (char **entry = environ; entry && *entry && !list; entry++)
        if (!strncmp(*entry, "PATH=", 5))
            list = *entry + 5;
    if (!list)
        list = "/bin:/usr/bin";
    int kept = errno;
    size_t length = strlen(name);
    for (;; list++) {
        size_t size = strcspn(list, ":");
        if (size + length + 2 <= SEARCH_ROOM) {
            memcpy(out, list, size);
            if (size)
                out[size++] = '/';
            memcpy(out + size, name, length + 1);
            if (!nc_raw(faccessat, AT_FDCWD, out, X_OK))
                break;
        }
        list += strcspn(list, ":");
        if (!*list) {
            out = NULL;
            break;
        }
    }
    errno = kept;
    return out;
}
