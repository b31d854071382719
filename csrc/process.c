/* Processes: forked, started anew, ended. */
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#include "shim.h"

/* ---- forking ------------------------------------------------------- */

/* From now on others may share what is open, and may carry on what this
 * process knows: it is said before they can ask. */
void
nc_before_spawn(void)
{
    if (!nc_process.active || nc_is_guest())
        return;
    __atomic_add_fetch(&nc_process.epoch, 1, __ATOMIC_RELAXED);
    if (nc_has_news())
        nc_settle(NC_AT_SPAWN);
}

/* What nearly every child calls before it is another program is found here,
 * once: each child would search anew, and wait for ever where another thread
 * held the loader's lock as it forked. */
static void
find_for_child(void)
{
    (void)REAL(dup2);
    (void)REAL(close);
    (void)REAL(execve);
    (void)REAL(execvpe);
    (void)REAL(_exit);
}

#define FORK(name)                           \
    if (!nc_process.active || nc_is_guest()) \
        return REAL(name)();                 \
    find_for_child();                        \
    nc_before_spawn();                       \
    int entered = nc_client_before_fork();   \
    pid_t pid = REAL(name)();                \
    int kept = errno;                        \
    nc_client_after_fork(pid == 0, entered); \
    errno = kept;                            \
    return pid

NC_EXPORT pid_t
fork(void)
{
    FORK(fork);
}

NC_EXPORT pid_t
_Fork(void)
{
    FORK(_Fork);
}

/* A vfork child runs the hooks in its parent's memory; while one may be
 * there, every hook that changes state asks who it is. */
static void
expect_guest(int ends_with_caller)
{
    if (!nc_process.active || nc_is_guest())
        return;
    nc_before_spawn();
    nc_token();
    pid_t caller = ends_with_caller ? nc_raw_gettid() : 0;
    if (nc_process.detached && nc_process.caller != caller)
        caller = 0; /* two at a time: ask for good */
    nc_process.pid = nc_raw_getpid();
    nc_process.caller = caller;
    __atomic_store_n(&nc_process.detached, 1, __ATOMIC_RELEASE);
}

__attribute__((visibility("hidden"))) void *nc_before_vfork(void);

void *
nc_before_vfork(void)
{
    expect_guest(1);
    return (void *)REAL(vfork);
}

/* vfork returns twice on one stack frame: no C function may stand between. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    endbr64\n"
        "    subq $8, %rsp\n"
        "    call nc_before_vfork\n"
        "    addq $8, %rsp\n"
        "    jmp *%rax\n"
        ".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n"
        "    stp x29, x30, [sp, -16]!\n"
        "    bl nc_before_vfork\n"
        "    mov x16, x0\n"
        "    ldp x29, x30, [sp], 16\n"
        "    br x16\n"
        ".size vfork, . - vfork\n");
#endif

NC_EXPORT int
clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
    va_list list;
    va_start(list, argument);
    void *parent = va_arg(list, void *);
    void *tls = va_arg(list, void *);
    void *child = va_arg(list, void *);
    va_end(list);
    if ((flags & CLONE_VM) && !(flags & CLONE_THREAD))
        expect_guest((flags & CLONE_VFORK) != 0);
    return REAL(clone)(run, stack, flags, argument, parent, tls, child);
}

NC_ALSO(int, __clone, (int (*)(void *), void *, int, void *, ...), clone);

/* ---- another program ----------------------------------------------- */

void
nc_before_exec(void)
{
    if (nc_process.active && !nc_is_guest())
        nc_settle(NC_AT_EXEC);
}

/* `environment` is the one to use inside `call`; then where the program is. */
#define EXEC(given, call, ...)                                               \
    if (!nc_process.active || (given && !nc_readable(given))) {              \
        char *const *environment = given;                                    \
        return call;                                                         \
    }                                                                        \
    struct nc_start start = {                                                \
        .dirfd = AT_FDCWD, .argv = argv, .environment = given, __VA_ARGS__}; \
    char found[NC_PATH_MAX];                                                 \
    const struct nc_program program = nc_look_up(&start, found);             \
    if (nc_unlikely(nc_process.asks_git) && nc_may_start(&start))            \
        return -1;                                                           \
    char *room[nc_environment_size(given)];                                  \
    char preload[NC_PRELOAD_ROOM];                                           \
    nc_before_exec();                                                        \
    const char *also = nc_supervised(&start, &program);                      \
    char *const *environment =                                               \
        nc_environment(given, room, preload, program.loader, also);          \
    return call

