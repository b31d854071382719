/* The pump's process: moves bytes until nobody can print any more. It has a
 * session of its own, so that no signal of a terminal or to a process group
 * finds it, and holds nothing of the harness's but the outputs. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#define QUIET_MS 50  /* of silence, after which the tail is worth sending */
#define HUNG_MS 100  /* between looks at a terminal that nobody has open */
#define LAST_MS 1000 /* for a slow daemon to take the last records */

static int wake[2] = {-1, -1}; /* written to on SIGCHLD */

bool
nc_say_word(int control, int kind, int value)
{
    struct nc_word word = {.kind = kind, .value = value};
    ssize_t sent;
    do
        sent = send(control, &word, sizeof word, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == sizeof word;
}

bool
nc_hear_word(int control, struct nc_word *word)
{
    ssize_t got;
    do
        got = recv(control, word, sizeof *word, MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    return got == sizeof *word;
}

static void
on_child(int number)
{
    int error = errno;
    (void)number;
    if (write(wake[1], "", 1) < 0)
        errno = error;
    errno = error;
}

/* Nothing but SIGKILL ends the pump before the last writer does: who ends the
 * command by its process tree must still get what it had printed. */
static void
ignore_signals(void)
{
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE,
                                  SIGALRM, SIGTERM, SIGUSR1, SIGUSR2,
                                  SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ};
    sigset_t none;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void
nc_rename(const struct nc_launch *launch, const char *name)
{
    memset(launch->title, 0, launch->title_size);
    memcpy(launch->title, name,
           strlen(name) < launch->title_size ? strlen(name)
                                             : launch->title_size - 1);
}

static void
close_the_rest(const struct nc_pump *pump, const struct nc_spool *spool)
{
    int kept[] = {pump->control,
                  nc_spool_fd(spool),
                  wake[0],
                  wake[1],
                  pump->pty.master,
                  pump->pty.terminal,
                  pump->streams[0].from,
                  pump->streams[0].to,
                  pump->streams[1].from,
                  pump->streams[1].to};
    nc_close_all_but(kept, sizeof kept / sizeof *kept);
    /* Nothing that is opened later may be taken for an output. */
    int null = open("/dev/null", O_RDWR);
    while (null >= 0 && null < STDERR_FILENO)
        null = dup(null);
}

struct state {
    struct nc_pump *pump;
    struct nc_spool *spool;
    bool running;  /* pty: the command is */
    int status;    /* pty: its wait status */
    bool finished; /* the command has ended */
    bool told;     /* the launcher knows */
};

static bool
all_closed(const struct nc_pump *pump)
{
    for (size_t i = 0; i < pump->count; i++)
        if (pump->streams[i].from >= 0)
            return false;
    return true;
}

static void
move_all(struct state *state)
{
    for (size_t i = 0; i < state->pump->count; i++)
        nc_stream_move(&state->pump->streams[i], state->spool);
    nc_spool_flush(state->spool, false);
}

static void
finish(struct state *state)
{
    state->finished = true;
    move_all(state);
    for (size_t i = 0; i < state->pump->count; i++) {
        nc_stream_drain(&state->pump->streams[i]);
        nc_stream_move(&state->pump->streams[i], state->spool);
    }
}

static void
reap(struct state *state)
{
    struct nc_pty *pty = &state->pump->pty;
    char bytes[16];
    while (read(wake[0], bytes, sizeof bytes) > 0)
        ;
    int status;
    enum nc_change change = nc_pty_reap(pty, &status);
    if (change == NC_HAS_STOPPED) {
        move_all(state);
        nc_pty_yield(pty);
        nc_say_word(state->pump->control, NC_STOPPED, status);
    } else if (change == NC_HAS_ENDED) {
        state->running = false;
        state->status = status;
        finish(state);
    }
}

static void
hear(struct state *state)
{
    struct nc_pump *pump = state->pump;
    struct nc_word word;
    if (!nc_hear_word(pump->control, &word)) {
        close(pump->control);
        pump->control = -1;
        if (!state->told)
            nc_spool_ended(state->spool); /* it cannot say so itself */
        if (state->running)
            nc_pty_abandon(&pump->pty);
        else if (!state->finished)
            finish(state);
        return;
    }
    if (word.kind == NC_STARTED)
        nc_spool_started(state->spool, word.value);
    else if (word.kind == NC_FINISHED)
        finish(state);
    else if (pump->pty.master >= 0)
        nc_pty_hear(&pump->pty, &word);
}

/* Send what is left, to a daemon that may be slow. */
static void
flush_all(struct nc_spool *spool)
{
    nc_spool_flush(spool, true);
    for (int waited = 0; nc_spool_is_waiting(spool) && waited < LAST_MS;
         waited += QUIET_MS) {
        struct pollfd ready = {.fd = nc_spool_fd(spool), .events = POLLOUT};
        poll(&ready, 1, QUIET_MS);
        nc_spool_flush(spool, true);
    }
}

/* The command has ended and all that it left is forwarded, or nobody can print
 * any more: say so, once. */
static void
tell(struct state *state)
{
    struct nc_pump *pump = state->pump;
    bool over = !state->running && all_closed(pump);
    if (state->told || !(state->finished || over))
        return;
    for (size_t i = 0; i < pump->count; i++)
        if (!nc_stream_is_drained(&pump->streams[i]))
            return;
    state->told = true;
    flush_all(state->spool);
    if (pump->pty.master >= 0) {
        if (pump->streams[0].hung)
            nc_stream_close(&pump->streams[0]);
        nc_pty_yield(&pump->pty);
        if (pump->control >= 0) {
            nc_pty_give_back(&pump->pty, pump->control);
            nc_say_word(pump->control, NC_EXITED, state->status);
        }
    }
    if (pump->control >= 0)
        nc_say_word(pump->control, NC_DRAINED, all_closed(pump));
}

/* What the terminal is to do while the command is there to be typed to. */
static void
serve_terminal(struct state *state, short typed, short taken)
{
    struct nc_pump *pump = state->pump;
    struct nc_pty *pty = &pump->pty;
    if (typed || taken)
        nc_pty_type(pty, state->spool);
    nc_pty_look(pty);
    struct nc_stream *stream = &pump->streams[0];
    if (stream->from < 0 && pty->master >= 0) {
        /* The harness's terminal is gone: so is the command's. */
        nc_pty_hang_up(pty);
    }
    if (stream->hung && !state->running)
        nc_stream_close(stream);
}

/* Wait for what is asked of `on`. Returns as poll does. */
static int
await(const struct state *state, struct pollfd *on, size_t count)
{
    const struct nc_stream *streams = state->pump->streams;
#ifdef __linux__
    static const struct timespec rest = {.tv_nsec = NC_REST_US * 1000};
    if (streams[0].resting || streams[1].resting)
        return ppoll(on, count, &rest, NULL);
#endif
    int timeout = -1;
    const struct nc_pty *pty = &state->pump->pty;
    if (streams[0].hung)
        timeout = HUNG_MS;
    else if (state->running && pty->foreground && !pty->eager)
        timeout = QUIET_MS; /* nothing tells when the command sets modes */
    else if (nc_spool_has_tail(state->spool))
        timeout = QUIET_MS;
    return poll(on, (nfds_t)count, timeout);
}

enum { CONTROL, DAEMON, WAKE, TYPED, MASTER, STREAMS };

static void
turn(struct state *state)
{
    struct nc_pump *pump = state->pump;
    struct nc_pty *pty = &pump->pty;
    struct pollfd on[STREAMS + 4];
    for (size_t i = 0; i < sizeof on / sizeof *on; i++)
        on[i] = (struct pollfd){.fd = -1};
    on[CONTROL] = (struct pollfd){.fd = pump->control, .events = POLLIN};
    on[DAEMON].fd = nc_spool_fd(state->spool);
    on[DAEMON].events =
        nc_spool_is_waiting(state->spool) ? POLLIN | POLLOUT : POLLIN;
    if (state->running) {
        on[WAKE] = (struct pollfd){.fd = wake[0], .events = POLLIN};
        if (nc_pty_is_read(pty))
            on[TYPED] = (struct pollfd){.fd = pty->terminal, .events = POLLIN};
        if (pty->start < pty->end)
            on[MASTER] = (struct pollfd){.fd = pty->master, .events = POLLOUT};
    }
    for (size_t i = 0; i < pump->count; i++) {
        struct nc_stream *stream = &pump->streams[i];
        struct pollfd *from = &on[STREAMS + 2 * i], *to = from + 1;
        bool blocked = nc_stream_is_blocked(stream);
        from->fd =
            blocked || stream->hung || stream->resting ? -1 : stream->from;
        from->events = POLLIN;
        /* Without events: to hear that nobody reads any more. */
        to->fd = stream->target == NC_TO_FILE ? -1 : stream->to;
        to->events = blocked ? POLLOUT : 0;
    }
    bool rests = pump->streams[0].resting || pump->streams[1].resting;
    int ready = await(state, on, sizeof on / sizeof *on);
    if (ready < 0)
        return;
    if (ready == 0 && !rests && !pump->streams[0].hung)
        nc_spool_flush(state->spool, true);
    bool asked = on[DAEMON].revents & ~POLLOUT && nc_spool_asked(state->spool);
    for (size_t i = 0; i < pump->count; i++) {
        struct nc_stream *stream = &pump->streams[i];
        if (on[STREAMS + 2 * i + 1].revents & (POLLERR | POLLHUP | POLLNVAL))
            nc_stream_close(stream);
        stream->hung = false;
    }
    move_all(state);
    if (asked)
        nc_spool_flush(state->spool, true);
    if (pty->master >= 0)
        serve_terminal(state, on[TYPED].revents, on[MASTER].revents);
    if (on[WAKE].revents)
        reap(state);
    if (on[CONTROL].revents)
        hear(state);
    tell(state);
}

void
nc_pump_run(struct nc_pump *pump)
{
    struct state state = {.pump = pump};
    bool terminal = pump->pty.master >= 0;
    setsid();
    close(pump->launcher_end);
    state.spool = nc_spool_new(pump->launch);
    if (terminal) {
        if (nc_pipe(wake, false) < 0)
            _exit(NC_EXIT_FAILED);
        struct sigaction action = {.sa_handler = on_child};
        sigaction(SIGCHLD, &action, NULL);
        nc_pty_start(pump);
        nc_spool_started(state.spool, pump->pty.command);
        state.running = true;
    }
    for (size_t i = 0; i < pump->count; i++) {
        /* The command's process has its own; ours would keep it open. */
        if (pump->streams[i].given >= 0)
            close(pump->streams[i].given);
        nc_stream_open(&pump->streams[i]);
    }
    ignore_signals();
    close_the_rest(pump, state.spool);
    nc_rename(pump->launch, "noclobber-pump");
#ifdef PR_SET_NAME
    prctl(PR_SET_NAME, "noclobber-pump");
#endif
    if (chdir("/") < 0)
        errno = 0;
    while (!all_closed(pump) || state.running || !state.told)
        turn(&state);
    flush_all(state.spool);
    _exit(0);
}
