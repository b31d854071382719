/* Whose command is this? Two agents in one tree must not share a ledger, and
 * all commands of one agent must: where nobody names the session, the process
 * that started the shell that started us does. */
#include "launch.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Programs that stand between a harness and its command and are neither. */
static const char *const between[] = {
    "ash",     "bash",   "busybox",  "csh",     "dash",     "elvish",
    "fish",    "ksh",    "ksh93",    "mksh",    "nu",       "oksh",
    "pwsh",    "rbash",  "sh",       "tcsh",    "xonsh",    "yash",
    "zsh",     "bwrap",  "chroot",   "chrt",    "doas",     "dumb-init",
    "env",     "find",   "firejail", "flock",   "ionice",   "ltrace",
    "nice",    "nohup",  "nsenter",  "prlimit", "runuser",  "script",
    "setpriv", "setsid", "stdbuf",   "strace",  "su",       "sudo",
    "taskset", "time",   "timeout",  "tini",    "unbuffer", "unshare",
    "xargs",
};

struct ancestor {
    pid_t pid;
    pid_t parent;
    char name[64];            /* as it calls itself */
    char exe[64];             /* its program's; "" where unknown */
    unsigned long long start; /* in ticks since boot */
};

static uint64_t
hash(uint64_t seed, const char *text, size_t size)
{
    /* FNV-1a, 64 bits: names, nothing secret. */
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ (unsigned char)text[i]) * 0x100000001b3u;
    return seed;
}

#define HASH_SEED 0xcbf29ce484222325u

static size_t
read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[got > 0 ? got : 0] = 0;
    return got > 0 ? (size_t)got : 0;
}

/* Fill `out` from /proc. Returns false where there is none. */
static bool
look_up(pid_t pid, struct ancestor *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if (!read_file(path, text, sizeof text))
        return false;
    /* "PID (NAME) S PPID ...": a name may hold blanks and parentheses. */
    char *open_name = strchr(text, '(');
    char *close_name = strrchr(text, ')');
    if (!open_name || !close_name || close_name < open_name)
        return false;
    long parent;
    if (sscanf(close_name + 1,
               " %*c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %*s %llu",
               &parent, &out->start) != 2)
        return false;
    *close_name = 0;
    out->pid = pid;
    out->parent = (pid_t)parent;
    snprintf(out->name, sizeof out->name, "%s", open_name + 1);

    snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    char exe[PATH_MAX];
    ssize_t size = readlink(path, exe, sizeof exe - 1);
    exe[size > 0 ? size : 0] = 0;
    /* A program that was replaced by an update is the same process still. */
    char *gone = strstr(exe, " (deleted)");
    if (gone)
        *gone = 0;
    const char *slash = strrchr(exe, '/');
    snprintf(out->exe, sizeof out->exe, "%.*s", (int)sizeof out->exe - 1,
             slash ? slash + 1 : "");
    return true;
}

static bool
is_between(const struct ancestor *process)
{
    if (!strncmp(process->name, "noclobber", 9) ||
        !strncmp(process->exe, "noclobber", 9))
        return true;
    for (size_t i = 0; i < sizeof between / sizeof *between; i++)
        if (!strcmp(process->name, between[i]) ||
            !strcmp(process->exe, between[i]))
            return true;
    return false;
}

/* The nearest ancestor that is neither a shell nor ours, else the last one. */
static struct ancestor
harness(void)
{
    struct ancestor found = {.pid = getppid(), .name = "harness"};
    struct ancestor next;
    for (pid_t pid = getppid(); pid > 0 && look_up(pid, &next);
         pid = next.parent) {
        found = next;
        if (!is_between(&found))
            break;
    }
    return found;
}

/* NAME-PID-START-ROOT. A name that the process gave itself may change while
 * it runs, its program's does not; a pid comes again, and after a reboot so
 * may the time since boot. */
