/* Would the kernel do it? Of what it would not, nobody need be asked. */
#include <linux/falloc.h>
#include <linux/fs.h>

#include "shim.h"

/* The kernel's own rules: what breaks them loses nothing, and has its error. */
int
nc_can_lose(int mode, off_t offset, off_t size, const struct stat *st)
{
    off_t end;
    if (offset < 0 || size <= 0 || __builtin_add_overflow(offset, size, &end))
        return 0;
    switch (mode) {
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_ZERO_RANGE:
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
        return 1;
    case FALLOC_FL_COLLAPSE_RANGE:
        return !(offset % st->st_blksize) && !(size % st->st_blksize) &&
               end < st->st_size;
    default:
        return 0;
    }
}

/* Would the file system clone? It is asked for a byte from behind every end,
 * at odd places: who can clone says EINVAL, who cannot what it would say. */
int
nc_can_clone(int to, int from)
{
    const struct file_clone_range nowhere = {
        .src_fd = from,
        .src_offset = (1ULL << 60) + 1,
        .src_length = 1,
        .dest_offset = 1,
    };
    return nc_raw(ioctl, to, FICLONERANGE, &nowhere) && errno == EINVAL;
}
