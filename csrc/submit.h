/* How a process comes under a supervisor (submit.c, filter.c), and how the
 * supervisor tells what it has to do with (supervise.c and its parts). */
#ifndef NOCLOBBER_SUBMIT_H
#define NOCLOBBER_SUBMIT_H
#include "platform.h"

#include <linux/filter.h>
#include <stdint.h>

/* Kinds of system calls; calls.def has their numbers. */
enum nc_call_kind {
    NC_CALL_NONE,
#define CALL(kind, test, x86_64, i386, aarch64, arm) kind,
#include "calls.def"
#undef CALL
    NC_CALL_KINDS
};

/* What a kernel calls them by: the number of the kind, or NC_CALL_NONE.
 * `arch` is of enum AUDIT_ARCH. */
enum nc_call_kind nc_call_kind_of(uint32_t arch, int number);

/* The filter: what can replace is asked about. Reads are, where they come from
 * code that is not the C library's (`broad`: wherever they come from). Nothing
 * else costs more than the kernel's own look at a bitmap. */
#define NC_FILTER_ROOM 512
unsigned nc_filter(struct sock_filter out[NC_FILTER_ROOM], int broad);

/* In every process that the shim enters under a supervisor a page at a fixed
 * address says so: what the C library calls there, the shim has settled. */
#define NC_PRESENCE_AT 0x6e6f630000UL
#define NC_PRESENCE_MAGIC 0x7262626f6c636f6eUL /* "noclobbr" */
#define NC_PRESENCE_CODES 6

struct nc_presence {
    uint64_t magic;
    uint64_t token_at; /* the address of the image's token, 0: not yet named */
    struct {
        uint64_t start, end;
    } codes[NC_PRESENCE_CODES]; /* the C library's and the shim's */
};

enum nc_submitted {
    NC_SUBMITTED,     /* what this process executes next is supervised */
    NC_NO_SUPERVISOR, /* it could not be started, or does not answer */
    NC_FORBIDDEN,     /* a sandbox allows no filter */
    NC_TAKEN,         /* another program supervises this process already */
    NC_NO_KERNEL      /* before Linux 5.19 */
};

struct nc_submission {
    const char *supervisor;   /* its program */
    char *const *environment; /* of which it gets what begins NOCLOBBER_ */
    int broad;
    int (*clone)(int (*run)(void *), void *stack, int flags, void *argument,
                 ...); /* the C library's */
};

/* Starts a supervisor and puts this thread under its filter. Takes no memory
 * but the stack's: a vfork child may come here. errno is kept. */
enum nc_submitted nc_submit(const struct nc_submission *submission);

/* What is to be said where that fails, without a line's end. */
const char *nc_submit_trouble(enum nc_submitted how);

/* The words that a supervisor is started with. */
#define NC_SUPERVISOR "noclobber-supervise"
#define NC_SERVES "--serve"
#define NC_SOCKET \
    3 /* its descriptor; it sends a pid_t, and takes the listener */
#endif
