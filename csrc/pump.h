/* The pump: between the command's output and the harness's, out of the way.
 *
 * Three processes, so that each is what its neighbours expect of it:
 *
 *   harness --- launcher --- command      the launcher waits, passes signals
 *                  |                      on, and ends as the command ended
 *                  +------- pump          a session of its own: forwards, lives
 *                                         as long as somebody can still print
 *
 * Where the harness gave us a terminal the command hangs below the pump, which
 * then leads the session of the terminal that the command gets.
 */
#ifndef NOCLOBBER_PUMP_H
#define NOCLOBBER_PUMP_H
#include "launch.h"

#include <signal.h>
#include <sys/time.h>
#include <termios.h>

enum nc_target { NC_TO_PIPE, NC_TO_SOCKET, NC_TO_FILE, NC_TO_TERMINAL };

/* One output of the command. */
struct nc_stream {
    int from;     /* our end of what the command prints to; -1: ended */
    int to;       /* where the harness wants it; -1: it has gone */
    int given;    /* the command's end; in the command's process only */
    unsigned tag; /* enum nc_shown_flags */
    enum nc_target target;
    bool may_block; /* `to` is in blocking mode, and shared: write little */
    char *buffer;   /* read and not yet forwarded: [start, end) */
    size_t start;
    size_t end;
    bool stuck;     /* and more is in `from`: the reader is too slow */
    uint64_t moved; /* bytes, from pipe to pipe */
    bool resting;   /* for NC_REST_US, that more may come together */
    bool draining;  /* the launcher waits until `owed` bytes are forwarded */
    size_t owed;
    bool hung; /* a terminal that nobody has open; somebody may again */
};

/* What the launcher and the pump say to each other. */
enum nc_word_kind {
    NC_STARTED = 1,      /* > the command's pid */
    NC_FINISHED = 2,     /* > it has ended: forward what it left */
    NC_DRAINED = 3,      /* < done; value 1: nobody can print any more */
    NC_SIGNALLED = 4,    /* > terminal: pass this signal on to the command */
    NC_GROUP_SIGNAL = 5, /* > terminal: the same, to its process group */
    NC_TYPED_SIGNAL = 6, /* > terminal: to the terminal's foreground group */
    NC_FOREGROUND = 7,   /* > terminal: 1: ours to read and to set, 0: not */
    NC_RESIZED = 8,      /* > terminal */
    NC_RESUMED = 9,      /* > terminal: let the stopped command go on */
    NC_STOPPED = 10,     /* < terminal: the command was stopped by a signal */
    NC_EXITED = 11,      /* < terminal: its wait status; NC_DRAINED follows */
    NC_UNREAD = 12       /* < terminal: a byte that was typed and not read */
};

struct nc_word {
    int32_t kind;
    int32_t value;
};

/* The terminal between the harness's and the command's. */
struct nc_pty {
    int master;           /* -1: the command gets none */
    int slave;            /* the command's process only */
    int terminal;         /* the harness's */
    bool is_slave[3];     /* which of the command's 0 to 2 it is */
    bool eager;           /* what is typed is for nobody but the command */
    bool foreground;      /* the harness's terminal is ours for the moment */
    bool raw;             /* and passes everything through */
    struct termios modes; /* of the harness's, as found */
    pid_t command;
    pid_t front; /* foreground group of the command's, while stopped */
    char typed[4096];
    size_t start;
    size_t end;
};

struct nc_pump {
    const struct nc_launch *launch;
    struct nc_stream streams[2];
    size_t count;
    struct nc_pty pty;
    int control;      /* the pump's end of the socket pair */
    int launcher_end; /* the launcher's */
    pid_t launcher;
    sigset_t mask;          /* the caller's, for the command */
    struct sigaction child; /* the caller's for SIGCHLD, for the command */
    struct itimerval timers[3];
};

/* outlets.c: decide what is carried, and make the pipes and the terminal.
 * Returns whether anything is. *attested: what is not carried reaches nobody,
 * so that the record will be whole. */
bool nc_plan_outlets(struct nc_pump *pump, const struct nc_launch *launch,
                     bool *attested);
void nc_drop_outlets(struct nc_pump *pump);
/* In the command's process: put our ends in the places of its outputs. */
void nc_take_places(const struct nc_pump *pump);

