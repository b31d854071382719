/* What the parts of the preloaded library share. Nothing here allocates,
 * takes a lock across a blocking call, or changes errno where the program's
 * call succeeded. */
#ifndef NOCLOBBER_SHIM_H
#define NOCLOBBER_SHIM_H
#include "platform.h"

#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>

#ifdef __GLIBC__
typedef unsigned long nc_ioctl_number;
#else
#include "musl.h"
#endif
#include "fdtable.h"
#include "pages.h"
#include "program.h"
#include "protocol.h"

#define NC_EXPORT __attribute__((visibility("default")))
/* A second name that the C library has for the same function. */
#ifdef __clang__
#define NC_LIKE(other) alias(#other)
#else
#define NC_LIKE(other) alias(#other), copy(other)
#endif
#define NC_ALSO(type, name, params, other) \
    NC_EXPORT type name params __attribute__((NC_LIKE(other)))
#define nc_likely(x) __builtin_expect(!!(x), 1)
#define nc_unlikely(x) __builtin_expect(!!(x), 0)
#define NC_HOW_MAX 4096  /* bytes of a struct open_how that the kernel takes */
#define NC_PATH_MAX 4096 /* bytes, of any path that the kernel hands out */

/* ---- the table of functions (hooks.def) ---------------------------- */

#define HOOK(type, name, params) typedef type(*nc_type_##name) params;
#define OMIT(name, reason)
#include "hooks.def"
#undef HOOK

enum nc_hook {
#define HOOK(type, name, params) NC_HOOK_##name,
#include "hooks.def"
#undef HOOK
    NC_HOOKS
};
#undef OMIT

extern void *nc_found[NC_HOOKS];
void *nc_find(enum nc_hook hook); /* resolves it, once */

