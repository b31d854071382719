/* noclobber-supervise: stands for the shim where the shim does not get. A
 * kernel's filter (filter.c) asks it before a supervised process opens for
 * writing, shrinks, renames or deletes; it asks the daemon in that process's
 * name, as the shim does.
 *
 *   supervise.c  the process: its start, its threads, its end
 *   images.c     whose call it is
 *   peek.c       its memory, and what /proc says of it
 *   words.c      what is said to the daemon in its name
 *   lookup.c     paths, as the process means them
 *   asking.c     the question, and what a refusal does
 *   opening.c    openings, made in the process's stead
 *   shrinking.c  truncate, ftruncate, and other ways to throw bytes away
 *   naming.c     renames, links, deletions
 *   kept.c       what was opened: what came of it
 *   execs.c      programs started
 *
 * Several threads take calls, so that one long answer keeps no other process
 * waiting. `nc_tables` guards the images and what was opened; nobody holds it
 * over a question. */
#ifndef NOCLOBBER_SUPERVISE_H
#define NOCLOBBER_SUPERVISE_H
#include "client.h"
#include "submit.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>

/* One system call that waits. */
struct nc_notice {
    uint64_t id;
    pid_t tid;
    enum nc_call_kind kind;
    int number;
    bool is_narrow; /* 32 bits */
    uint64_t args[6];
    uint64_t pointer; /* behind the instruction that made it */
};

/* What becomes of it: each thread's handler returns one of these, or an errno
 * that the process is to get. */
enum { NC_GO_ON = -1 /* the kernel does it */, NC_SENT = -2 /* answered */ };

extern int nc_listener;
extern pthread_mutex_t nc_tables;

bool nc_notice_stands(const struct nc_notice *notice); /* it still waits */
/* Answers it with a value. */
void nc_notice_return(const struct nc_notice *notice, int64_t value);
/* Puts a descriptor of ours into the process: its number there, or -errno.
 * `at`: the number that it is to have, or -1. */
int nc_notice_give(const struct nc_notice *notice, int fd, int at,
                   bool is_closed_on_exec);

/* ---- images.c -------------------------------------------------------- */

#define NC_MOST_REFUSED 16
#define NC_MOST_SCOPES 8
#define NC_IMAGE_WORDS NC_ARGV_MAX

/* A process from exec or fork to exec or exit. */
struct nc_image {
    struct nc_image *next;
    int uses; /* threads at it, and what was opened */
    pid_t pid;
    int pidfd;
    bool is_over;    /* it has ended, or is another program */
    bool is_pending; /* its exec was asked for; nothing is known to have come */
    bool has_shim;   /* and so a token of its own */
    uint64_t token, parent;
    uint64_t random_at, random[2]; /* AT_RANDOM: one for each exec */
    struct nc_presence presence;
    char exe[NC_PATH_MAX];
    char words[NC_IMAGE_WORDS];
    size_t words_size;
    bool shares_root;       /* its paths mean the same here */
    struct stat stdio[3];   /* st_ino 0: closed, or not looked at */
    uint64_t told_pipes[3]; /* bytes, plus 1 */
    pthread_mutex_t asking, sending;
    int sock; /* to the daemon, or -1 */
    struct {
        uint64_t dev, ino;
    } refused[NC_MOST_REFUSED];
    unsigned refusals;
    char *scopes[NC_MOST_SCOPES];
    int scope_count;
};

/* Whose call it is: to be released. NULL: the process is gone, cannot be looked
 * into, or the shim in it has settled the call. */
struct nc_image *nc_image_of(const struct nc_notice *notice);
void nc_image_release(struct nc_image *image);
void nc_image_let_go(struct nc_image *image); /* where nc_tables is held */
/* A program is about to start in that process. */
struct nc_image *nc_image_expect(pid_t pid, const char *exe, const char *words,
                                 size_t words_size);
/* Looks which have ended; whether any is left. */
void nc_images_look(void);
/* Those whose end is to be waited for: pidfds, at most `most`. */
int nc_images_alive(int *out, int most);
/* Says which pipes images read from and write to; nc_tables is held. */
void nc_images_tell_pipes(void);

/* ---- peek.c ----------------------------------------------------------- */

