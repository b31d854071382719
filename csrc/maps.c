/* Mapped files: counted by the pages that were in fact touched, which the
 * kernel tells while the mapping stands. */
#include <string.h>

#include "shim.h"

#define MOST_MAPS 64
#define PAGES_AT_ONCE 512
#define PAGE_PRESENT (1ULL << 63)
#define PAGE_SWAPPED (1ULL << 62)
#define CLAIMED ((char *)1) /* being filled in by another thread */

NC_COLD static struct map {
    char *start; /* NULL: free */
    size_t size;
    uint64_t offset;
    struct nc_description *of;
    struct nc_version version;
} maps[MOST_MAPS];
static int used_maps; /* slots past this were never used */

static void
count_touched(const struct map *map, const char *from, const char *to)
{
    size_t page = (size_t)getauxval(AT_PAGESZ);
    int pagemap =
        nc_raw_open(AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    uint64_t end_of_file = map->version.size;
    uint64_t touched[PAGES_AT_ONCE];
    for (const char *at = from; at < to;) {
        size_t pages = ((size_t)(to - at) + page - 1) / page;
        if (pages > PAGES_AT_ONCE)
            pages = PAGES_AT_ONCE;
        ssize_t got =
            pagemap < 0
                ? -1
                : nc_raw(pread64, pagemap, touched, pages * sizeof *touched,
                         (off_t)((uintptr_t)at / page * sizeof *touched));
        for (size_t i = 0; i < pages; i++, at += page) {
            /* where the platform cannot tell: the mapping */
            int is_touched =
                got < 0 || ((size_t)got >= (i + 1) * sizeof *touched &&
                            (touched[i] & (PAGE_PRESENT | PAGE_SWAPPED)));
            uint64_t start = map->offset + (uint64_t)(at - map->start);
            uint64_t end =
                start + page < end_of_file ? start + page : end_of_file;
            if (is_touched)
                nc_credit(-1, map->of, start, end);
        }
    }
    if (pagemap >= 0)
        nc_raw_close(pagemap);
}

static void
drop(struct map *map, enum nc_moment moment)
{
    struct nc_description *of = map->of;
    __atomic_store_n(&map->start, NULL, __ATOMIC_RELEASE);
    if (nc_description_release(of)) {
        nc_tell(-1, of, moment);
        nc_description_free(of);
    }
}

void
nc_maps_settle(enum nc_moment moment)
{
    int used = __atomic_load_n(&used_maps, __ATOMIC_ACQUIRE);
    for (int i = 0; i < used; i++) {
        struct map *map = &maps[i];
        if (__atomic_load_n(&map->start, __ATOMIC_ACQUIRE) <= CLAIMED)
            continue;
        count_touched(map, map->start, map->start + map->size);
        if (map->of->refs == 1) /* its descriptor is closed by now */
            nc_tell(-1, map->of, moment);
    }
}

static void
mapped(void *start, size_t size, int fd, off_t offset)
{
    struct nc_description *of = nc_look(fd);
    if (of == NC_NOTHING || of == NC_UNKNOWN || of->kind != NC_FILE)
        return;
    int kept = errno;
    if (!(of->flags & NC_VERSIONED)) {
        struct stat st;
        if (nc_stat(fd, &st) || !S_ISREG(st.st_mode)) {
            errno = kept;
            return;
        }
        nc_version_from(&of->version, &st);
        of->flags |= NC_VERSIONED;
    }
    errno = kept;
    for (int i = 0; i < MOST_MAPS; i++) {
        char *none = NULL;
        if (!__atomic_compare_exchange_n(&maps[i].start, &none, CLAIMED, 0,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        int used = __atomic_load_n(&used_maps, __ATOMIC_RELAXED);
        while (used <= i &&
               !__atomic_compare_exchange_n(&used_maps, &used, i + 1, 0,
                                            __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
        maps[i].size = size;
        maps[i].offset = (uint64_t)offset;
        maps[i].version = of->version;
        maps[i].of = of;
        nc_description_hold(of);
        __atomic_store_n(&maps[i].start, start, __ATOMIC_RELEASE);
        return;
    }
}

static void
unmapping(char *start, size_t size)
{
    int kept = errno;
    int used = __atomic_load_n(&used_maps, __ATOMIC_ACQUIRE);
    for (int i = 0; i < used; i++) {
        struct map *map = &maps[i];
        char *begin = __atomic_load_n(&map->start, __ATOMIC_ACQUIRE);
        if (begin <= CLAIMED || start >= begin + map->size ||
            begin >= start + size)
            continue;
        char *from = start > begin ? start : begin;
        char *to =
            start + size < begin + map->size ? start + size : begin + map->size;
        count_touched(map, from, to);
        if (from == begin && to == begin + map->size)
            drop(map, NC_AT_CLOSE);
        else if (to == begin + map->size)
            map->size = (size_t)(from - begin);
    }
    errno = kept;
}

#define MAP(name)                                                       \
    void *got = REAL(name)(start, size, protection, flags, fd, offset); \
    if (fd >= 0 && got != MAP_FAILED && nc_process.active &&            \
        (protection & PROT_READ) && !(protection & PROT_EXEC) &&        \
        !(flags & MAP_ANONYMOUS) && !nc_is_guest())                     \
        mapped(got, size, fd, offset);                                  \
    return got

NC_EXPORT void *
mmap(void *start, size_t size, int protection, int flags, int fd, off_t offset)
{
    MAP(mmap);
}

NC_EXPORT void *
mmap64(void *start, size_t size, int protection, int flags, int fd,
       off_t offset)
{
    MAP(mmap64);
}

NC_EXPORT int
munmap(void *start, size_t size)
{
    if (nc_process.active && !nc_is_guest())
        unmapping(start, size);
    return REAL(munmap)(start, size);
}
