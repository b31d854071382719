/* Which line of the file each printed line stands for.
 *
 * Every printed line stands for at most one line of the file. Where the file
 * has the same line many times, its neighbours decide: lines that the file has
 * once, and lines printed with their number, are anchors; from them runs
 * extend both ways for as long as printed and present lines stay equal. A line
 * of one run is that line of the file, however often it was printed; one that
 * two runs claim, or none, counts as often as it was printed. */
#include "attest.h"

#include <stdlib.h>
#include <string.h>

#define SURE 1000 /* what one line that the file has once says about numbers */

struct aligner {
    struct nc_judged *judged;
    const struct nc_index *index;
};

uint32_t
nc_judged_code(const struct nc_judged *judged, const struct nc_index *index,
               uint32_t slot, uint32_t n, int *more)
{
    const struct nc_printed *line = index->lines + slot;
    *more = n < line[1].readings - line->readings;
    return judged
        ->local[n ? index->readings[line->readings + n - 1].key : line->key];
}

int
nc_judged_take(struct nc_judged *judged, uint32_t slot, int64_t line)
{
    if (line < 0 || judged->owned[line])
        return 0;
    judged->owned[line] = NC_OWNED | NC_BY_LINE;
    judged->at[slot] = (int32_t)line;
    return 1;
}

/* Whether the slot may stand for that line, which need not exist. */
static int
says(const struct aligner *a, uint32_t slot, int64_t line)
{
    if (line < 0 || line >= a->judged->count || !a->judged->codes[line])
        return 0;
    int more = 1;
    for (uint32_t n = 0; more; n++)
        if (nc_judged_code(a->judged, a->index, slot, n, &more) ==
            a->judged->codes[line])
            return 1;
    return 0;
}

/* Adds lines printed with their numbers, where the numbers are the file's.
 * Those of `tail f | cat -n` are not: the lines that the file has once show
 * it, or else the majority. `said` is scratch, by slot. */
static void
number(const struct aligner *a, const struct nc_piece *piece, int32_t *said)
{
    struct nc_judged *judged = a->judged;
    int64_t votes = 0;
    for (uint32_t slot = piece->first; slot <= nc_last(piece); slot++) {
        const struct nc_printed *printed = a->index->lines + slot;
        int is_spoken = 0, is_gutter = 0;
        said[slot] = -1;
        for (uint32_t n = printed->readings;
             n < printed[1].readings && said[slot] < 0; n++) {
            const struct nc_saying *reading = a->index->readings + n;
            uint32_t code = judged->local[reading->key];
            /* A number inside of a text that the file has is the text's. */
            is_gutter |= reading->number && code == judged->first[slot];
            if (!reading->number || !code || !is_gutter)
                continue;
            uint32_t line = reading->number - 1;
            is_spoken = 1;
            if (line < judged->count && judged->codes[line] == code)
                said[slot] = (int32_t)line;
        }
        if (is_spoken) {
            int weight = judged->anchors[slot] >= 0 ? SURE : 1;
            votes += said[slot] >= 0 ? weight : -weight;
        }
    }
    if (votes < 0)
        return;
    for (uint32_t slot = piece->first; slot <= nc_last(piece); slot++)
        if (said[slot] >= 0)
            judged->anchors[slot] = said[slot];
}

static void
anchor(const struct aligner *a, const struct nc_piece *piece)
{
    struct nc_judged *judged = a->judged;
    for (uint32_t slot = piece->first; slot <= nc_last(piece); slot++) {
        int more = 1;
        for (uint32_t n = 0; more && !judged->first[slot]; n++)
            judged->first[slot] =
                nc_judged_code(judged, a->index, slot, n, &more);
        uint32_t code = judged->first[slot];
        if (code && nc_judged_times(judged, code) == 1)
            judged->anchors[slot] =
                (int32_t)judged->spots[judged->spots_at[code]];
    }
    number(a, piece, judged->behind);
}

/* Follows each run away from its anchors, down (1) or up (-1). */
static void
extend(const struct aligner *a, const struct nc_piece *piece, int step,
       int32_t *found)
{
    struct nc_judged *judged = a->judged;
    int64_t last = -1, expected = 0;
    for (uint32_t n = 0; n < piece->count; n++) {
        uint32_t slot = step > 0 ? piece->first + n : nc_last(piece) - n;
        int64_t line = judged->anchors[slot];
        found[slot] = -1;
        if (!judged->first[slot])
            continue;
        if (line < 0) {
            int64_t gap = last < slot ? slot - last : last - slot;
            if (last < 0 || gap > 1 + NC_SKIPPED || !says(a, slot, expected)) {
                last = -1;
                continue;
            }
            line = expected;
        }
        found[slot] = (int32_t)line;
        last = slot;
        expected = line + step;
    }
}

