/* One call of one entry point, and what came of it. Each is run in a process
 * of its own, on a file of its own. */
#ifndef ENTRY_H
#define ENTRY_H
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind {
    REPLACES = 'r', /* throws the file's content away */
    READS = 'g',    /* gets the bytes from 0 to `upto` of the file */
    PASSES = 'p',   /* never refused, whatever was read */
    AFTER = 'a',    /* what a process tries after a refusal */
    STARTS = 's',   /* starts this program anew, which then replaces */
    ENDS = 'x',     /* ends the process, after it read and wrote */
    FAILS = 'e',    /* the kernel's or the library's own error */
    CHANGES = 'm',  /* passes, but in the read-only tier */
    BADLY = 'b'     /* such a call, with the kernel's own error */
};

/* `name` is a name of hooks.def, or that and `:` and a variety of it. */
struct entry {
    const char *name;
    long (*run)(const char *path, long upto);
    enum kind kind;
};

extern const struct entry replaces[], reads[], passes[], starts[], fails[];
extern const struct entry changes[], change_fails[], talks[];

/* The C library's names behind macros and inlines: always a real call. */
#ifdef __GLIBC__
#define NAMED(type, own, symbol, parameters) \
    extern type own parameters __asm__(#symbol)
#define is_lacking(name) 0
#else
#define NAMED(type, own, symbol, parameters) \
    extern type own parameters __asm__(#symbol) __attribute__((weak))
#include "entry_musl.h"
#endif

extern char buffer[1 << 19];
extern const char *self;            /* the path of this program */
int plain_open(const char *path, int flags);
long read_until(int fd, long upto); /* by read(2) */
long got_file(const char *path, long upto);
long put_file(const char *path, const char *text);
long ended(pid_t child); /* exit status, or -signal */
const char *beside(const char *path, const char *tail); /* PATH.TAIL */
#endif
