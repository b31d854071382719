#include "pages.h"

#include <errno.h>
#include <sys/mman.h>

#include "platform.h"

void *
nc_pages_get(size_t size)
{
    int kept = errno;
    void *start = nc_raw_mmap(NULL, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = kept;
    return start == MAP_FAILED ? NULL : start;
}

void
nc_pages_drop(void *start, size_t size)
{
    int kept = errno;
    nc_raw_munmap(start, size);
    errno = kept;
}
