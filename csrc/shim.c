/* The preloaded library's own life: what it is told at the start, how it finds
 * the functions that it stands before, and what it says at the end. */
#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct nc_process nc_process;
void *nc_found[NC_HOOKS];

static const char *const names[NC_HOOKS] = {
#define HOOK(type, name, params) [NC_HOOK_##name] = #name,
#define OMIT(name, reason)
#include "hooks.def"
#undef HOOK
#undef OMIT
};

/* ---- finding the real functions ------------------------------------ */

static __thread int finding __attribute__((tls_model("initial-exec")));

/* dlsym may allocate, and an allocator may open files before it is ready:
 * inside dlsym these system calls stand in for the functions. */
static int
boot_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (mode_t)va_arg(list, unsigned);
    va_end(list);
    return nc_raw_open(AT_FDCWD, path, flags, mode);
}

static int
boot_openat(int dirfd, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (mode_t)va_arg(list, unsigned);
    va_end(list);
    return nc_raw_open(dirfd, path, flags, mode);
}

static ssize_t
boot_read(int fd, void *out, size_t size)
{
    return nc_raw(read, fd, out, size);
}

static ssize_t
boot_write(int fd, const void *bytes, size_t size)
{
    return nc_raw(write, fd, bytes, size);
}

/* Newer C libraries have functions of these: a program that was built for one
 * and asks whether this one has them, too, finds ours. */
#define BOOT(name, params, ...)                \
    static int boot_##name params              \
    {                                          \
        return (int)nc_raw(name, __VA_ARGS__); \
    }

BOOT(renameat2,
     (int from_dir, const char *from, int to_dir, const char *to,
      unsigned flags),
     from_dir, from, to_dir, to, flags)
BOOT(close_range, (unsigned first, unsigned last, int flags), first, last,
     flags)
BOOT(execveat,
     (int dirfd, const char *path, char *const argv[],
      char *const environment[], int flags),
     dirfd, path, argv, environment, flags)

static ssize_t
boot_preadv2(int fd, const struct iovec *parts, int many, off_t offset,
             int flags)
{
    return nc_raw(preadv2, fd, parts, (long)many, offset, 0L, (long)flags);
}

static long
boot_unavailable(void)
{
    errno = ENOSYS;
    return -1;
}

static void *
boot_function(enum nc_hook hook)
{
    switch (hook) {
    case NC_HOOK_open:
    case NC_HOOK_open64:
        return (void *)boot_open;
    case NC_HOOK_openat:
    case NC_HOOK_openat64:
        return (void *)boot_openat;
    case NC_HOOK_read:
        return (void *)boot_read;
    case NC_HOOK_write:
        return (void *)boot_write;
    case NC_HOOK_close:
        return (void *)nc_raw_close;
    case NC_HOOK_mmap:
    case NC_HOOK_mmap64:
        return (void *)nc_raw_mmap;
    case NC_HOOK_munmap:
        return (void *)nc_raw_munmap;
    case NC_HOOK_lseek:
    case NC_HOOK_lseek64:
        return (void *)nc_raw_lseek;
    case NC_HOOK_fstat:
    case NC_HOOK_fstat64:
        return (void *)nc_stat;
    case NC_HOOK_syscall:
        return (void *)nc_raw_syscall;
    case NC_HOOK_renameat2:
        return (void *)boot_renameat2;
    case NC_HOOK_close_range:
        return (void *)boot_close_range;
    case NC_HOOK_execveat:
        return (void *)boot_execveat;
    case NC_HOOK_preadv2:
    case NC_HOOK_preadv64v2:
        return (void *)boot_preadv2;
    default:
        return (void *)boot_unavailable;
    }
}

void *
nc_find(enum nc_hook hook)
{
    if (finding)
        return boot_function(hook);
    int kept = errno;
    finding = 1;
    void *found = dlsym(RTLD_NEXT, names[hook]);
    finding = 0;
    errno = kept;
    if (!found) /* a name that this C library does not have */
        return boot_function(hook);
    __atomic_store_n(&nc_found[hook], found, __ATOMIC_RELAXED);
    return found;
}

/* ---- who we are ---------------------------------------------------- */

/* Mixes bits so that near inputs give far outputs (a step of splitmix64). */
static uint64_t
mix(uint64_t seed)
{
    seed += 0x9e3779b97f4a7c15U;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9U;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebU;
    return seed ^ (seed >> 31);
}

uint64_t
nc_token(void)
{
    if (!nc_process.token) {
        uint64_t seed[2] = {0, 0};
        const void *random = (const void *)getauxval(AT_RANDOM);
        if (random)
            memcpy(seed, random, sizeof seed);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        uint64_t token = mix(seed[0] ^ mix((uint64_t)nc_raw_getpid()) ^
                             mix(seed[1] + (uint64_t)now.tv_nsec));
        nc_process.token = token ? token : 1;
    }
    return nc_process.token;
}

int
nc_detached_child(void)
{
    if (nc_raw_getpid() != nc_process.pid)
        return 1;
    /* the thread that called vfork runs again only when its child is gone */
    if (nc_process.caller && nc_raw_gettid() == nc_process.caller)
        nc_process.detached = 0;
    return 0;
}

/* ---- the end ------------------------------------------------------- */

