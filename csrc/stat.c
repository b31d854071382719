/* What a file is at a moment, by the kernel's word. */
#include "shim.h"

void
nc_version_from(struct nc_version *out, const struct stat *st)
{
    out->dev = (uint64_t)st->st_dev;
    out->ino = (uint64_t)st->st_ino;
    out->size = (uint64_t)st->st_size;
    out->mtime = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    out->ctime = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

int
nc_stat(int fd, struct stat *out)
{
#if defined(SYS_newfstatat) || defined(SYS_fstat)
    return (int)nc_raw(fstat, fd, out);
#else
#error "no fstat"
#endif
}
