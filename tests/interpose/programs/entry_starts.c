/* Ways to start a program: it is this session's, whatever environment it was
 * given. What is started is this program, told to replace the file. */
#include <sched.h>
#include <signal.h>
#include <spawn.h>

#include "entry.h"

#define STARTS_BY(name)                       \
    static long name(const char *t, long upto)
#define WORDS(t) {(char *)self, "replace", (char *)t, NULL}

NAMED(pid_t, named_fork, fork, (void));
NAMED(int, inner_clone, __clone, (int (*)(void *), void *, int, void *, ...));
NAMED(pid_t, posix_fork, _Fork, (void));

static char *nothing[] = {NULL};
extern char **environ;

/* 0, or the errno that the replacing ended with. */
static long
outcome(pid_t child)
{
    long status = ended(child);
    errno = status > 0 ? (int)status : 0;
    return status > 0 ? -1 : status;
}

static long
replaced(const char *t)
{
    struct stat st;
    if (stat(t, &st) || got_file(t, st.st_size / 2) < 0)
        return 99;
    return plain_open(t, O_WRONLY | O_TRUNC) < 0 ? errno : 0;
}

#define IN_CHILD(fork_function, action)  \
    pid_t child = fork_function();       \
    (void)upto;                          \
    if (!child) {                        \
        action;                          \
        _exit(97);                       \
    }                                    \
    return outcome(child)

STARTS_BY(s_fork) { IN_CHILD(named_fork, _exit((int)replaced(t))); }
STARTS_BY(s__fork) { IN_CHILD(posix_fork, _exit((int)replaced(t))); }

STARTS_BY(s_vfork)
{
    char *words[] = WORDS(t);
    IN_CHILD(vfork, execve(self, words, nothing));
}

/* The child replaces while it still lives in its parent's memory. */
STARTS_BY(s_vfork_itself)
{
    struct stat st;
    if (stat(t, &st) || got_file(t, st.st_size / 2) < 0)
        return 99;
    IN_CHILD(vfork, _exit(plain_open(t, O_WRONLY | O_TRUNC) < 0 ? errno : 0));
}

static char stack[65536] __attribute__((aligned(16)));

static int
cloned(void *path)
{
    _exit((int)replaced(path));
}

static int
cloned_and_started(void *path)
{
    char *words[] = WORDS(path);
    execve(self, words, nothing);
    _exit(97);
}

STARTS_BY(s_clone)
{
    (void)upto;
    return outcome(clone(cloned, stack + sizeof stack, SIGCHLD, (void *)t));
}

STARTS_BY(s_inner_clone)
{
    (void)upto;
    return outcome(inner_clone(cloned, stack + sizeof stack, SIGCHLD, (void *)t));
}

STARTS_BY(s_clone_shared)
{
    (void)upto;
    return outcome(clone(cloned_and_started, stack + sizeof stack,
                         CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)t));
}

STARTS_BY(s_execve)
{
    char *words[] = WORDS(t);
    IN_CHILD(fork, execve(self, words, nothing));
}

STARTS_BY(s_execve_none)
{
    char *words[] = WORDS(t);
    char **none = NULL; /* Linux takes that for an empty one */
    IN_CHILD(fork, execve(self, words, none));
}

STARTS_BY(s_execv)
{
    char *words[] = WORDS(t);
    IN_CHILD(fork, clearenv(); execv(self, words));
}

STARTS_BY(s_execvp)
{
    char *words[] = WORDS(t);
    IN_CHILD(fork, environ = NULL; execvp(self, words));
}

STARTS_BY(s_execvpe)
{
    char *words[] = WORDS(t);
    IN_CHILD(fork, execvpe(self, words, nothing));
}

STARTS_BY(s_execl)
{
    IN_CHILD(fork, clearenv();
             execl(self, self, "replace", t, (char *)NULL));
}

STARTS_BY(s_execlp)
{
    IN_CHILD(fork, unsetenv("LD_PRELOAD");
             execlp(self, self, "replace", t, (char *)NULL));
}

STARTS_BY(s_execle)
{
    IN_CHILD(fork, execle(self, self, "replace", t, (char *)NULL, nothing));
}

STARTS_BY(s_fexecve)
{
    char *words[] = WORDS(t);
    int fd = plain_open(self, O_RDONLY | O_CLOEXEC);
    IN_CHILD(fork, fexecve(fd, words, nothing));
}

STARTS_BY(s_execveat)
{
    char *words[] = WORDS(t);
    int fd = plain_open(self, O_PATH);
    IN_CHILD(fork, execveat(fd, "", words, nothing, AT_EMPTY_PATH));
}

STARTS_BY(s_number)
{
    char *words[] = WORDS(t);
    IN_CHILD(fork, syscall(SYS_execve, self, words, nothing));
}

static long
spawned(const char *t, int (*spawn)(pid_t *, const char *,
                                    const posix_spawn_file_actions_t *,
                                    const posix_spawnattr_t *, char *const *,
                                    char *const *))
{
    char *words[] = WORDS(t);
    pid_t child;
    int failed = spawn(&child, self, NULL, NULL, words, nothing);
    return failed ? -failed : outcome(child);
}

STARTS_BY(s_spawn) { (void)upto; return spawned(t, posix_spawn); }
STARTS_BY(s_spawnp) { (void)upto; return spawned(t, posix_spawnp); }

/* The file action itself is the replacement. */
STARTS_BY(s_action)
{
    struct stat st;
    pid_t child = 0;
    char *words[] = {"true", NULL};
    posix_spawn_file_actions_t actions;
    (void)upto;
    if (stat(t, &st) || got_file(t, st.st_size / 2) < 0)
        return 99;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, t, O_WRONLY | O_TRUNC, 0);
    int failed = posix_spawnp(&child, "true", &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    errno = failed;
    return failed ? -1 : outcome(child);
}

static const char *
command(const char *t)
{
    static char text[1024];
    snprintf(text, sizeof text, "exec '%s' replace '%s'", self, t);
    return text;
}

STARTS_BY(s_system)
{
    (void)upto;
    clearenv();
    int status = system(command(t));
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return status ? -1 : 0;
}

STARTS_BY(s_popen)
{
    (void)upto;
    clearenv();
    FILE *pipe = popen(command(t), "r");
    if (!pipe || fgetc(pipe) != EOF)
        return 96;
    int status = pclose(pipe);
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return status ? -1 : 0;
}

const struct entry starts[] = {
    {"fork", s_fork, STARTS},
    {"_Fork", s__fork, STARTS},
    {"vfork", s_vfork, STARTS},
    {"vfork:itself", s_vfork_itself, STARTS},
    {"clone", s_clone, STARTS},
    {"__clone", s_inner_clone, STARTS},
    {"clone:shared", s_clone_shared, STARTS},
    {"execve", s_execve, STARTS},
    {"execve:none", s_execve_none, STARTS},
    {"execv", s_execv, STARTS},
    {"execvp", s_execvp, STARTS},
    {"execvpe", s_execvpe, STARTS},
    {"execl", s_execl, STARTS},
    {"execlp", s_execlp, STARTS},
    {"execle", s_execle, STARTS},
    {"fexecve", s_fexecve, STARTS},
    {"execveat", s_execveat, STARTS},
    {"syscall:execve", s_number, STARTS},
    {"posix_spawn", s_spawn, STARTS},
    {"posix_spawnp", s_spawnp, STARTS},
    {"posix_spawnp:action", s_action, STARTS},
    {"system", s_system, STARTS},
    {"popen", s_popen, STARTS},
    {NULL, NULL, STARTS},
};