static void
tell_all(uint32_t kind, enum nc_moment moment)
{
    int last = nc_fd_last();
    for (int fd = 0; fd <= last; fd++) {
        struct nc_description *of = nc_fd_get(fd);
        if (of != NC_UNKNOWN && of != NC_NOTHING && of->kind == kind)
            nc_tell(fd, of, moment);
    }
}

void
nc_tell_files(void)
{
    tell_all(NC_FILE, NC_AT_QUESTION);
}

void
nc_settle(enum nc_moment moment)
{
    int kept = errno;
    if (nc_unlikely(nc_holds) && moment >= NC_AT_EXEC)
        nc_held_settle(moment);
    nc_maps_settle(moment);
    tell_all(NC_FILE, moment);
    tell_all(NC_CHANNEL, moment);
    if (moment != NC_AT_QUESTION)
        nc_flush();
    errno = kept;
}

void
nc_silence(void)
{
    if (!nc_process.active)
        return;
    nc_settle(NC_AT_EXIT);
    nc_process.active = nc_process.read_only = nc_process.asks_git = 0;
    nc_process.supervises = 0;
}

/* ---- the start ----------------------------------------------------- */

static int
is_shell(const char *name)
{
    static const char *const shells[] = {"bash", "sh",   "dash", "zsh",
                                         "ksh",  "mksh", "ash",  "fish"};
    if (!name)
        return 0;
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    if (*base == '-')
        base++;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(base, shells[i]))
            return 1;
    return 0;
}

/* A shell with neither -c nor a script takes its orders from stdin. */
static int
obeys_stdin(void)
{
    for (int i = 1; i < nc_process.arguments; i++) {
        const char *at = nc_process.argv[i];
        if (*at != '-' && *at != '+')
            return 0;
        if (*at == '-' && at[1] != '-' && strchr(at, 'c'))
            return 0;
        if (*at == '-' && at[1] != '-' && strchr(at, 's'))
            return 1;
    }
    return 1;
}

static void
read_pump(const char *inodes)
{
    for (int i = 0; inodes && *inodes && i < 2; i++) {
        char *end;
        nc_process.pump[i] = strtoull(inodes, &end, 10);
        inodes = *end == ',' ? end + 1 : end;
    }
}

static void
start(int arguments, char **argv, char **environment)
{
    int kept = errno;
    nc_environment_start(environment);
    if (!nc_environment_get("NOCLOBBER_SESSION") ||
        !nc_environment_get("NOCLOBBER_SOCKET"))
        return;
    nc_process.arguments = arguments;
    nc_process.argv = argv;
    if (arguments > 0) {
        nc_process.words = argv[0];
        nc_process.words_end = strchr(argv[arguments - 1], 0) + 1;
    }
    nc_process.is_shell = arguments > 0 && is_shell(argv[0]);
    nc_process.stdin_is_script = nc_process.is_shell && obeys_stdin();
    const char *fail = nc_environment_get("NOCLOBBER_FAIL");
    nc_process.fail_open = fail && !strcmp(fail, "open");
    const char *tier = nc_environment_get("NOCLOBBER_TIER");
    nc_process.read_only = tier && !strcmp(tier, "read-only");
    nc_process.asks_git =
        nc_process.read_only || nc_environment_get("NOCLOBBER_DIRTY") != NULL;
    nc_hello_start(nc_environment_get("NOCLOBBER_SESSION"),
                   nc_environment_get("NOCLOBBER_COMMAND"));
    nc_connect_start(nc_environment_get("NOCLOBBER_SOCKET"),
                     nc_environment_get("NOCLOBBER_LIFELINE"));
    read_pump(nc_environment_get("NOCLOBBER_PUMP"));
    nc_area_start(nc_environment_get("NOCLOBBER_ROOTS"),
                  nc_environment_get("NOCLOBBER_SKIP"));
    nc_process.active = 1;
    if (nc_environment_get("NOCLOBBER_SUPERVISED"))
        nc_presence_start();
    else
        nc_process.supervises = nc_environment_get("NOCLOBBER_SUPERVISE") != 0;
    nc_note_inherited();
    if (nc_unlikely(nc_environment_get("NOCLOBBER_AGENT") != NULL))
        nc_agent_start();
    errno = kept;
}

/* Who starts a program without a hook of ours on the way may hand on the name
 * of the wrong library: in another C library's process it stands by. */
const char *gnu_get_libc_version(void) __attribute__((weak));

#ifdef __GLIBC__
__attribute__((constructor)) static void
begin(int arguments, char **argv, char **environment)
{
    if (gnu_get_libc_version)
        start(arguments, argv, environment);
}
#else
/* musl gives a constructor nothing. What main gets lies together on the first
 * stack, below the random bytes: how many words, the words, the environment. */
#define FIRST_STACK (8 << 20) /* bytes; the kernel lets words have 6 MiB */

__attribute__((constructor)) static void
begin(void)
{
    extern char **environ;
    if (gnu_get_libc_version)
        return;
    char **argv = environ - 1;
    int arguments = 0;
    /* else another constructor has moved it */
    if ((uintptr_t)getauxval(AT_RANDOM) - (uintptr_t)environ < FIRST_STACK)
        while ((intptr_t)argv[-1] != arguments) {
            argv--;
            arguments++;
        }
    start(arguments, argv, environ);
}
#endif

__attribute__((destructor)) static void
end(void)
{
    if (!nc_process.active || nc_is_guest())
        return;
    nc_streams_flush(); /* stdio itself does so only after this */
    nc_settle(NC_AT_EXIT);
}