extern char **environ;

NC_EXPORT int
execve(const char *path, char *const argv[], char *const given[])
{
    EXEC(given, REAL(execve)(path, argv, environment), .at = AT_FDCWD,
         .path = path);
}

NC_EXPORT int
execv(const char *path, char *const argv[])
{
    EXEC(environ, REAL(execve)(path, argv, environment), .at = AT_FDCWD,
         .path = path);
}

NC_EXPORT int
execvp(const char *file, char *const argv[])
{
    EXEC(environ, REAL(execvpe)(file, argv, environment), .at = AT_FDCWD,
         .path = file, .search = 1);
}

NC_EXPORT int
execvpe(const char *file, char *const argv[], char *const given[])
{
    EXEC(given, REAL(execvpe)(file, argv, environment), .at = AT_FDCWD,
         .path = file, .search = 1);
}

NC_EXPORT int
fexecve(int fd, char *const argv[], char *const given[])
{
    EXEC(given, REAL(fexecve)(fd, argv, environment), .at = fd, .path = "",
         .may_be_empty = 1);
}

NC_EXPORT int
execveat(int dirfd, const char *path, char *const argv[], char *const given[],
         int flags)
{
    EXEC(given, REAL(execveat)(dirfd, path, argv, environment, flags),
         .at = dirfd, .path = path, .may_be_empty = flags & AT_EMPTY_PATH);
}

/* The arguments of execl and its kin as an array on the stack. */
#define ARGUMENTS(first)                           \
    va_list list;                                  \
    size_t many = 1;                               \
    va_start(list, first);                         \
    while (many < 1048576 && va_arg(list, char *)) \
        many++;                                    \
    va_end(list);                                  \
    char *argv[many + 1];                          \
    va_start(list, first);                         \
    argv[0] = (char *)first;                       \
    for (size_t i = 1; i <= many; i++)             \
        argv[i] = va_arg(list, char *);

NC_EXPORT int
execl(const char *path, const char *first, ...)
{
    ARGUMENTS(first)
    va_end(list);
    return execv(path, argv);
}

NC_EXPORT int
execlp(const char *file, const char *first, ...)
{
    ARGUMENTS(first)
    va_end(list);
    return execvp(file, argv);
}

NC_EXPORT int
execle(const char *path, const char *first, ...)
{
    ARGUMENTS(first)
    char *const *given = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, given);
}

/* ---- the end ------------------------------------------------------- */

static void
before_exit(void)
{
    if (nc_process.active && !nc_is_guest())
        nc_settle(NC_AT_EXIT);
}

NC_EXPORT void
_exit(int status)
{
    before_exit();
    REAL(_exit)(status);
    __builtin_unreachable();
}

NC_EXPORT void
_Exit(int status)
{
    before_exit();
    REAL(_Exit)(status);
    __builtin_unreachable();
}

NC_EXPORT void
quick_exit(int status)
{
    before_exit();
    REAL(quick_exit)(status);
    __builtin_unreachable();
}

/* ---- sandboxes ----------------------------------------------------- */

/* A program with a filter of its own is killed for a system call that it did
 * not ask for. */
NC_EXPORT int
prctl(int option, ...)
{
    unsigned long v[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        v[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_SECCOMP && nc_process.active && !nc_is_guest()) {
        nc_lifeline_open();
        nc_silence();
    }
    return REAL(prctl)(option, v[0], v[1], v[2], v[3]);
}

NC_EXPORT int
unshare(int flags)
{
    if (nc_process.active)
        nc_lifeline_open();
    int result = REAL(unshare)(flags);
    if (!result)
        nc_cwd_changed();
    return result;
}

NC_EXPORT int
setns(int fd, int kind)
{
    if (nc_process.active)
        nc_lifeline_open();
    int result = REAL(setns)(fd, kind);
    if (!result)
        nc_cwd_changed();
    return result;
}
