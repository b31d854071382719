/* What a process sent, taken in by the daemon: bytes and descriptors. */
#ifndef NOCLOBBER_RECEIVE_H
#define NOCLOBBER_RECEIVE_H
#include <stddef.h>
#include <stdint.h>

#define NC_RECEIVED_MAX 16 /* descriptors that come with one piece */

struct nc_received {
    int fds[NC_RECEIVED_MAX]; /* close-on-exec; the caller's to close */
    int count;
    int cut; /* there were more than fit: those are lost */
};

/* Takes in one piece of a stream, at most `size` bytes, with the descriptors
 * that came with it. Its size, 0 at the stream's end, or -errno (-EAGAIN:
 * nothing is there, and the socket does not block). */
int64_t nc_receive_piece(int sock, char *out, size_t size,
                         struct nc_received *with);
#endif
