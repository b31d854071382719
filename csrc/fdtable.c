#include "fdtable.h"

#include <stddef.h>
#include <string.h>

#include "pages.h"

#define ENTER_TRIES 2000 /* a critical section is some 10 ns long */

/* All of this is zero, so that untouched pages cost nothing. Slot values: 0
 * unknown, 1 nothing, n + 2 the description n. */
NC_COLD uint32_t nc_slots[NC_FDS];
NC_COLD __attribute__((
    aligned(64))) struct nc_description nc_descriptions[NC_DESCRIPTIONS];
static uint32_t next_free; /* where to look for a free one first */
static int last_fd = -1;

int
nc_fd_last(void)
{
    return __atomic_load_n(&last_fd, __ATOMIC_RELAXED);
}

struct nc_description *
nc_description_new(enum nc_kind kind)
{
    uint32_t start = __atomic_load_n(&next_free, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < NC_DESCRIPTIONS; i++) {
        uint32_t at = (start + i) % NC_DESCRIPTIONS;
        struct nc_description *found = &nc_descriptions[at];
        uint32_t unused = 0;
        if (__atomic_load_n(&found->refs, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&found->refs, &unused, UINT32_MAX, 0,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&next_free, at, __ATOMIC_RELAXED);
        found->busy = 0;
        found->flags = 0;
        found->kind = kind;
        found->epoch = 0;
        found->area = 0;
        found->position = found->block = found->bytes = 0;
        found->path_size = 0;
        found->stream = NULL;
        found->intake = NULL;
        memset(&found->version, 0, sizeof found->version);
        memset(&found->opened, 0, sizeof found->opened);
        return found; /* refs stays UINT32_MAX until the first hold */
    }
    return NULL;
}

void
nc_description_hold(struct nc_description *held)
{
    uint32_t none = UINT32_MAX;
    if (!__atomic_compare_exchange_n(&held->refs, &none, 1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        __atomic_add_fetch(&held->refs, 1, __ATOMIC_ACQ_REL);
}

int
nc_description_release(struct nc_description *held)
{
    uint32_t refs = __atomic_load_n(&held->refs, __ATOMIC_ACQUIRE);
    do {
        /* the last one stays marked as in use until it is freed */
        if (refs == 1 || refs == UINT32_MAX)
            return 1;
        if (refs == 0)
            return 0;
    } while (!__atomic_compare_exchange_n(&held->refs, &refs, refs - 1, 0,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return 0;
}

void
nc_description_free(struct nc_description *gone)
{
    nc_coverage_clear(&gone->coverage);
    __atomic_store_n(&gone->refs, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&next_free, (uint32_t)(gone - nc_descriptions),
                     __ATOMIC_RELAXED);
}

struct nc_description *
nc_fd_set(int fd, struct nc_description *to)
{
    if ((unsigned)fd >= NC_FDS)
        return NULL;
    uint32_t slot = 0;
    if (to == NC_NOTHING) {
        slot = 1;
    } else if (to != NC_UNKNOWN) {
        slot = (uint32_t)(to - nc_descriptions) + 2;
        nc_description_hold(to);
    }
    int last = __atomic_load_n(&last_fd, __ATOMIC_RELAXED);
    while (fd > last &&
           !__atomic_compare_exchange_n(&last_fd, &last, fd, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    slot = __atomic_exchange_n(&nc_slots[fd], slot, __ATOMIC_ACQ_REL);
    if (slot < 2)
        return NULL;
    struct nc_description *was = &nc_descriptions[slot - 2];
    return nc_description_release(was) ? was : NULL;
}

int
nc_description_enter(struct nc_description *entered)
{
    for (int i = 0; i < ENTER_TRIES; i++) {
        uint32_t idle = 0;
        if (__atomic_compare_exchange_n(&entered->busy, &idle, 1, 0,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

void
nc_description_leave(struct nc_description *entered)
{
    __atomic_store_n(&entered->busy, 0, __ATOMIC_RELEASE);
}