#define NC_STATUS_ROOM 8192 /* bytes of /proc/PID/status */

/* Reads from a process's memory: what could be read. */
size_t nc_peek(pid_t tid, uint64_t from, void *out, size_t size);
/* A string with its end. -1: not to be read, or too long. */
int nc_peek_path(pid_t tid, uint64_t from, char out[NC_PATH_MAX]);
/* A file of /proc/PID, ended by NUL: its size. */
size_t nc_read_of(pid_t pid, const char *name, char *out, size_t room);
const char *nc_field(const char *text, const char *name); /* what follows it */
pid_t nc_process_of(pid_t tid);                           /* 0: gone */
pid_t nc_parent_of(pid_t tid);
uint64_t nc_random_of(pid_t tid); /* where AT_RANDOM is, 0: not known */
bool nc_shares_root(pid_t tid);
bool nc_has_no_new_privileges(pid_t tid);
/* May what a process does be done in its stead? And its mask for new files. */
bool nc_image_agrees(struct nc_image *image, pid_t tid, mode_t *mask);

/* ---- words.c ------------------------------------------------------------ */

/* Sends a record in an image's name. 0, or -1. */
int nc_image_send(struct nc_image *image, const void *data, size_t size,
                  const int *fds, int count);
int nc_image_connect(struct nc_image *image); /* `sending` is held */
void nc_image_tell_pipes(struct nc_image *image);

/* ---- lookup.c -------------------------------------------------------- */

/* What a path leads to. */
struct nc_found {
    int fd; /* O_PATH, or -1: nothing is there */
    struct stat st;
    int folder; /* O_PATH: where it is or would be; -1: not known */
    char name[256];
    char path[NC_PATH_MAX]; /* absolute, as we see it */
    size_t size;            /* of it; 0: not known */
    enum nc_area area;
};

/* 0, or the errno that the kernel would say. `follows`: a link at its end. */
int nc_resolve(const struct nc_image *image, pid_t tid, int dirfd,
               const char *path, bool follows, struct nc_found *out);
void nc_found_drop(struct nc_found *found);
/* What a descriptor of the process stands for: O_PATH, or -1. */
int nc_resolve_fd(pid_t tid, int fd, struct nc_found *out);

/* ---- asking.c -------------------------------------------------------- */

/* 0: go on. EPERM: refused, and the process was told. */
int nc_judge(struct nc_image *image, pid_t tid, const struct nc_ask *ask);
bool nc_image_was_refused(struct nc_image *image, const struct stat *st);
/* A line on the process's standard error. */
void nc_tell_process(struct nc_image *image, pid_t tid, const char *text,
                     size_t size);
/* May a file, just created and empty, be there? As nc_judge. */
int nc_judge_creation(struct nc_image *image, pid_t tid, int fd, int source,
                      const char *path, size_t size);

/* ---- kept.c ----------------------------------------------------------- */

/* What was opened stays here until its process ends: `fd` is ours from now on.
 * For reading it shares its offset with the process, for writing it is O_PATH. */
struct nc_keeping {
    struct nc_image *image;
    int fd;
    bool is_writer, is_reader, is_made, appends, is_elder;
    const char *path;
    size_t path_size;
};
void nc_keep_open(const struct nc_keeping *what);
/* Tells the daemon whatever is new; of `only` if that is not NULL. */
void nc_kept_tell(struct nc_image *only);
/* Lets go of what an image opened that has ended. */
void nc_kept_drop(struct nc_image *image);
void nc_kept_drop_file(const struct stat *st);
/* Of a read that does not go by the offset. */
int nc_kept_seeks(const struct nc_notice *notice, struct nc_image *image);
int nc_kept_reads(const struct nc_notice *notice, struct nc_image *image);
int nc_kept_locks(const struct nc_notice *notice, struct nc_image *image);

/* ---- the calls --------------------------------------------------------- */

int nc_call_open(const struct nc_notice *notice, struct nc_image *image);
int nc_call_shrink(const struct nc_notice *notice, struct nc_image *image);
int nc_call_name(const struct nc_notice *notice, struct nc_image *image);
int nc_call_exec(const struct nc_notice *notice);
int nc_call_listen(const struct nc_notice *notice);
#endif
