/* The process that the harness started and waits for. It stands in for the
 * command: what is sent to it reaches the command, as the command stops it
 * stops, as the command ends it ends, once all that the command printed has
 * been forwarded. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A signal that reached us. */
struct event {
    int number;
    int code;
    pid_t sender;
    int value;
};

static int events[2] = {-1, -1};

struct follower {
    struct nc_pump *pump;
    int control;
    bool terminal;
    pid_t command; /* 0: it has ended, or hangs below the pump */
    pid_t pump_pid;
    struct nc_witness witness;
    bool ignored[NSIG];
    bool finished; /* nothing is left but to wait for the pump */
    bool drained;  /* nor that: it is leaving */
    int status;    /* the command's wait status */
    bool known;    /* and it is known */
    char unread[4096];
    size_t unread_size;
};

static void
on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    int error = errno;
    struct event event = {.number = number,
                          .code = info->si_code,
                          .sender = info->si_pid,
                          .value = info->si_value.sival_int};
    if (write(events[1], &event, sizeof event) < 0)
        errno = error;
    errno = error;
}

static void
catch_signal(int number, struct sigaction *old)
{
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(number, &action, old);
}

static void
catch_signals(struct follower *follower)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction old;
        /* A fault of our own is not the command's. */
        if (number == SIGKILL || number == SIGSTOP || number == SIGSEGV ||
            number == SIGBUS || number == SIGILL || number == SIGFPE)
            continue;
        memset(&old, 0, sizeof old);
        catch_signal(number, &old);
        follower->ignored[number] =
            number != SIGCHLD && old.sa_handler == SIG_IGN;
    }
}

