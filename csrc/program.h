/* What guards a program that is about to start, by what its file says. */
#ifndef NOCLOBBER_PROGRAM_H
#define NOCLOBBER_PROGRAM_H

enum nc_cover {
    NC_COVER_PRELOAD,    /* the shim enters it; also where nothing is known */
    NC_COVER_OTHER,      /* the shim built for the other C library would */
    NC_COVER_SUPERVISOR, /* the shim cannot enter it, or sees little in it */
    NC_COVER_NONE,       /* started with privileges that it has of its own */
};

enum nc_reason {
    NC_REASON_UNKNOWN,    /* no program known here; broken, perhaps */
    NC_REASON_MISSING,    /* it cannot be looked at: starting it fails */
    NC_REASON_NO_FILE,    /* a directory, a FIFO, a device: likewise */
    NC_REASON_UNREADABLE, /* may be executed and not be read */
    NC_REASON_GLIBC,      /* loaded by glibc's loader, or that itself */
    NC_REASON_MUSL,       /* by musl's */
    NC_REASON_LOADER,     /* by one that is known for neither */
    NC_REASON_STATIC,     /* no loader */
    NC_REASON_STATIC_PIE, /* no loader, at no fixed address */
    NC_REASON_GO,         /* Go makes its system calls itself */
    NC_REASON_BUN,        /* so does Bun, and what it compiled */
    NC_REASON_MACHINE,    /* built for another machine, or for 32 bits */
    NC_REASON_SET_ID,     /* becomes another user or group */
    NC_REASON_CAPABLE,    /* has file capabilities */
    NC_REASON_SCRIPT,     /* of nc_cover_step alone: `#!` */
};

/* Who takes up LD_PRELOAD, and refuses a library made for another. */
enum nc_loader {
    NC_LOADER_NONE, /* nobody, or not known */
    NC_LOADER_GLIBC,
    NC_LOADER_MUSL,
    NC_LOADER_OTHER, /* has no library here */
};

struct nc_program {
    enum nc_cover cover;
    enum nc_reason why;
    enum nc_loader loader;
};

/* Bytes: the kernel looks at no more of a script (BINPRM_BUF_SIZE). */
#define NC_SCRIPT_ROOM 256

/* What covers the program at `path`, relative to `dirfd` and "" for `dirfd`
 * itself, if this process executes it now; of a script, its interpreter.
 * Opens nothing but a regular file. No memory, no lock, no cache: about 5 us
 * beside the 300 of the start (a child that bash forked would find a cache
 * empty). errno is kept. */
struct nc_program nc_cover_of(int dirfd, const char *path);

/* The same, but that a script is NC_REASON_SCRIPT, what follows its `#!` in
 * `line`, up to the end of the line and ended by NUL. */
struct nc_program nc_cover_step(int dirfd, const char *path,
                                char line[NC_SCRIPT_ROOM]);

/* The first of that name in PATH that can be executed, or NULL; `name` itself
 * where it has a slash. `out` has 4096 bytes. errno is kept. */
const char *nc_search(const char *name, char *out);
#endif
