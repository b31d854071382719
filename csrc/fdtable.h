/* Which descriptor is which open file description, and what this process
 * knows of each. Lock-free: hooks run in signal handlers and between fork and
 * exec. Where two threads meet at one description the later one gives its
 * credit up: less is known, never more. */
#ifndef NOCLOBBER_FDTABLE_H
#define NOCLOBBER_FDTABLE_H
#include "coverage.h"
#include "platform.h"
#include "protocol.h"

#define NC_FDS 65536         /* descriptors past this are not followed */
#define NC_DESCRIPTIONS 8192 /* followed at one time */
#define NC_PATH_KEPT 512     /* bytes of a path kept, longer: none */

enum nc_kind {
    NC_FILE = 1,   /* a regular file under a root */
    NC_FOLDER = 2, /* a directory: what `openat` is relative to */
    NC_CHANNEL = 3 /* a pipe */
};

enum nc_description_flags {
    NC_VERSIONED = 1,   /* `version` is set */
    NC_SHARED = 2,      /* others may move its offset: ask the kernel */
    NC_STREAM = 4,      /* stdio reads it: the offset is sampled */
    NC_WRITER = 8,      /* open for writing */
    NC_READER = 16,     /* open for reading */
    NC_APPENDER = 32,   /* O_APPEND */
    NC_FRESH = 64,      /* empty when opened, or emptied then */
    NC_MADE = 128,      /* created by this very open */
    NC_NEWS = 256,      /* holds what was not yet reported */
    NC_ELDER = 512,     /* older than this process image */
    NC_BORROWED = 1024, /* its news came by fork: the parent reports it */
    NC_SOURCED = 2048,  /* a script that a shell takes its orders from */
    NC_WHOLE = 4096,    /* a folder with one area for all that is below it */
    NC_CANONICAL = 8192 /* a folder whose `path` the kernel told */
};

/* What each read touches comes first, in one line of the processor's cache: up
 * to the first range of `coverage`. */
struct nc_description {
    uint32_t busy;     /* somebody is at `coverage` */
    uint32_t flags;    /* enum nc_description_flags */
    uint32_t kind;     /* enum nc_kind */
    uint32_t epoch;    /* of the process when it was opened */
    uint64_t position; /* where the next read begins, in bytes */
    uint64_t block;    /* where the last read began */
    struct nc_coverage coverage;
    uint32_t refs;             /* descriptors and mappings; 0: free */
    uint32_t area;             /* a folder's area */
    uint64_t bytes;            /* that went through a pipe */
    struct nc_version version; /* when reading began; a pipe's identity */
    struct nc_version opened;  /* a writer's, when it was opened */
    void *stream;             /* stdio's FILE that writes through it, or NULL */
    struct nc_intake *intake; /* what the agent takes in by it, or NULL */
    uint16_t path_size;
    char path[NC_PATH_KEPT];
};

/* What a descriptor is: unknown (never looked at), nothing (looked at: not
 * followed) or a description. */
#define NC_UNKNOWN ((struct nc_description *)0)
#define NC_NOTHING ((struct nc_description *)1)

extern uint32_t nc_slots[NC_FDS]; /* fdtable.c */
extern struct nc_description nc_descriptions[NC_DESCRIPTIONS];

static inline struct nc_description *
nc_fd_get(int fd)
{
    if ((unsigned)fd >= NC_FDS)
        return NC_NOTHING;
    uint32_t slot = __atomic_load_n(&nc_slots[fd], __ATOMIC_ACQUIRE);
    if (slot < 2)
        return slot ? NC_NOTHING : NC_UNKNOWN;
    return &nc_descriptions[slot - 2];
}

int nc_fd_last(void); /* the highest descriptor ever set */

/* A new description with no reference, or NULL where the table is full. */
struct nc_description *nc_description_new(enum nc_kind kind);

/* Points fd at a description (which gains a reference), at NC_NOTHING or at
 * NC_UNKNOWN. Returns the description that fd was the last reference to,
 * still whole: the caller reports it, then gives it to nc_description_free. */
struct nc_description *nc_fd_set(int fd, struct nc_description *to);

void nc_description_hold(struct nc_description *held);
/* 1 where that was the last reference. */
int nc_description_release(struct nc_description *held);
void nc_description_free(struct nc_description *gone);

/* Exclusive use of a description's coverage, without ever waiting long:
 * 0 where it cannot be had (a signal handler meets its own thread). */
int nc_description_enter(struct nc_description *entered);
void nc_description_leave(struct nc_description *entered);

/* The same for each read: the first try is all that it nearly ever takes, and
 * needs nothing atomic where only a signal's handler may come between. */
static inline int
nc_description_try(struct nc_description *entered)
{
    uint32_t idle = 0;
    if (__builtin_expect(nc_is_alone() && !entered->busy, 1)) {
        entered->busy = 1;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        return 1;
    }
    return __atomic_compare_exchange_n(&entered->busy, &idle, 1, 0,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) ||
           nc_description_enter(entered);
}
#endif