static void
default_session(struct nc_launch *launch)
{
    struct ancestor owner = harness();
    char boot[64];
    size_t size =
        read_file("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    uint64_t start = hash(HASH_SEED, boot, size);
    start = hash(start, (const char *)&owner.start, sizeof owner.start);
    uint64_t root = HASH_SEED;
    for (size_t i = 0; i < launch->root_count; i++)
        root = hash(root, launch->roots[i], strlen(launch->roots[i]) + 1);
    char *name = owner.exe[0] ? owner.exe : owner.name;
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._", *c))
            *c = '_';
    snprintf(launch->session, sizeof launch->session, "%.32s-%ld-%08x-%08x",
             name, (long)owner.pid, (unsigned)(start ^ start >> 32),
             (unsigned)(root ^ root >> 32));
}

void
nc_add_root(struct nc_launch *launch, const char *directory)
{
    char *real = realpath(directory, NULL);
    struct stat status;
    if (!real || stat(real, &status) < 0)
        nc_quit(NC_EXIT_FAILED, "--root %s: %s", directory, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        nc_quit(NC_EXIT_FAILED, "--root %s: %s", directory, strerror(ENOTDIR));
    for (size_t i = 0; i < launch->root_count; i++)
        if (!strcmp(launch->roots[i], real)) {
            free(real);
            return;
        }
    char **roots =
        realloc(launch->roots, (launch->root_count + 1) * sizeof *roots);
    if (!roots)
        nc_quit(NC_EXIT_FAILED, "%s", strerror(errno));
    roots[launch->root_count++] = real;
    launch->roots = roots;
}

/* Cut `path` to the nearest directory that holds a `.git`, a directory or (in
 * a worktree or submodule) a file. Looked for by `..`, for the working
 * directory's own path may be longer than a path may be. */
static void
cut_to_git_top(char *path)
{
    char probe[PATH_MAX] = "";
    size_t up = 0;
    for (char *end = path + strlen(path);;) {
        struct stat status;
        memcpy(probe + up, ".git", 5);
        if (lstat(probe, &status) == 0) {
            end[end == path] = 0;
            return;
        }
        if (end == path || (end == path + 1 && !*end) ||
            up + sizeof "../.git" > sizeof probe)
            return;
        memcpy(probe + up, "../", 3);
        up += 3;
        do
            end--;
        while (end > path && *end != '/');
    }
}

void
nc_find_roots(struct nc_launch *launch)
{
    launch->cwd = getcwd(NULL, 0);
    /* A deleted or unreachable directory has no path, and nothing to root. */
    if (!launch->cwd || launch->cwd[0] != '/') {
        free(launch->cwd);
        launch->cwd = nc_alloc(1);
    }
    if (launch->root_count || !launch->cwd[0])
        return;
    launch->roots = nc_alloc(sizeof *launch->roots);
    launch->roots[0] = strdup(launch->cwd);
    if (!launch->roots[0])
        nc_quit(NC_EXIT_FAILED, "%s", strerror(errno));
    launch->root_count = 1;
    cut_to_git_top(launch->roots[0]);
}

/* KIND-TIME-PID-RANDOM. The kind tells a launcher inside of this command
 * whether what it prints is carried already: `cmd` is, `raw` and `agent` are
 * not. */
static void
name_command(struct nc_launch *launch)
{
    const char *kind = launch->agent ? "agent" : launch->pumped ? "cmd" : "raw";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint32_t noise = 0;
    if (getentropy(&noise, sizeof noise) < 0)
        noise = (uint32_t)getppid();
    snprintf(launch->command, sizeof launch->command, "%s-%llx-%ld-%08x", kind,
             (unsigned long long)now.tv_sec * 1000000000u +
                 (unsigned long long)now.tv_nsec,
             (long)getpid(), (unsigned)noise);
}

void
nc_find_session(struct nc_launch *launch, const char *given)
{
    const char *inherited = getenv("NOCLOBBER_SESSION");
    if (inherited && !*inherited)
        inherited = NULL;
    const char *session = given ? given : inherited;
    if (session && (!*session || strlen(session) > NC_ID_MAX))
        nc_quit(NC_EXIT_FAILED, "a session's name has 1 to %d bytes",
                NC_ID_MAX);

    const char *command = getenv("NOCLOBBER_COMMAND");
    bool inside = inherited && command && *command &&
                  strlen(command) <= NC_ID_MAX && !strcmp(session, inherited);
    if (inside && !launch->root_count) {
        const char *roots = getenv("NOCLOBBER_ROOTS");
        if (roots && *roots)
            launch->roots = nc_split_list(roots, &launch->root_count);
    }
    /* A command of a read-only session starts none that may write. */
    const char *tier = getenv("NOCLOBBER_TIER");
    if (inherited && tier && !strcmp(tier, "read-only"))
        launch->tier = NC_READ_ONLY;
    launch->is_dirty = inherited && getenv("NOCLOBBER_DIRTY");
    nc_find_roots(launch);
    if (session)
        snprintf(launch->session, sizeof launch->session, "%s", session);
    else
        default_session(launch);

    /* What a command inside of a command prints reaches the agent only as far
     * as the outer one lets it through: it is no command of its own. */
    if (inside && !strncmp(command, "agent-", 6) && strchr(command, '.'))
        snprintf(launch->outer, sizeof launch->outer, "%s", command);
    launch->nested = inside && !strncmp(command, "cmd-", 4);
    if (launch->nested) {
        launch->pumped = false;
        snprintf(launch->command, sizeof launch->command, "%s", command);
    } else {
        name_command(launch);
    }
}