/* follow.c: run the command with its pump and end as it ended. Returns where
 * the system gives us no processes, with nothing done. */
void nc_follow(struct nc_pump *pump);

/* become.c. An alarm that the caller set is for the command, and does not
 * survive a fork. */
void nc_take_timers(struct nc_pump *pump);
void nc_give_timers(const struct nc_pump *pump);
/* The command's own process: tell the daemon, become the command. */
void nc_become(const struct nc_pump *pump) __attribute__((noreturn));

/* witness.c. To be called with all signals blocked. */
struct nc_witness {
    pid_t pid;       /* 0 or less: there is none */
    int testimony;   /* it writes each signal's number here */
    bool seen[NSIG]; /* of those that it wrote and nobody has asked about */
};
void nc_call_witness(struct nc_witness *witness);
/* Whether signal `number`, which has reached us, went to our whole group. */
bool nc_was_to_group(struct nc_witness *witness, int number);
void nc_dismiss(struct nc_witness *witness);

/* pump.c: the pump's whole life. */
void nc_pump_run(struct nc_pump *pump) __attribute__((noreturn));
/* As ps shows us: `pgrep -f` and `pkill -f` mean the command, and not the
 * processes around it that had its words among their arguments. */
void nc_rename(const struct nc_launch *launch, const char *name);
bool nc_say_word(int control, int kind, int value);
bool nc_hear_word(int control, struct nc_word *word); /* false: it is gone */

/* spool.c: the head and the tail of the output, for the daemon. */
struct nc_spool;
struct nc_spool *nc_spool_new(const struct nc_launch *launch);
int nc_spool_fd(const struct nc_spool *spool); /* to the daemon, or -1 */
bool nc_spool_is_waiting(const struct nc_spool *spool); /* for it to take */
bool nc_spool_has_tail(const struct nc_spool *spool);   /* not yet sent */
void nc_spool_add(struct nc_spool *spool, const char *text, size_t size,
                  unsigned tag);
/* Whether the head is full: nobody will ask for more than the last *end bytes
 * then, and others may be skipped. */
bool nc_spool_wants_end_only(const struct nc_spool *spool, size_t *end);
void nc_spool_skip(struct nc_spool *spool, size_t size);
void nc_spool_started(struct nc_spool *spool, pid_t pid);
void nc_spool_ended(struct nc_spool *spool);
/* What follows is a new head: in a terminal, something was typed. */
void nc_spool_restart(struct nc_spool *spool);
/* Send what is due, the tail too where `tail`. Never blocks. */
void nc_spool_flush(struct nc_spool *spool, bool tail);
/* The daemon's connection is readable. Returns whether it asks for what has
 * been printed up to now: the next flush with `tail` answers it. */
bool nc_spool_asked(struct nc_spool *spool);

/* stream.c */
#define NC_REST_US 200
void nc_stream_open(struct nc_stream *stream);
/* Forward what can be; returns whether more may be had at once. */
bool nc_stream_move(struct nc_stream *stream, struct nc_spool *spool);
bool nc_stream_is_blocked(const struct nc_stream *stream); /* by its reader */
void nc_stream_drain(struct nc_stream *stream);
bool nc_stream_is_drained(const struct nc_stream *stream);
void nc_stream_close(struct nc_stream *stream);

/* pty.c, in the pump */
enum nc_change { NC_NO_CHANGE, NC_HAS_STOPPED, NC_HAS_ENDED };
void nc_pty_start(struct nc_pump *pump); /* starts the command, too */
void nc_pty_hear(struct nc_pty *pty, const struct nc_word *word);
bool nc_pty_is_read(const struct nc_pty *pty); /* what is typed is wanted */
void nc_pty_type(struct nc_pty *pty, struct nc_spool *spool);
void nc_pty_look(struct nc_pty *pty); /* the command printed something */
enum nc_change nc_pty_reap(struct nc_pty *pty, int *status);
/* The command stopped or ended: the terminal is the harness's again. */
void nc_pty_yield(struct nc_pty *pty);
/* Tell the launcher what was typed that nobody read. */
void nc_pty_give_back(struct nc_pty *pty, int control);
void nc_pty_abandon(struct nc_pty *pty); /* the launcher was killed */
void nc_pty_hang_up(struct nc_pty *pty); /* the harness's terminal is gone */
#endif