/* The function that would have run without us. */
#define REAL(name)                                                \
    ((nc_type_##name)(nc_likely(nc_found[NC_HOOK_##name] != NULL) \
                          ? nc_found[NC_HOOK_##name]              \
                          : nc_find(NC_HOOK_##name)))

/* ---- the process (shim.c) ------------------------------------------ */

extern struct nc_process {
    int active;          /* in a session, and not silenced */
    uint32_t epoch;      /* raised when others may come to share descriptions */
    int detached;        /* a vfork child may be running in this memory */
    pid_t pid;           /* of the process that owns this memory, 0: unknown */
    pid_t caller;        /* the thread that called vfork */
    uint64_t token;      /* names this process image, 0: not yet named */
    uint64_t parent;     /* the image this one was forked from, 0: exec'd */
    int is_shell;        /* takes orders from the files it reads */
    int stdin_is_script; /* a shell without -c and without a script */
    int spoke;           /* it, or who it was forked from, said something */
    int has_input_pipe;  /* may pass on what others read */
    int fail_open;       /* a silent daemon refuses nothing */
    int read_only;       /* nothing under a root may change */
    int asks_git;        /* git may start when the daemon says so */
    int supervises;      /* what the shim does not enter gets a supervisor */
    uint64_t pump[2];    /* inodes of the pipes that lead to the agent */
    int agent;           /* the agent's own process */
    int beside;          /* a tool that a program on the way to it started */
    int arguments;
    char **argv;           /* the program may move its pointers about, */
    const char *words;     /* but hardly the text that they began with, */
    const char *words_end; /* each ended by NUL, one behind the other */
} nc_process;

uint64_t nc_token(void);

int nc_detached_child(void);
/* 1 in a vfork child: its descriptors are its own, this memory is not. */
static inline int
nc_is_guest(void)
{
    return nc_unlikely(nc_process.detached) && nc_detached_child();
}

/* Reports all that has news: `closing` at exec and exit. */
enum nc_moment {
    NC_AT_QUESTION,
    NC_AT_SPAWN,
    NC_AT_EXEC,
    NC_AT_EXIT,
    NC_AT_CLOSE
};
void nc_settle(enum nc_moment moment);
void nc_tell_files(void); /* what was read so far */
void nc_silence(void);    /* the program wants no system call of ours */

/* ---- where a path lies (places.c, area.c) --------------------------- */

enum nc_area {
    NC_AREA_NONE = 0, /* never protected: system, temp, cache */
    NC_AREA_ELSE = 1, /* outside the roots: some writers are judged */
    NC_AREA_ROOT = 2  /* under a root */
};

void nc_area_start(const char *roots, const char *skipped);
enum nc_area nc_area_of(const char *path, size_t size); /* absolute, clean */
/* 1 where all that is below a folder under a root lies under roots. */
int nc_area_is_whole(const char *folder, size_t size);
/* 1 where a name lies under a root for certain, by the folder it starts from
 * and without a look at the rest of it; 0: not known. */
int nc_area_at_once(int dirfd, const char *path);
/* By the name alone where that is certain, else by the descriptor. Writes the
 * absolute path to `out` (NC_PATH_MAX bytes; its size, 0: not known). */
enum nc_area nc_area_of_open(int dirfd, const char *path, int fd, char *out,
                             size_t *out_size);
/* The path of a name without a slash, by its folder's. 0: ask the kernel. */
size_t nc_path_in(int dirfd, const char *name, char *out);
/* The path of an open descriptor as the kernel tells it, size or 0. */
size_t nc_path_of(int fd, char *out, size_t size);
enum nc_area nc_area_of_fd(int fd, char *out, size_t *out_size);
/* Of what has no path, in a folder: `out` says as much as there is room for. */
enum nc_area nc_area_by_climbing(int folder, char *out, size_t *out_size);
void nc_cwd_changed(void);

/* ---- reports and questions (client.c, connect.c, hello.c) ----------- */

/* A connection, or -1. `closable`: a descriptor that may be closed for room
 * (in a process of its own), or -1. Touches no state: a guest may call it. */
int nc_connect(int closable);
int nc_send(int sock, const void *data, size_t size, const int *fds,
            int fd_count);
int nc_receive(int sock, void *out, size_t size);
/* Opens a connection that outlives exec, for programs that are about to lose
 * sight of the socket's path or the right to make sockets. */
void nc_lifeline_open(void);
const char *nc_lifeline_entry(void); /* for the environment, or NULL */
int nc_lifeline_holds(void);
void nc_lifeline_keep(int sock, uint64_t ino);
void nc_connect_start(const char *socket, const char *lifeline);
size_t nc_hello(void *out, size_t size);
void nc_hello_start(const char *session, const char *command);

/* Appends a record made of a fixed part and up to two strings. */
void nc_report(struct nc_record *record, size_t size, const void *first,
               size_t first_size, const void *second, size_t second_size);
void nc_flush(void);         /* sends what was gathered, if anything was */
int nc_socket_is(int fd);    /* is this our connection? */
void nc_socket_lost(int fd); /* the program closes or replaces it */
void nc_socket_lost_between(unsigned first, unsigned last);
int nc_has_news(void); /* something of its own is waiting to be said */
int nc_client_before_fork(void); /* so that no child sees half a record */
void nc_client_after_fork(int is_child, int entered);

struct nc_ask {
    enum nc_op op;
    int fd;    /* the target */
    int other; /* the source, or -1 */
    uint64_t start, end;
    const char *path, *other_path;
    size_t path_size, other_size;
    const struct nc_version *version; /* of the target */
    const void *record; /* made beforehand, in place of all but `fd`, or NULL */
    size_t record_size;
    int *unanswered; /* set to 1 where nobody answers, and the caller decides;
                      * NULL: that is a refusal */
};

/* 0: go on. -1: refused, errno is EPERM, the message was written. */
int nc_ask(const struct nc_ask *ask);
int nc_refuse_unanswered(const struct nc_ask *ask); /* so, always */
/* A file was opened, maybe for writing in place: lets its content be kept. */
void nc_before_update(int fd, int flags);
/* 1 where this process was refused this very file before. */
int nc_was_refused(const struct stat *of);
extern int nc_keeps; /* the daemon lets this process keep what it deletes */
int nc_knows_scopes(void); /* is there any */
int nc_in_known_scope(const char *path, size_t size);

/* ---- what this session made (made.c) ------------------------------- */

/* A page of the daemon's, beside its socket; NULL where it is out of sight. */
void *nc_shared_page(const char *name, size_t size, int protection);
int nc_is_made(const struct nc_version *version);
extern int nc_refusals; /* how many files this process was refused */

/* ---- descriptors (stat.c, track.c) ---------------------------------- */

void nc_version_from(struct nc_version *out, const struct stat *st);
int nc_stat(int fd, struct stat *out); /* raw, errno kept on success */
void nc_note_open(int fd, int dirfd, const char *path, int flags, int made);
void nc_note_folder(int fd, struct nc_description *of); /* it is one */
/* Before the real close. -1: what was written was refused. */
int nc_note_close(int fd);
void nc_note_dup(int from, int to);
struct nc_description *nc_look(int fd); /* an unknown one is examined */
int nc_retire(int fd, struct nc_description *gone); /* as nc_note_close */
void nc_note_inherited(void); /* descriptors 0 to 2 at start */
void nc_tell(int fd, struct nc_description *of, enum nc_moment moment);
void nc_channel_tell(int fd, struct nc_description *of,
                     enum nc_moment moment); /* channels.c */

/* ---- reading (reads.c) --------------------------------------------- */

void nc_credit(int fd, struct nc_description *to, uint64_t start, uint64_t end);
void nc_sample(int fd, struct nc_description *of); /* by the offset */
void nc_maps_settle(enum nc_moment moment);
void nc_maps_forget(void);

/* What stdio still holds of files that are followed (streams.c). */
void nc_streams_flush(void);

/* ---- the agent's own process (agent.c, intake.c, held.c) ------------ */

void nc_agent_start(void);
/* Inodes of what a program that is started will print to, 0: of no interest. */
struct nc_outputs {
    uint64_t way[2];
};
/* Is a program, which gets this environment, another one than the agent? */
int nc_leaves_agent(char *const *given, int is_spawn);
/* `NOCLOBBER_COMMAND=...` for it, in `out` of NC_CHILD_ROOM bytes. 0: the
 * name that it has. */
int nc_child_command(char *out, const struct nc_outputs *outputs);
#define NC_CHILD_ROOM 256

/* What the agent takes in from its children is what they showed it. */
void nc_intake_begin(int fd, struct nc_description *of, const struct stat *st);
void nc_intake(struct nc_description *of, const void *bytes, ssize_t got);
void nc_intake_parts(struct nc_description *of, const struct iovec *parts,
                     int many, ssize_t got);
void nc_intake_tell(struct nc_description *of, int is_last);
void nc_intake_end(struct nc_description *of);
void nc_intake_forked(struct nc_description *of);
uint64_t nc_way_of(int fd); /* an output's inode as both its ends know it */

/* Files that the daemon looks at once more when they are closed. */
extern int nc_holds;
void nc_hold(const struct nc_version *version);
void nc_hold_drop(const struct nc_version *version);
void nc_holds_forget(void);
/* -1: refused, and the old content stands in it again. */
int nc_held_closing(int fd, const struct nc_description *of);
void nc_held_settle(enum nc_moment moment);

/* ---- replacing (opens.c, replaces.c, tree.c, deletes.c) ------------- */

struct nc_opening {
    enum nc_hook hook; /* which function the program called */
    int dirfd;
    const char *path;
    int flags;
    mode_t mode;
    const void *how; /* struct open_how, for openat2 */
    size_t how_size;
};

int nc_open(const struct nc_opening *opening);
int nc_shrink(int fd, off_t size); /* may it? for ftruncate and kin */
int nc_may_empty(int dirfd, const char *path, char *link, size_t link_size,
                 int *held);
int nc_may_rename(int from_dir, const char *from, int to_dir, const char *to,
                  unsigned flags);
void nc_note_renamed(int from_dir, const char *from, int to_dir, const char *to,
                     unsigned flags);

/* Does such an fallocate throw bytes away, if it succeeds? (holes.c) */
int nc_can_lose(int mode, off_t offset, off_t size, const struct stat *st);
int nc_can_clone(int to, int from);

/* What a path names, its last part not followed: a descriptor, or -1. */
int nc_look_at(int dirfd, const char *path, struct stat *st);
void nc_let_go(int fd, int kept); /* closes it; errno is `kept` */
/* The absolute path of a name, by its folder; its size, or 0. */
size_t nc_full_path(int dirfd, const char *path, char *out);

/* ---- creating anew (tombs.c, anew.c) -------------------------------- */

int nc_tombs_any(void); /* was anything deleted that might matter? */
int nc_tomb_may_stand(const char *path, size_t size); /* where there are any */
/* Says that a name is about to be deleted by a process that does not wait for
 * the daemon. 0: it cannot be said. */
int nc_tomb_mark(const char *path, size_t size);
/* May this file, just created and still empty, be there? -1: refused, and the
 * deleted one stands there again. `source`: what is to take its place, or -1.
 */
int nc_may_create(int fd, int source);
/* The same for a name that is about to be taken by a rename or a link. */
int nc_may_take_name(int dirfd, const char *path, int source);

/* ---- the read-only tier (readonly.c, metadata.c, attributes.c) -------- */

/* What the kernel asks for before it changes what a file is called, who may
 * use it, or what time it bears. */
enum nc_right { NC_RIGHT_OWN, NC_RIGHT_WRITE, NC_RIGHT_EITHER };

/* Each 0: go on, also where the call fails anyway; -1: refused, EPERM. */
int nc_may_change_fd(int fd, enum nc_right right);
/* `flags`: AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH. No path: `dirfd` itself. */
int nc_may_change(int dirfd, const char *path, int flags, enum nc_right right);
int nc_may_make(int dirfd, const char *path, int is_folder);
int nc_may_unname(int dirfd, const char *path, int is_folder);
int nc_may_move(int from_dir, const char *from, int to_dir, const char *to,
                unsigned flags);
int nc_may_join(int from_dir, const char *from, int to_dir, const char *to,
                int flags);
int nc_may_open(int dirfd, const char *path, int flags);
/* `flags` of setxattr, or: */
#define NC_REMOVES (-1)
int nc_may_set(const char *path, const char *name, int flags, int follow);
int nc_may_set_of(int fd, const char *name, int flags);
/* Of the system calls behind metadata.c's functions, by number. */
int nc_may_by_number(long number, const long v[6]);

#define NC_REFUSES(may) (nc_unlikely(nc_process.read_only) && (may))
#define NC_GUARDED(may, call) \
    if (NC_REFUSES(may))      \
        return -1;            \
    return call

/* ---- starting programs (process.c, spawn.c) ------------------------ */

/* Keeps the session's variables and the preload's path, past any change. */
void nc_environment_start(char **environment);
const char *nc_environment_get(const char *name); /* as kept, or NULL */

/* Entries that `nc_environment` needs room for. */
size_t nc_environment_size(char *const *given);
/* `given` with the session put back in where it is missing, for a program that
 * `loader` loads, built in `room` and `text`; or `given` itself. The stack is
 * the only memory: a vfork child comes here. */
char *const *nc_environment(char *const *given, char **room, char *text,
                            enum nc_loader loader,
                            const char *also); /* one entry more, or NULL */
/* The same for a program that is spawned, with outputs of its own. */
char *const *nc_environment_of(char *const *given, char **room, char *text,
                               enum nc_loader loader,
                               const struct nc_outputs *outputs,
                               const char *also);
/* The session's own entries alone. */
#define NC_OURS_ROOM 24
void nc_environment_ours(char *out[NC_OURS_ROOM]);
/* Is there a shim for what that loader loads? */
int nc_has_library(enum nc_loader loader);
#define NC_PRELOAD_ROOM (4096 + NC_CHILD_ROOM) /* bytes of `text` */
void nc_before_exec(void);
void nc_before_spawn(void);

/* A program that is about to start (starts.c). */
struct nc_start {
    int dirfd; /* the directory that it starts in, AT_FDCWD: this one */
    int at;    /* what `path` is relative to */
    const char *path;
    char *const *argv, *const *environment;
    int search;       /* a name without a slash is looked for in PATH */
    int may_be_empty; /* then `at` itself is the program */
};

/* What it is. `path` is then where it was found: NULL, nowhere. `found` has
 * NC_PATH_MAX bytes. */
struct nc_program nc_look_up(struct nc_start *start, char *found);

/* 0: it may. -1: git would destroy what is the host's, or change what may not
 * be changed; errno is EPERM. */
int nc_may_start(const struct nc_start *start);

/* ---- where the shim does not get (supervised.c) ---------------------- */

/* Puts this process under a supervisor if the program needs one: what its
 * environment then has to say, or NULL. */
const char *nc_supervised(const struct nc_start *start,
                          const struct nc_program *program);
/* The same for a program that the C library starts: the words of the one to
 * start in its place, for which there is room in `words`; or NULL. */
char **nc_spawned(const struct nc_start *start,
                  const struct nc_program *program, char **words);
/* Says to a supervisor that this process has the shim. */
void nc_presence_start(void);
#endif
