/* What came of an alignment: the ranges that were printed, whether they are a
 * view, and the lines of which a part may have been printed. */
#include "attest.h"

#include <stdlib.h>

#define EDGES_MOST 16384 /* looked at for parts of lines */
#define CHANGED 9        /* printed lines within which a changed run goes on */

static int
word_weight(const uint8_t *text, size_t size)
{
    int weight = 0;
    for (size_t at = 0; at < size && weight < NC_VIEW_WEIGHT; at++) {
        uint8_t low = text[at] | 0x20;
        weight += text[at] >= 0x80 || (low >= 'a' && low <= 'z') ||
                  (text[at] >= '0' && text[at] <= '9');
    }
    return weight;
}

/* Whether lines of the file were printed one after the other, as in a view. */
static void
look_for_run(struct nc_judged *judged, const struct nc_piece *piece)
{
    int lines = 0, weight = 0;
    for (uint32_t slot = piece->first;
         slot <= nc_last(piece) && !judged->has_run; slot++) {
        int32_t line = judged->at[slot];
        if (line < 0) {
            lines = 0;
            continue;
        }
        if (!lines || judged->at[slot - 1] != line - 1)
            lines = weight = 0;
        size_t size;
        const uint8_t *text = nc_judged_text(judged, (uint32_t)line, &size);
        weight += weight < NC_VIEW_WEIGHT ? word_weight(text, size) : 0;
        judged->has_run = ++lines >= NC_VIEW_LINES && weight >= NC_VIEW_WEIGHT;
    }
}

/* Whether the run goes on soon after: then lines were changed, not cut. */
static int
resumes(const struct nc_judged *judged, const struct nc_piece *piece,
        uint32_t slot, int step)
{
    for (int n = 2; n < CHANGED; n++) {
        int64_t near = (int64_t)slot + step * n;
        if (near < piece->first || near > nc_last(piece))
            return 0;
        int64_t line = judged->at[near];
        int64_t gap = (line - judged->at[slot]) * step;
        if (line >= 0 && gap > 1 && gap < 2 * CHANGED)
            return 1;
    }
    return 0;
}

static void
note_edge(struct nc_judged *judged, const struct nc_index *index, uint32_t nth,
          uint32_t slot, int step)
{
    const struct nc_piece *piece = index->pieces + nth;
    int64_t beside = (int64_t)slot + step;
    int64_t line = (int64_t)judged->at[slot] + step;
    if (beside < piece->first || beside > nc_last(piece) ||
        judged->at[beside] >= 0 || line < 0 || line >= judged->count ||
        judged->owned[line] || judged->edge_count == EDGES_MOST)
        return;
    int is_end = step > 0 ? piece->is_cut && beside == nc_last(piece)
                          : beside == piece->first;
    if ((!judged->firm[slot] && !is_end) || resumes(judged, piece, slot, step))
        return;
    judged->edges[judged->edge_count++] =
        (struct nc_edge){.piece = nth,
                         .slot = (uint32_t)beside,
                         .line = (uint32_t)line,
                         .step = step};
}

/* The ranges of the lines that were printed as such. */
static int
gather_ranges(struct nc_judged *judged)
{
    uint32_t runs = 0;
    for (uint32_t n = 0; n < judged->count; n++)
        runs += judged->owned[n] & NC_BY_LINE &&
                !(n && judged->owned[n - 1] & NC_BY_LINE);
    judged->ranges = malloc((runs ? runs : 1) * sizeof *judged->ranges);
    if (!judged->ranges)
        return -1;
    for (uint32_t n = 0; n < judged->count; n++) {
        if (!(judged->owned[n] & NC_BY_LINE))
            continue;
        struct nc_range *range = judged->ranges + judged->range_count++;
        range->start = judged->starts[n];
        while (n + 1 < judged->count && judged->owned[n + 1] & NC_BY_LINE)
            n++;
        range->end = judged->starts[n + 1];
    }
    return 0;
}

int
nc_judged_gather(struct nc_judged *judged, const struct nc_index *index,
                 const uint8_t *mask)
{
    judged->edges = malloc(EDGES_MOST * sizeof *judged->edges);
    if (!judged->edges)
        return -1;
    for (uint32_t nth = 0; nth < index->piece_count; nth++) {
        const struct nc_piece *piece = index->pieces + nth;
        if (!mask[nth])
            continue;
        look_for_run(judged, piece);
        for (uint32_t slot = piece->first; slot <= nc_last(piece); slot++)
            if (judged->at[slot] >= 0) {
                note_edge(judged, index, nth, slot, 1);
                note_edge(judged, index, nth, slot, -1);
            }
    }
    return gather_ranges(judged);
}
