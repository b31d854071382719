/* Sets of half-open byte ranges: what was read of one version of a file. */
#ifndef NOCLOBBER_COVERAGE_H
#define NOCLOBBER_COVERAGE_H
#include "protocol.h"

#define NC_OWN_RANGES 2     /* held without any allocation */
#define NC_MOST_RANGES 4096 /* a set never grows past this */

/* Ranges are ascending, disjoint and never touch. Zeroed memory is an empty
 * set. A set must not be moved or copied by assignment. */
struct nc_coverage {
    struct nc_range *more; /* NULL: `own` is in use */
    uint32_t count;
    uint32_t room; /* of `more` */
    struct nc_range own[NC_OWN_RANGES];
};

/* Adds [start, end). Where the set is full (or memory is), the range is left
 * out and -1 returned: less is known, never more. */
int nc_coverage_add(struct nc_coverage *set, uint64_t start, uint64_t end);

/* Adds [start, end) where it is the first range, goes on from the last one, or
 * was read before: nearly all there is. 0 where it does none of it. */
static inline int
nc_coverage_extend(struct nc_coverage *set, uint64_t start, uint64_t end)
{
    if (start >= end)
        return 0;
    struct nc_range *last = set->more ? set->more : set->own;
    if (!set->count) {
        set->count = 1;
        *last = (struct nc_range){start, end};
        return 1;
    }
    last += set->count - 1;
    if (last->end == start)
        last->end = end;
    return last->start <= start && last->end >= end;
}

/* Takes [start, end) out. A full set may lose more than was asked for. */
void nc_coverage_remove(struct nc_coverage *set, uint64_t start, uint64_t end);

/* 1 where every byte of [start, end) is in the set. */
int nc_coverage_holds(const struct nc_coverage *set, uint64_t start,
                      uint64_t end);

/* Bytes in the set. */
uint64_t nc_coverage_size(const struct nc_coverage *set);

/* The ranges themselves, `set->count` of them. */
const struct nc_range *nc_coverage_ranges(const struct nc_coverage *set);

/* Empties the set and gives its memory back. */
void nc_coverage_clear(struct nc_coverage *set);
#endif
