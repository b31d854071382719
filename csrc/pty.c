/* The terminal between the harness's and the command's.
 *
 * While the command has the foreground and what is typed is for it alone, the
 * harness's terminal is raw and the command's own does all the work: echo,
 * lines, ^C, ^Z. At other times the harness's terminal keeps its modes, and
 * ours leaves line ends alone, or they would be made twice. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MODES (ICANON | ECHO)
#define GIVE_BACK_MOST 4096 /* bytes; a terminal's own queue holds no more */

/* Whether the command's terminal makes line ends. */
static void
set_line_ends(const struct nc_pty *pty, bool on)
{
    struct termios modes;
    if (tcgetattr(pty->master, &modes) < 0)
        return;
    modes.c_oflag &= ~(tcflag_t)OPOST;
    if (on)
        modes.c_oflag |= pty->modes.c_oflag & OPOST;
    tcsetattr(pty->master, TCSANOW, &modes);
}

static void
make_raw(struct nc_pty *pty)
{
    struct termios modes;
    if (pty->raw || tcgetattr(pty->terminal, &modes) < 0)
        return;
    pty->modes = modes;
    cfmakeraw(&modes);
    if (tcsetattr(pty->terminal, TCSANOW, &modes) < 0)
        return;
    pty->raw = true;
    set_line_ends(pty, true);
}

static void
make_cooked(struct nc_pty *pty)
{
    if (!pty->raw)
        return;
    tcsetattr(pty->terminal, TCSANOW, &pty->modes);
    pty->raw = false;
    set_line_ends(pty, false);
}

/* Read the harness's terminal in a mode of our own that does not block. */
static void
open_anew(struct nc_pty *pty)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", pty->terminal);
    int fd =
        nc_move_high(open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (fd >= 0) {
        close(pty->terminal);
        pty->terminal = fd;
    }
}

void
nc_pty_start(struct nc_pump *pump)
{
    struct nc_pty *pty = &pump->pty;
    ioctl(pty->slave, TIOCSCTTY, 0);
    open_anew(pty);
    set_line_ends(pty, false);
    if (pty->foreground && pty->eager)
        make_raw(pty);
    pid_t pid = fork();
    if (pid == 0) {
        /* A group of its own below us: one that has no parent in its session
         * is never stopped by a terminal. */
        setpgid(0, 0);
        if (pty->foreground)
            tcsetpgrp(pty->slave, getpid());
        nc_become(pump);
    }
    if (pid < 0) {
        int error = errno;
        make_cooked(pty);
        nc_quit(NC_EXIT_FAILED, "%s", strerror(error));
    }
    setpgid(pid, pid);
    pty->command = pid;
    pty->front = pid;
    close(pty->slave);
    pty->slave = -1;
    fcntl(pty->master, F_SETFL, O_RDWR | O_NONBLOCK);
}

static void
come_to_front(struct nc_pty *pty)
{
    tcsetpgrp(pty->master, pty->front);
    if (pty->eager)
        make_raw(pty);
}

/* Out of the foreground who reads the terminal is stopped, as it would be in
 * the harness's: by a foreground group that is not the command's. */
static void
leave_front(struct nc_pty *pty)
{
    tcsetpgrp(pty->master, getpgrp());
}

void
nc_pty_hear(struct nc_pty *pty, const struct nc_word *word)
{
    struct winsize size;
    pid_t group;
    if (pty->command <= 0)
        return;
    switch (word->kind) {
    case NC_SIGNALLED:
        kill(pty->command, word->value);
        break;
    case NC_GROUP_SIGNAL:
        kill(-pty->command, word->value);
        break;
    case NC_TYPED_SIGNAL:
        group = tcgetpgrp(pty->master);
        if (group > 0 && group != getpgrp())
            kill(-group, word->value);
        break;
    case NC_RESIZED:
        if (ioctl(pty->terminal, TIOCGWINSZ, &size) == 0)
            ioctl(pty->master, TIOCSWINSZ, &size);
        break;
    case NC_FOREGROUND:
        if (word->value && !pty->foreground)
            come_to_front(pty);
        else if (!word->value)
            leave_front(pty);
        pty->foreground = word->value;
        break;
    case NC_RESUMED:
        kill(-pty->command, SIGCONT);
        break;
    default:
        break;
    }
}

