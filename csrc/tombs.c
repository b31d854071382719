/* Creating anew what this session deleted. Nearly every creation is of a name
 * that nobody deleted, and costs a look at a page that the daemon shares:
 * where the path's slot is empty there is nothing to ask. */
#include <string.h>

#include "shim.h"

#define TOMBS_NAME "tombs" /* beside the daemon's socket */

static const struct nc_tombs *tombs;
static struct nc_tombs *marks; /* the same where we may write, or NULL */
static int looked;             /* 1: `tombs` is as it will be */
/* What this process marked: the daemon may take a mark out before it has heard
 * of the deletion. */
#define OWN_KEPT 64
NC_COLD static uint64_t own[OWN_KEPT];
static unsigned own_count;
NC_COLD static struct nc_tombs all_taken;

uint64_t
nc_tomb_hash(const char *path, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)path[i]) * 0x100000001b3U;
    return hash;
}

static const struct nc_tombs *
look(void)
{
    if (__atomic_load_n(&looked, __ATOMIC_ACQUIRE))
        return tombs;
    struct nc_tombs *found =
        nc_shared_page(TOMBS_NAME, sizeof *tombs, PROT_READ | PROT_WRITE);
    const struct nc_tombs *seen = found;
    if (!seen)
        seen = nc_shared_page(TOMBS_NAME, sizeof *tombs, PROT_READ);
    if (!seen && nc_environment_get("NOCLOBBER_LIFELINE")) {
        /* out of sight in this namespace: ask each time */
        all_taken.count = 1;
        seen = &all_taken;
    }
    marks = found;
    tombs = seen;
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    return seen;
}

int
nc_tombs_any(void)
{
    const struct nc_tombs *page = look();
    return page &&
           (own_count || __atomic_load_n(&page->count, __ATOMIC_ACQUIRE));
}

int
nc_tomb_may_stand(const char *path, size_t size)
{
    const struct nc_tombs *page = tombs;
    if (page == &all_taken)
        return 1;
    uint64_t hash = nc_tomb_hash(path, size);
    for (unsigned i = 0; i < own_count && i < OWN_KEPT; i++)
        if (own[i] == hash)
            return 1;
    return page->slots[hash % NC_TOMB_SLOTS] != 0;
}

int
nc_tomb_mark(const char *path, size_t size)
{
    (void)look();
    if (!marks)
        return 0;
    uint64_t hash = nc_tomb_hash(path, size);
    own[own_count++ % OWN_KEPT] = hash;
    marks->slots[hash % NC_TOMB_SLOTS] = UINT8_MAX;
    __atomic_store_n(&marks->count, 1, __ATOMIC_RELEASE);
    return 1;
}
