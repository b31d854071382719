/* Programs started inside the C library: posix_spawn's file actions open
 * files where no hook is called, system and popen fork unseen. */
#include <string.h>

#include "shim.h"

/* What was judged. It is another program that writes it. */
static void
let_go(int fd)
{
    struct stat st;
    struct nc_version version;
    if (nc_unlikely(nc_holds) && !nc_stat(fd, &st)) {
        nc_version_from(&version, &st);
        nc_hold_drop(&version);
    }
    nc_raw_close(fd);
}

#ifdef __GLIBC__
/* As glibc has laid them out since 2.3 (posix/spawn_int.h). */
struct action {
    int tag;
    union {
        struct {
            int fd;
            char *path;
            int flags;
            mode_t mode;
        } open;
        struct {
            int from;
            int to;
        } dup2;
        char *path; /* of chdir */
        int fd;     /* of fchdir */
    } of;
};
enum { ACTION_DUP2 = 1, ACTION_OPEN = 2, ACTION_CHDIR = 3, ACTION_FCHDIR = 4 };

struct actions {
    int allocated;
    int used;
    struct action *list;
};

/* EPERM where an action would empty what may not be replaced. `starts_in` is
 * the directory that the program will start in: to be closed, or AT_FDCWD. */
static int
judge(const posix_spawn_file_actions_t *given, int *starts_in)
{
    const struct actions *actions = (const struct actions *)(const void *)given;
    int folder = AT_FDCWD, opened = -1, refused = 0, kept = errno;
    for (int i = 0; actions && i < actions->used && !refused; i++) {
        const struct action *at = &actions->list[i];
        if (at->tag == ACTION_CHDIR || at->tag == ACTION_FCHDIR) {
            int next = at->tag == ACTION_FCHDIR
                           ? (int)nc_raw(fcntl, at->of.fd, F_DUPFD_CLOEXEC, 0)
                           : nc_raw_open(folder, at->of.path, NC_OPEN_LOOK, 0);
            if (opened >= 0)
                nc_raw_close(opened);
            folder = opened = next;
        } else if (at->tag == ACTION_OPEN &&
                   NC_REFUSES(nc_may_open(folder, at->of.open.path,
                                          at->of.open.flags))) {
            refused = 1;
        } else if (at->tag == ACTION_OPEN && (at->of.open.flags & O_TRUNC) &&
                   (at->of.open.flags & (O_CREAT | O_EXCL)) !=
                       (O_CREAT | O_EXCL)) {
            char link[64];
            int held;
            refused = nc_may_empty(folder, at->of.open.path, link, sizeof link,
                                   &held);
            if (held >= 0)
                let_go(held);
        }
    }
    *starts_in = folder;
    errno = kept;
    return refused ? EPERM : 0;
}

/* Which descriptors of ours 1 and 2 will be; -1: neither. */
static void
redirect(const posix_spawn_file_actions_t *given, int from[2])
{
    const struct actions *actions = (const struct actions *)(const void *)given;
    for (int i = 0; actions && i < actions->used; i++) {
        const struct action *at = &actions->list[i];
        if (at->tag == ACTION_DUP2 &&
            (at->of.dup2.to == 1 || at->of.dup2.to == 2))
            from[at->of.dup2.to - 1] =
                at->of.dup2.from == 1 || at->of.dup2.from == 2
                    ? from[at->of.dup2.from - 1]
                    : at->of.dup2.from;
        else if (at->tag == ACTION_OPEN &&
                 (at->of.open.fd == 1 || at->of.open.fd == 2))
            from[at->of.open.fd - 1] = -1;
    }
}
#else
/* musl keeps a list, newest first (src/process/fdop.h). */
struct action {
    struct action *next, *prev;
    int cmd, fd, srcfd, flags;
    mode_t mode;
    char path[];
};
enum { ACTION_DUP2 = 2, ACTION_OPEN = 3 };

static int
judge(const posix_spawn_file_actions_t *given, int *starts_in)
{
    int refused = 0, kept = errno;
    *starts_in = AT_FDCWD;
    const struct action *at = given ? given->__actions : NULL;
    for (; at && !refused; at = at->next) {
        char link[64];
        int held;
        if (at->cmd != ACTION_OPEN)
            continue;
        if (NC_REFUSES(nc_may_open(AT_FDCWD, at->path, at->flags)))
            refused = 1;
        if (refused || !(at->flags & O_TRUNC))
            continue;
        refused = nc_may_empty(AT_FDCWD, at->path, link, sizeof link, &held);
        if (held >= 0)
            let_go(held);
    }
    errno = kept;
    return refused ? EPERM : 0;
}

