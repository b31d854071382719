/* The shim's own file, as LD_PRELOAD names it. */
#ifndef NOCLOBBER_LIBRARY_H
#define NOCLOBBER_LIBRARY_H
#include <stddef.h>

#include "program.h"

#ifdef __APPLE__
#define NC_LIBRARY "libnoclobber.dylib"
#else
#define NC_LIBRARY "libnoclobber.so"
#endif

#define NC_LIBRARY_ROOM 4096 /* bytes of a path, with its NUL */

/* The shim for what `loader` loads, beside `library`: the one that the
 * launcher goes with, or another C library's, in a directory named after that.
 * `library`, `room`, or NULL where there is none. errno is kept. */
const char *nc_library_for(const char *library, enum nc_loader loader,
                           char room[NC_LIBRARY_ROOM]);

/* The first shim in a preload list, and its size; NULL: there is none. */
const char *nc_library_in(const char *list, size_t *size);

/* `list` with `library` as its only shim (NULL: without one), in the place of
 * the first, else behind the others, as they ask for: to `out`, ended by NUL.
 * 0: that does not fit `room` bytes. */
int nc_library_put(const char *list, const char *library, char *out,
                   size_t room);
#endif
