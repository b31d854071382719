/* An allocator to preload: it opens a file on its first call, as jemalloc
 * does, and ends the program with 86 if that leads back into it. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static char room[1 << 26];
static size_t used;
static int is_set_up;
static __thread int inside;

static void
set_up(void)
{
    char text[16];
    is_set_up = inside = 1;
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text) < 1 || close(fd))
        _exit(87);
    inside = 0;
}

static void *
take(size_t align, size_t size)
{
    if (inside)
        _exit(86);
    if (!is_set_up)
        set_up();
    size_t need = size + align + 16;
    size_t at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
    if (at + need > sizeof room)
        _exit(88);
    uintptr_t start = (uintptr_t)room + at + 16;
    start = (start + align - 1) / align * align;
    ((size_t *)start)[-1] = size;
    return (void *)start;
}

void *
malloc(size_t size)
{
    return take(16, size);
}

void
free(void *old)
{
    (void)old;
}

void *
calloc(size_t many, size_t size)
{
    return malloc(many * size); /* never used before, and so zero */
}

void *
realloc(void *old, size_t size)
{
    void *fresh = malloc(size);
    size_t before = old ? ((size_t *)old)[-1] : 0;
    if (old)
        memcpy(fresh, old, before < size ? before : size);
    return fresh;
}

void *
memalign(size_t align, size_t size)
{
    return take(align < 16 ? 16 : align, size);
}

void *
aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int
posix_memalign(void **out, size_t align, size_t size)
{
    *out = memalign(align, size);
    return 0;
}
