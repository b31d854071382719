/* The launcher, noclobber-exec: it works out whose command this is, tells the
 * daemon, puts the shim into the command's environment, and carries what the
 * command prints.
 *
 *   launch.c    options, and the order of the steps
 *   shared.c    what noclobber-hook does, too
 *   session.c   session, roots, command id
 *   inherit.c   the command's environment
 *   reach.c     the daemon: connect, start, tell
 *   begin.c     what it says that holds for the command
 *   handles.c   descriptors that must not get into the command's way
 *   follow.c    the process that waits: signals, status, stops
 *   become.c    the command's process, until it is the command
 *   watched.c   the supervisor of what the shim does not enter
 *   witness.c   who tells signals to our pid from signals to our group
 *   outlets.c   which of the command's outputs are carried
 *   pump.c      the process that forwards what the command prints
 *   stream.c    one output on its way
 *   spool.c     the part of it that is sent to the daemon
 *   pty.c       the terminal between ours and the command's
 */
#ifndef NOCLOBBER_LAUNCH_H
#define NOCLOBBER_LAUNCH_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Exit statuses of our own, as of env(1) and timeout(1). */
#define NC_EXIT_FAILED 125
#define NC_EXIT_CANNOT_EXECUTE 126
#define NC_EXIT_NOT_FOUND 127

#ifndef MSG_NOSIGNAL /* macOS; SIGPIPE is ignored or caught there */
#define MSG_NOSIGNAL 0
#endif

#define NC_START_MS 10000 /* to start a daemon: a cold Python on a busy disk */
#define NC_SEND_MS 2000   /* a daemon that takes longer is as good as lost */
#define NC_SHOWN_LIMIT 30000   /* bytes a command, unless --shown-limit */
#define NC_SHOWN_MOST 16777216 /* bytes; more is not kept in memory */

enum nc_supervised {
    NC_SUPERVISED_NONE,
    NC_SUPERVISED_NEEDY, /* what the shim does not enter */
    NC_SUPERVISED_ALL
};

struct nc_launch {
    char **argv; /* the command's, ended by NULL */
    char *title; /* our own arguments as ps shows them */
    size_t title_size;
    const char *program; /* what is executed; looked up on PATH */
    const char *library; /* the shim, absolute */
    const char *socket;  /* the daemon's, absolute */
    char **environment;  /* the command's */
    char session[NC_ID_MAX + 1];
    char command[NC_ID_MAX + 1];
    char **roots; /* absolute, canonical */
    size_t root_count;
    char *cwd;                 /* "" where it has no name any more */
    int tier;                  /* enum nc_tier */
    bool is_dirty;             /* git is to be asked about */
    const char *task;          /* what the command is for, or NULL */
    uint32_t limit;            /* shown_limit in bytes; 0: not known */
    const char *supervisor;    /* its program, absolute */
    int supervised;            /* enum nc_supervised */
    bool fail_open;            /* configured: a silent daemon refuses nothing */
    unsigned flags;            /* enum nc_command_flags */
    bool agent;                /* the command is the agent itself */
    const char *agent_exe;     /* the agent's program; NULL: it is found out */
    char outer[NC_ID_MAX + 1]; /* the agent's child that we are, or "" */
    bool pumped;               /* what it prints is to be carried */
    bool nested; /* part of a command whose output is carried already */
    int daemon;  /* connection, close-on-exec; -1: none */
};

/* shared.c: a line on stderr, "NAME: ...". nc_quit then exits with `status`. */
extern const char *nc_program; /* NAME */
void nc_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void nc_quit(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
void *nc_alloc(size_t size); /* zeroed; quits where there is no memory */
char *nc_joined(const char *directory, const char *rest); /* malloc'ed */
char *nc_own_directory(void);                             /* malloc'ed */
/* Whether the user would rather go on unguarded than not at all: by the
 * environment, as `configured`, or by the configuration, as a daemon last read
 * it. `socket` may be NULL. */
bool nc_fails_open(const char *socket, bool configured);
/* A connection to the session's daemon, else to the user's, which is started
 * from `directory` within `patience` ms; -1: `why` says why not. *socket is
 * where it listens, or stays as it is. */
int nc_find_daemon(const char *directory, const char **socket, int patience,
                   char *why, size_t why_size);

/* launch.c. Execute the command in this very process; on failure say why and exit with
 * 126 or 127. */
void nc_execute(const struct nc_launch *launch) __attribute__((noreturn));
/* Tell the daemon that this process becomes the command, and execute it. */
void nc_begin(const struct nc_launch *launch) __attribute__((noreturn));

/* session.c. `given` is --session or NULL. Each quits on failure. */
void nc_find_roots(struct nc_launch *launch);
void nc_add_root(struct nc_launch *launch, const char *directory);
void nc_find_session(struct nc_launch *launch, const char *given);

/* inherit.c: the environment a guarded command gets, from `environ`. Lists of
 * directories are joined by `:`; a `\` escapes `:` and `\`. */
char **nc_guarded_environment(const struct nc_launch *launch);
/* Says which pipes lead to the agent, so that the shim need not report them
 * as ways from one process to another. */
void nc_name_pump(const struct nc_launch *launch);
char *nc_join_list(char *const *items, size_t count);
char **nc_split_list(const char *list, size_t *count);

/* handles.c. Move a descriptor to a high number, close-on-exec: 0 to 2 may be
 * closed and are the command's then, and so are the numbers it expects next.
 * The old one is closed; -1 is passed through. */
int nc_move_high(int fd);
/* A pipe of such descriptors. Returns 0, or -1 with errno. */
int nc_pipe(int ends[2], bool blocking);
/* Close every descriptor but the `count` of `kept`, in any order, -1 allowed. */
void nc_close_all_but(const int *kept, size_t count);

/* reach.c. `socket` is the socket's path, `starter` the program to run as
 * `starter daemon start`. Returns a connection, or -1 when no daemon can be
 * reached or started within `patience` ms; `why` then says so in words. */
int nc_reach_daemon(const char *socket, const char *starter, int patience,
                    char *why, size_t why_size);
/* Waits `patience` ms at most for a daemon whose queue is full. -1: errno. */
int nc_connect(const char *socket, int patience);

/* watched.c. Puts this process under a supervisor where its command needs one:
 * the last step before it is executed. */
void nc_supervise(const struct nc_launch *launch);

/* begin.c. Ask the daemon what holds for the command (NC_BEGIN); it looks at
 * the roots of a new session first. Returns 0, or -1 with errno. */
int nc_send_begin(const struct nc_launch *launch);
/* Takes up its answer. Where none comes (or none was asked for) nothing is
 * known, and git does not start without a word from the daemon. */
void nc_receive_begun(struct nc_launch *launch, bool asked);

/* Send all of `data` within 2 s. Returns 0, or -1 with errno. */
int nc_send(int fd, const void *data, size_t size);

/* An NC_COMMAND record for process `pid`, malloc'ed; `flags` of enum
 * nc_command_flags. With NC_ENDED it holds nothing but the ids. */
void *nc_command_record(const struct nc_launch *launch, pid_t pid,
                        unsigned flags, size_t *size);

/* An NC_SHOWN record, malloc'ed: what the agent takes in of our output is what
 * the pump sends. */
void *nc_carried_record(const struct nc_launch *launch, size_t *size);
#endif