/* Which descriptors of ours 1 and 2 will be; -1: neither. */
static void
redirect(const posix_spawn_file_actions_t *given, int from[2])
{
    const struct action *at = given ? given->__actions : NULL;
    while (at && at->next)
        at = at->next;
    for (; at; at = at->prev) {
        if (at->fd != 1 && at->fd != 2)
            continue;
        if (at->cmd == ACTION_DUP2)
            from[at->fd - 1] = at->srcfd == 1 || at->srcfd == 2
                                   ? from[at->srcfd - 1]
                                   : at->srcfd;
        else if (at->cmd == ACTION_OPEN)
            from[at->fd - 1] = -1;
    }
}
#endif

/* What is to be started. */
struct starting {
    struct nc_program program;
    char found[NC_PATH_MAX];
    char **words; /* room for them, then those of what is to start in its place,
                   * or NULL */
};

static int
judge_all(const posix_spawn_file_actions_t *actions, const char *path,
          char *const argv[], char *const given[], int search,
          struct starting *out)
{
    int folder;
    int refused = judge(actions, &folder);
    struct nc_start start = {
        .dirfd = folder,
        .at = folder,
        .path = path,
        .argv = argv,
        .environment = given,
        .search = search,
    };
    if (!refused) {
        out->program = nc_look_up(&start, out->found);
        if (nc_unlikely(nc_process.asks_git) && nc_may_start(&start))
            refused = EPERM;
        else
            out->words = nc_spawned(&start, &out->program, out->words);
        if (!refused && out->words)
            out->program = nc_cover_of(AT_FDCWD, out->words[0]);
    }
    if (folder >= 0)
        nc_raw_close(folder);
    return refused;
}

static size_t
count(char *const argv[])
{
    size_t many = 0;
    while (argv && nc_readable(&argv[many]) && argv[many])
        many++;
    return many;
}

/* What the program will print to, as far as its agent wants to know. */
static struct nc_outputs
outputs_of(const posix_spawn_file_actions_t *actions)
{
    struct nc_outputs found = {{0, 0}};
    if (nc_likely(!nc_process.agent))
        return found;
    int kept = errno, from[2] = {1, 2};
    redirect(actions, from);
    for (int i = 0; i < 2; i++)
        found.way[i] = from[i] >= 0 ? nc_way_of(from[i]) : 0;
    errno = kept;
    return found;
}

#define SPAWN(name, search)                                                    \
    if (!nc_process.active || (given && !nc_readable(given)))                  \
        return REAL(name)(pid, path, actions, attributes, argv, given);        \
    char *words[count(argv) + 3];                                              \
    struct starting it = {.words = words};                                     \
    int refused = judge_all(actions, path, argv, given, search, &it);          \
    if (refused)                                                               \
        return refused;                                                        \
    nc_before_spawn();                                                         \
    char *room[nc_environment_size(given)];                                    \
    char preload[NC_PRELOAD_ROOM];                                             \
    const struct nc_outputs outputs = outputs_of(actions);                     \
    char *const *environment = nc_environment_of(                              \
        given, room, preload, it.program.loader, &outputs, NULL);              \
    return REAL(name)(pid, it.words ? it.words[0] : path, actions, attributes, \
                      it.words ? it.words : argv, (char **)environment)

NC_EXPORT int
posix_spawn(pid_t *pid, const char *path,
            const posix_spawn_file_actions_t *actions,
            const posix_spawnattr_t *attributes, char *const argv[],
            char *const given[])
{
    SPAWN(posix_spawn, 0);
}

NC_EXPORT int
posix_spawnp(pid_t *pid, const char *path,
             const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const argv[],
             char *const given[])
{
    SPAWN(posix_spawnp, 1);
}

#define SHELL "/bin/sh"

/* The C library starts the shell with what `environ` is: where the program
 * has emptied that, the session's own stands there until the call returns. */
#define WITH_SESSION(type, call)                                           \
    if (!nc_process.active)                                                \
        return call;                                                       \
    char **before = environ;                                               \
    char *room[nc_environment_size(before)];                               \
    char preload[NC_PRELOAD_ROOM];                                         \
    char **ours = (char **)nc_environment(                                 \
        before, room, preload, nc_cover_of(AT_FDCWD, SHELL).loader, NULL); \
    if (ours != before)                                                    \
        environ = ours;                                                    \
    type result = call;                                                    \
    if (ours != before && environ == ours)                                 \
        environ = before;                                                  \
    return result

extern char **environ;

NC_EXPORT int
system(const char *command)
{
    nc_before_spawn();
    WITH_SESSION(int, REAL(system)(command));
}

NC_EXPORT FILE *
popen(const char *command, const char *mode)
{
    nc_before_spawn();
    WITH_SESSION(FILE *, REAL(popen)(command, mode));
}
