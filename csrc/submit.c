/* A process puts itself, and all that comes of it, under a supervisor. The
 * supervisor is nobody's child here: the program that is about to start keeps
 * its pid, its parent and its children. */
#include "submit.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define STACK 32768
#define PATIENCE 5 /* seconds for a supervisor to start */
#define MOST_NAMES 24

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

struct start {
    const struct nc_submission *submission;
    char *const *environment;
    int socket;
};

/* Shares the memory of who called, and no more: only system calls here. */
static int
start(void *given)
{
    const struct start *at = given;
    char *const words[] = {(char *)NC_SUPERVISOR, (char *)NC_SERVES, NULL};
    if (nc_raw(dup3, at->socket, NC_SOCKET, 0) >= 0 ||
        (at->socket == NC_SOCKET && !nc_raw(fcntl, NC_SOCKET, F_SETFD, 0)))
        nc_raw(execve, at->submission->supervisor, words, at->environment);
    nc_raw(exit, 127);
    return 0;
}

/* Its own descriptors and privileges, and this memory. */
static int
run_apart(const struct nc_submission *submission, int (*run)(void *),
          void *argument, int *status)
{
    char stack[STACK] __attribute__((aligned(16)));
    sigset_t all, before;
    sigfillset(&all);
    nc_raw(rt_sigprocmask, SIG_BLOCK, &all, &before, 8);
    /* no signal at its end: the program's own waiting sees nothing of it */
    int pid = submission->clone(run, stack + STACK, CLONE_VM | CLONE_VFORK,
                                argument, NULL, NULL, NULL);
    *status = 0;
    if (pid > 0)
        while (nc_raw(wait4, pid, status, __WCLONE, NULL) < 0 && errno == EINTR)
            ;
    nc_raw(rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
    return pid > 0 ? 0 : -1;
}

static int
start_supervisor(const struct nc_submission *submission, int socket)
{
    char *environment[MOST_NAMES + 1];
    int many = 0;
    for (char *const *at = submission->environment; *at; at++)
        if (many < MOST_NAMES && !strncmp(*at, "NOCLOBBER_", 10))
            environment[many++] = *at;
    environment[many] = NULL;
    struct start how = {submission, environment, socket};
    int status;
    return run_apart(submission, start, &how, &status) || status ? -1 : 0;
}

/* The supervisor's pid, or 0. */
static pid_t
hear(int socket)
{
    struct timeval limit = {.tv_sec = PATIENCE};
    nc_raw(setsockopt, socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    pid_t pid = 0;
    long got;
    do
        got = nc_raw(recvfrom, socket, &pid, sizeof pid, 0, NULL, NULL);
    while (got < 0 && errno == EINTR);
    return got == sizeof pid ? pid : 0;
}

static int
hand_over(int socket, int listener)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &listener, sizeof listener);
    return nc_raw(sendmsg, socket, &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int
install(int broad)
{
    struct sock_filter code[NC_FILTER_ROOM];
    struct sock_fprog program = {
        .len = (unsigned short)nc_filter(code, broad),
        .filter = code,
    };
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER |
                          SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    int listener =
        (int)nc_raw(seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    /* privileges stay with whoever may have a filter and keep them */
    if (listener < 0 && errno == EACCES &&
        !nc_raw(prctl, PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L))
        listener =
            (int)nc_raw(seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return listener;
}

static int
try_it(void *given)
{
    (void)given;
    int listener = install(1);
    nc_raw(exit, listener >= 0 || errno != EBUSY ? 0 : 1);
    return 0;
}

/* Privileges would be gone before it is known whether there is a supervisor
 * already: where there may be one, somebody else finds out. */
static int
is_taken(const struct nc_submission *submission)
{
    if (nc_raw(prctl, PR_GET_SECCOMP, 0L, 0L, 0L, 0L) != SECCOMP_MODE_FILTER)
        return 0;
    int status;
    return run_apart(submission, try_it, NULL, &status) || status;
}

static enum nc_submitted
submit(const struct nc_submission *submission)
{
    int ends[2];
    if (is_taken(submission))
        return NC_TAKEN;
    if (nc_raw(socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return errno == EMFILE || errno == ENFILE ? NC_NO_SUPERVISOR
                                                  : NC_FORBIDDEN;
    int failed = start_supervisor(submission, ends[1]);
    nc_raw_close(ends[1]);
    pid_t supervisor = failed ? 0 : hear(ends[0]);
    enum nc_submitted result = NC_NO_SUPERVISOR;
    if (supervisor) {
        int listener = install(submission->broad);
        if (listener >= 0) {
            /* where ancestors alone may look into a process (Yama) */
            nc_raw(prctl, PR_SET_PTRACER, (long)supervisor, 0L, 0L, 0L);
            /* who cannot be told hears of it: the listener's last end goes */
            (void)hand_over(ends[0], listener);
            nc_raw_close(listener);
            result = NC_SUBMITTED;
        } else {
            result = errno == EBUSY    ? NC_TAKEN
                     : errno == EINVAL ? NC_NO_KERNEL
                                       : NC_FORBIDDEN;
        }
    }
    nc_raw_close(ends[0]);
    return result;
}

enum nc_submitted
nc_submit(const struct nc_submission *submission)
{
    int kept = errno;
    enum nc_submitted result = submit(submission);
    errno = kept;
    return result;
}

const char *
nc_submit_trouble(enum nc_submitted how)
{
    switch (how) {
    case NC_TAKEN:
        return "another supervisor has this process already";
    case NC_FORBIDDEN:
        return "a sandbox forbids it";
    case NC_NO_KERNEL:
        return "it needs Linux 5.19";
    default:
        return "it could not be started";
    }
}