/* The text of a line beside a run where it is longer than what was printed of
 * it; NULL: there is no such line, or nothing was cut off. */
static const uint8_t *
longer_text(const struct aligner *a, int64_t line,
            const struct nc_printed *printed, size_t *size)
{
    if (line < 0 || line >= a->judged->count)
        return NULL;
    const uint8_t *text = nc_judged_text(a->judged, (uint32_t)line, size);
    return *size > printed->size ? text : NULL;
}

/* Whether a line without a newline is the head of the run's next line. */
static int
is_head(const struct aligner *a, const struct nc_piece *piece, uint32_t slot)
{
    const struct nc_printed *printed = a->index->lines + slot;
    size_t size;
    if (!piece->is_cut || slot != nc_last(piece) || slot == piece->first ||
        a->judged->before[slot - 1] < 0)
        return 0;
    int64_t line = (int64_t)a->judged->before[slot - 1] + 1;
    const uint8_t *text = longer_text(a, line, printed, &size);
    return text && !says(a, slot, line) &&
           !memcmp(text, a->index->pool + printed->start, printed->size);
}

/* Whether a piece's first line is the tail of the line before the run. */
static int
is_tail(const struct aligner *a, const struct nc_piece *piece, uint32_t slot)
{
    const struct nc_printed *printed = a->index->lines + slot;
    size_t size;
    if (slot != piece->first || !printed->size || piece->count < 2 ||
        a->judged->behind[slot + 1] < 0)
        return 0;
    int64_t line = (int64_t)a->judged->behind[slot + 1] - 1;
    const uint8_t *text = longer_text(a, line, printed, &size);
    return text && !says(a, slot, line) &&
           !memcmp(text + size - printed->size, a->index->pool + printed->start,
                   printed->size);
}

/* Certain places first. The first and the last line of a piece may be parts of
 * longer lines that happen to equal a whole one, so others go before them.
 * Gathers the slots that are only likely to be where they seem. */
static void
settle_runs(const struct aligner *a, const struct nc_piece *piece,
            uint32_t *late, uint32_t *late_count)
{
    struct nc_judged *judged = a->judged;
    for (uint32_t slot = piece->first; slot <= nc_last(piece); slot++) {
        if (!judged->first[slot] || is_head(a, piece, slot) ||
            is_tail(a, piece, slot))
            continue;
        int32_t before = judged->before[slot], behind = judged->behind[slot];
        int32_t line = before >= 0 ? before : behind;
        int is_edge =
            slot == piece->first || (piece->is_cut && slot == nc_last(piece));
        if (is_edge && judged->anchors[slot] >= 0) {
            late[(*late_count)++] = slot;
        } else if (line >= 0 && (behind < 0 || behind == line)) {
            judged->at[slot] = line;
            judged->firm[slot] = 1;
        } else {
            judged->loose[judged->loose_count++] = slot;
        }
    }
}

static void
own_runs(struct nc_judged *judged, const struct nc_piece *piece)
{
    for (uint32_t slot = piece->first; slot <= nc_last(piece); slot++)
        if (judged->at[slot] >= 0)
            judged->owned[judged->at[slot]] = NC_OWNED | NC_BY_LINE;
}

int
nc_judged_align(struct nc_judged *judged, const struct nc_index *index,
                const uint8_t *mask)
{
    struct aligner a = {.judged = judged, .index = index};
    uint32_t *late =
        malloc(((size_t)index->piece_count * 2 + 1) * sizeof *late);
    uint32_t late_count = 0;
    if (!late)
        return -1;
    for (uint32_t nth = 0; nth < index->piece_count; nth++) {
        const struct nc_piece *piece = index->pieces + nth;
        if (!mask[nth])
            continue;
        anchor(&a, piece);
        extend(&a, piece, 1, judged->before);
        extend(&a, piece, -1, judged->behind);
        settle_runs(&a, piece, late, &late_count);
    }
    for (uint32_t nth = 0; nth < index->piece_count; nth++)
        if (mask[nth])
            own_runs(judged, index->pieces + nth);
    for (uint32_t n = 0; n < late_count; n++)
        if (nc_judged_take(judged, late[n], judged->anchors[late[n]]))
            judged->firm[late[n]] = 1;
    free(late);
    return 0;
}