/* End as the command did: a shell tells "killed by" from "returned". */
static void
end_as(int status)
{
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        sigset_t only;
        setrlimit(RLIMIT_CORE, &none); /* the command has left its own */
        signal(WTERMSIG(status), SIG_DFL);
        sigemptyset(&only);
        sigaddset(&only, WTERMSIG(status));
        raise(WTERMSIG(status));
        sigprocmask(SIG_UNBLOCK, &only, NULL);
        _exit(128 + WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

/* Stop as the command stopped, and wait here until somebody lets us go on. */
static void
stop_as(int number)
{
    struct sigaction before;
    if (number == SIGSTOP) {
        raise(SIGSTOP);
        return;
    }
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(number, &plain, &before);
    raise(number);
    sigaction(number, &before, NULL);
}

/* Ours to read from, or not ours to control at all. */
static bool
is_foreground(const struct follower *follower)
{
    pid_t front = tcgetpgrp(follower->pump->pty.terminal);
    return front < 0 || front == getpgrp();
}

/* A terminal's key, a hang-up, a limit: not somebody's kill(2). */
static bool
is_from_kernel(const struct event *event)
{
#ifdef __linux__
    return event->code > 0;
#else
    return event->sender == 0;
#endif
}

static void
pass_to_terminal(struct follower *follower, const struct event *event,
                 bool grouped)
{
    struct termios modes;
    int kind = NC_SIGNALLED;
    /* A terminal that is gone: the pump sees it, too, and hangs up its own. */
    if (event->number == SIGHUP && is_from_kernel(event) &&
        tcgetattr(follower->pump->pty.terminal, &modes) < 0)
        return;
    if (event->number == SIGWINCH)
        kind = NC_RESIZED;
    else if (is_from_kernel(event))
        kind = NC_TYPED_SIGNAL;
    else if (grouped)
        kind = NC_GROUP_SIGNAL;
    if (event->number == SIGCONT)
        nc_say_word(follower->control, NC_FOREGROUND, is_foreground(follower));
    nc_say_word(follower->control, kind, event->number);
}

static void
pass(struct follower *follower, const struct event *event)
{
    if (follower->finished) {
        /* Bare, the command would be waiting for its reader here. */
        bool ends = event->number != SIGCHLD && event->number != SIGCONT &&
                    event->number != SIGURG && event->number != SIGWINCH &&
                    event->number != SIGTSTP && event->number != SIGTTIN &&
                    event->number != SIGTTOU;
        if (ends && !follower->ignored[event->number])
            end_as(event->number);
        return;
    }
    bool grouped = nc_was_to_group(&follower->witness, event->number);
    if (follower->terminal) {
        pass_to_terminal(follower, event, grouped);
        return;
    }
    /* The terminal's reach the whole group, and the kernel's are our own. */
    if (is_from_kernel(event) || grouped)
        return;
    if (event->sender == follower->command) {
        /* It means its parent: that would be ours. */
        kill(getppid(), event->number);
        return;
    }
#ifdef __linux__
    if (event->code == SI_QUEUE) {
        sigqueue(follower->command, event->number,
                 (union sigval){.sival_int = event->value});
        return;
    }
#endif
    kill(follower->command, event->number);
}

/* What was typed ahead for whoever comes after the command. Only some systems
 * let us put it back. */
static void
put_back(const struct follower *follower)
{
#ifdef TIOCSTI
    int terminal = follower->pump->pty.terminal;
    struct termios modes, silent;
    if (!follower->unread_size || tcgetattr(terminal, &modes) < 0)
        return;
    silent = modes;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(terminal, TCSANOW, &silent);
    for (size_t i = 0; i < follower->unread_size; i++)
        if (ioctl(terminal, TIOCSTI, &follower->unread[i]) < 0)
            break;
    tcsetattr(terminal, TCSANOW, &modes);
#else
    (void)follower;
#endif
}

static void
tell_daemon(const struct nc_launch *launch, bool failed)
{
    size_t size;
    unsigned flags = NC_ENDED | (failed ? (unsigned)NC_FAILED : 0);
    void *record = nc_command_record(launch, 0, flags, &size);
    /* Not worth waiting for: the daemon can see that the process is gone. */
    if (send(launch->daemon, record, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        errno = 0;
    free(record);
}

static void
finish(struct follower *follower, bool all_gone)
{
    tell_daemon(follower->pump->launch,
                !follower->known || follower->status != 0);
    nc_dismiss(&follower->witness);
    /* Left alone it would be a stray child of a harness that adopts them. */
    if (all_gone)
        waitpid(follower->pump_pid, NULL, 0);
    if (follower->terminal)
        put_back(follower);
    end_as(follower->known ? follower->status : NC_EXIT_FAILED << 8);
}

static void
reap(struct follower *follower)
{
    int status;
    pid_t pid;
    while (follower->command > 0 && (pid = waitpid(follower->command, &status,
                                                   WNOHANG | WUNTRACED)) != 0) {
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid > 0 && WIFSTOPPED(status)) {
            stop_as(WSTOPSIG(status));
            continue;
        }
        follower->status = status;
        follower->known = pid > 0;
        follower->command = 0;
        follower->finished = true;
        nc_dismiss(&follower->witness);
        if (follower->drained)
            finish(follower, true);
        nc_say_word(follower->control, NC_FINISHED, 0);
    }
}

static void
read_events(struct follower *follower)
{
    struct event event;
    while (read(events[0], &event, sizeof event) == sizeof event)
        if (event.number != SIGCHLD)
            pass(follower, &event);
        else
            reap(follower);
}

/* The pump has left, or was killed. The command has no outputs then; in a terminal
 * it is the pump's child, and lost with it. */
static void
lose_pump(struct follower *follower)
{
    close(follower->control);
    follower->control = -1;
    if (!follower->terminal && !follower->finished)
        return;
    if (follower->terminal)
        tcsetattr(follower->pump->pty.terminal, TCSANOW,
                  &follower->pump->pty.modes);
    if (!follower->known)
        follower->known = waitpid(follower->pump_pid, &follower->status, 0) > 0;
    finish(follower, !follower->terminal);
}

static void
read_word(struct follower *follower)
{
    struct nc_word word;
    if (!nc_hear_word(follower->control, &word)) {
        lose_pump(follower);
        return;
    }
    switch (word.kind) {
    case NC_STOPPED:
        stop_as(word.value);
        nc_say_word(follower->control, NC_FOREGROUND, is_foreground(follower));
        nc_say_word(follower->control, NC_RESIZED, 0);
        nc_say_word(follower->control, NC_RESUMED, 0);
        break;
    case NC_UNREAD:
        if (follower->unread_size < sizeof follower->unread)
            follower->unread[follower->unread_size++] = (char)word.value;
        break;
    case NC_EXITED:
        follower->status = word.value;
        follower->known = true;
        follower->finished = true;
        break;
    case NC_DRAINED:
        follower->drained = word.value;
        if (follower->finished)
            finish(follower, word.value);
        break;
    default:
        break;
    }
}

static void
run(struct follower *follower)
{
    int kept[] = {events[0],
                  events[1],
                  follower->control,
                  follower->witness.testimony,
                  follower->pump->launch->daemon,
                  follower->terminal ? follower->pump->pty.terminal : -1};
    nc_close_all_but(kept, sizeof kept / sizeof *kept);
    for (;;) {
        struct pollfd on[] = {{.fd = events[0], .events = POLLIN},
                              {.fd = follower->control, .events = POLLIN}};
        if (poll(on, 2, -1) < 0)
            continue;
        if (on[0].revents)
            read_events(follower);
        if (follower->control < 0 && follower->finished)
            finish(follower, false);
        if (on[1].revents)
            read_word(follower);
    }
}

void
nc_follow(struct nc_pump *pump)
{
    struct follower follower = {.pump = pump,
                                .terminal = pump->pty.master >= 0};
    int control[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, control) < 0)
        return;
    follower.control = pump->launcher_end = nc_move_high(control[0]);
    pump->control = nc_move_high(control[1]);
    pump->launcher = getpid();
    if (nc_pipe(events, false) < 0)
        return;

    sigset_t all;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &pump->mask);
    /* Ignored, it would leave us no status to take. */
    sigaction(SIGCHLD, &plain, &pump->child);
    nc_take_timers(pump);
    if (follower.terminal)
        pump->pty.foreground = is_foreground(&follower);

    follower.pump_pid = fork();
    if (follower.pump_pid == 0)
        nc_pump_run(pump);
    if (follower.pump_pid > 0 && !follower.terminal) {
        /* It runs in our memory until it executes the command: quicker, and
         * no handlers of ours are installed yet that it might run. */
        follower.command = vfork();
        if (follower.command == 0)
            nc_become(pump);
        nc_say_word(follower.control, NC_STARTED, follower.command);
    }
    if (follower.pump_pid < 0 || follower.command < 0) {
        nc_give_timers(pump);
        sigaction(SIGCHLD, &pump->child, NULL);
        sigprocmask(SIG_SETMASK, &pump->mask, NULL);
        return;
    }
    nc_call_witness(&follower.witness);
    nc_rename(pump->launch, "noclobber-exec");
    catch_signals(&follower);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    run(&follower);
}
