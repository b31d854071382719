/* Printed lines that no run puts anywhere for certain: likely places first,
 * then stretches of the file that equal them, then any line that does. */
#include "attest.h"

/* Where in the file the slots stand one after the other on lines that nobody
 * has yet; -1: nowhere. */
static int64_t
find_run(struct nc_judged *judged, size_t *budget, const uint32_t *slots,
         uint32_t count)
{
    uint32_t rare = 0;
    for (uint32_t n = 1; n < count; n++)
        if (nc_judged_times(judged, judged->first[slots[n]]) <
            nc_judged_times(judged, judged->first[slots[rare]]))
            rare = n;
    uint32_t code = judged->first[slots[rare]];
    for (uint32_t s = judged->cursor[code];
         s < judged->spots_at[code + 1] && *budget; s++) {
        --*budget;
        if (judged->spots[s] < rare ||
            judged->spots[s] - rare > judged->count - count)
            continue;
        uint32_t begin = judged->spots[s] - rare, n = 0;
        while (n < count && *budget && !judged->owned[begin + n] &&
               judged->codes[begin + n] == judged->first[slots[n]]) {
            --*budget;
            n++;
        }
        if (n == count)
            return begin;
    }
    return -1;
}

/* Spots before the cursor are known to have an owner. */
static void
advance(struct nc_judged *judged, uint32_t code)
{
    uint32_t *at = judged->cursor + code;
    while (*at < judged->spots_at[code + 1] &&
           judged->owned[judged->spots[*at]])
        ++*at;
}

/* Puts runs without an anchor where the file has them and no one was yet. */
static void
stretch(struct nc_judged *judged)
{
    size_t budget = NC_COMPARED;
    uint32_t end;
    for (uint32_t nth = 0; nth < judged->loose_count; nth = end) {
        const uint32_t *slots = judged->loose + nth;
        end = nth + 1;
        while (end < judged->loose_count &&
               judged->loose[end] == judged->loose[end - 1] + 1)
            end++;
        uint32_t count = end - nth;
        if (count < 2 || count > judged->count)
            continue;
        for (uint32_t n = 0; n < count; n++)
            advance(judged, judged->first[slots[n]]);
        int64_t line = find_run(judged, &budget, slots, count);
        for (uint32_t n = 0; line >= 0 && n < count; n++)
            nc_judged_take(judged, slots[n], line + n);
    }
}

/* Each further printed line stands for any one line that equals it: those that
 * can stand for one text alone choose first. */
static void
leftover(struct nc_judged *judged, const struct nc_index *index, int choosers)
{
    for (uint32_t nth = 0; nth < judged->loose_count; nth++) {
        uint32_t slot = judged->loose[nth], texts = 0;
        int more = 1;
        if (judged->at[slot] >= 0)
            continue;
        for (uint32_t n = 0; more; n++)
            texts += nc_judged_code(judged, index, slot, n, &more) > 0;
        if ((texts > 1) != choosers)
            continue;
        more = 1;
        for (uint32_t n = 0; more && judged->at[slot] < 0; n++) {
            uint32_t code = nc_judged_code(judged, index, slot, n, &more);
            if (!code)
                continue;
            advance(judged, code);
            if (judged->cursor[code] < judged->spots_at[code + 1])
                nc_judged_take(judged, slot,
                               judged->spots[judged->cursor[code]]);
        }
    }
}

void
nc_judged_settle(struct nc_judged *judged, const struct nc_index *index)
{
    uint32_t left = 0;
    for (uint32_t n = 0; n < judged->loose_count; n++) {
        uint32_t slot = judged->loose[n];
        if (!nc_judged_take(judged, slot, judged->before[slot]) &&
            !nc_judged_take(judged, slot, judged->behind[slot]))
            judged->loose[left++] = slot;
    }
    judged->loose_count = left;
    stretch(judged);
    leftover(judged, index, 0);
    leftover(judged, index, 1);
}