bool
nc_pty_is_read(const struct nc_pty *pty)
{
    return pty->foreground && pty->raw && pty->start == pty->end;
}

void
nc_pty_type(struct nc_pty *pty, struct nc_spool *spool)
{
    if (nc_pty_is_read(pty)) {
        ssize_t got = read(pty->terminal, pty->typed, sizeof pty->typed);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            pty->foreground = false;
        if (got <= 0)
            return;
        pty->start = 0;
        pty->end = (size_t)got;
        /* To a shell this begins a command, and a harness cuts anew. */
        if (memchr(pty->typed, '\r', pty->end) ||
            memchr(pty->typed, '\n', pty->end))
            nc_spool_restart(spool);
    }
    while (pty->start < pty->end) {
        ssize_t sent =
            write(pty->master, pty->typed + pty->start, pty->end - pty->start);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0)
            pty->start = pty->end;
        else
            pty->start += (size_t)sent;
    }
}

/* In a pipeline at a terminal what is typed is somebody else's until the
 * command takes the terminal over, as a pager does or who asks for a
 * password: no line mode or no echo tells. */
void
nc_pty_look(struct nc_pty *pty)
{
    struct termios modes;
    if (pty->eager || !pty->foreground || pty->command <= 0 ||
        tcgetattr(pty->master, &modes) < 0)
        return;
    if (pty->modes.c_lflag & ~modes.c_lflag & LINE_MODES)
        make_raw(pty);
    else
        make_cooked(pty);
}

enum nc_change
nc_pty_reap(struct nc_pty *pty, int *status)
{
    int state;
    pid_t pid;
    do
        pid = waitpid(pty->command, &state, WNOHANG | WUNTRACED);
    while (pid < 0 && errno == EINTR);
    if (pid != pty->command)
        return NC_NO_CHANGE;
    if (WIFSTOPPED(state)) {
        pid_t front = tcgetpgrp(pty->master);
        pty->front = front > 0 && front != getpgrp() ? front : pty->command;
        *status = WSTOPSIG(state);
        return NC_HAS_STOPPED;
    }
    pty->command = 0;
    *status = state;
    return NC_HAS_ENDED;
}

void
nc_pty_yield(struct nc_pty *pty)
{
    if (pty->master >= 0)
        leave_front(pty);
    pty->foreground = false;
    make_cooked(pty);
}

void
nc_pty_give_back(struct nc_pty *pty, int control)
{
    size_t count = 0;
#ifdef TIOCGPTPEER
    int slave = pty->master < 0
                    ? -1
                    : ioctl(pty->master, TIOCGPTPEER,
                            O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    struct termios before, modes;
    if (slave >= 0 && tcgetattr(slave, &before) == 0) {
        char bytes[256];
        ssize_t got;
        modes = before;
        modes.c_lflag &= ~(tcflag_t)LINE_MODES;
        modes.c_cc[VMIN] = 1;
        tcsetattr(slave, TCSANOW, &modes);
        while (count < GIVE_BACK_MOST &&
               (got = read(slave, bytes, sizeof bytes)) > 0)
            for (ssize_t i = 0; i < got; i++, count++)
                nc_say_word(control, NC_UNREAD, (unsigned char)bytes[i]);
        tcsetattr(slave, TCSANOW, &before);
    }
    if (slave >= 0)
        close(slave);
#endif
    for (; pty->start < pty->end && count < GIVE_BACK_MOST; count++)
        nc_say_word(control, NC_UNREAD,
                    (unsigned char)pty->typed[pty->start++]);
}

void
nc_pty_abandon(struct nc_pty *pty)
{
    nc_pty_yield(pty);
    kill(-pty->command, SIGKILL);
}

void
nc_pty_hang_up(struct nc_pty *pty)
{
    pid_t front = tcgetpgrp(pty->master);
    /* The kernel tells the session's leader alone, and that is us. */
    if (pty->command > 0) {
        kill(-pty->command, SIGHUP);
        kill(-pty->command, SIGCONT);
    }
    if (front > 0 && front != pty->command && front != getpgrp()) {
        kill(-front, SIGHUP);
        kill(-front, SIGCONT);
    }
    close(pty->master);
    pty->master = -1;
}
