/* Where the daemon listens. */
#ifndef NOCLOBBER_PATHS_H
#define NOCLOBBER_PATHS_H
#include <stddef.h>

/* Write the path of the user's socket, with its NUL, to `out` of `size`
 * bytes. Nothing is created. Returns 0, or -1 with errno: ENAMETOOLONG where
 * `out` is too small, ENOENT where the user has no home. The path may be
 * longer than sun_path (108 bytes): reach it through a descriptor of its
 * directory then. */
int nc_socket_path(char *out, size_t size);
#endif
