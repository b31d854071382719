/* Sets of half-open byte ranges. No malloc: this runs inside malloc's own
 * callers, so what does not fit into the set itself lives in mapped pages. */
#include "coverage.h"

#include <string.h>

#include "pages.h"

static struct nc_range *
ranges_of(struct nc_coverage *set)
{
    return set->more ? set->more : set->own;
}

const struct nc_range *
nc_coverage_ranges(const struct nc_coverage *set)
{
    return set->more ? set->more : set->own;
}

static int
grow(struct nc_coverage *set)
{
    uint32_t room = set->more ? set->room : NC_OWN_RANGES;
    if (set->count < room)
        return 0;
    if (room >= NC_MOST_RANGES)
        return -1;
    uint32_t wanted = room < 256 ? 256 : room * 2;
    struct nc_range *more = nc_pages_get(wanted * sizeof *more);
    if (!more)
        return -1;
    memcpy(more, ranges_of(set), set->count * sizeof *more);
    if (set->more)
        nc_pages_drop(set->more, set->room * sizeof *more);
    set->more = more;
    set->room = wanted;
    return 0;
}

/* The first range that ends at or behind `position`. */
static uint32_t
first_reaching(const struct nc_range *ranges, uint32_t count, uint64_t position)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges[middle].end < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int
nc_coverage_add(struct nc_coverage *set, uint64_t start, uint64_t end)
{
    if (start >= end)
        return 0;
    struct nc_range *ranges = ranges_of(set);
    uint32_t count = set->count;
    if (nc_coverage_extend(set, start, end))
        return 0;
    uint32_t at = first_reaching(ranges, count, start);
    if (at < count && ranges[at].start <= start && ranges[at].end >= end)
        return 0; /* read again */
    uint32_t after = at;
    while (after < count && ranges[after].start <= end) {
        if (ranges[after].start < start)
            start = ranges[after].start;
        if (ranges[after].end > end)
            end = ranges[after].end;
        after++;
    }
    if (after == at) {
        if (grow(set))
            return -1;
        ranges = ranges_of(set);
        memmove(ranges + at + 1, ranges + at, (count - at) * sizeof *ranges);
        set->count = count + 1;
    } else {
        memmove(ranges + at + 1, ranges + after,
                (count - after) * sizeof *ranges);
        set->count = count - (after - at) + 1;
    }
    ranges[at] = (struct nc_range){start, end};
    return 0;
}

void
nc_coverage_remove(struct nc_coverage *set, uint64_t start, uint64_t end)
{
    if (start >= end)
        return;
    struct nc_range *ranges = ranges_of(set);
    for (uint32_t i = 0; i < set->count; i++) {
        struct nc_range *range = &ranges[i];
        if (range->end <= start)
            continue;
        if (range->start >= end)
            break;
        uint64_t tail = range->end;
        if (range->start < start && tail > end) {
            range->end = start;
            (void)nc_coverage_add(set, end, tail);
            return;
        }
        if (range->start < start) {
            range->end = start;
        } else if (tail > end) {
            range->start = end;
        } else {
            memmove(range, range + 1, (set->count - i - 1) * sizeof *ranges);
            set->count--;
            i--;
        }
    }
}

int
nc_coverage_holds(const struct nc_coverage *set, uint64_t start, uint64_t end)
{
    if (start >= end)
        return 1;
    const struct nc_range *ranges = nc_coverage_ranges(set);
    uint32_t at = first_reaching(ranges, set->count, start + 1);
    return at < set->count && ranges[at].start <= start &&
           ranges[at].end >= end;
}

uint64_t
nc_coverage_size(const struct nc_coverage *set)
{
    const struct nc_range *ranges = nc_coverage_ranges(set);
    uint64_t size = 0;
    for (uint32_t i = 0; i < set->count; i++)
        size += ranges[i].end - ranges[i].start;
    return size;
}

void
nc_coverage_clear(struct nc_coverage *set)
{
    if (set->more)
        nc_pages_drop(set->more, set->room * sizeof *set->more);
    set->more = NULL;
    set->room = 0;
    set->count = 0;
}
