/* Parts of very long lines. A minified file is one line, and a printed part of
 * it begins anywhere: the file's aligned blocks are looked for in what was
 * printed, at every offset, by a sum that rolls along. What is found is then
 * compared byte by byte, both ways, as far as it goes. */
#include "attest.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_MOST 64 /* of one block, if the file repeats it */
#define HOLES_MOST 64  /* tried for a part that may go on from the last one */
#define FACTOR 0x9e3779b97f4a7c15u
#define WORD 64 /* bits of a word of the maps */
#define THIN 16 /* bits of the filter for each block that there may be */

struct place {
    uint64_t sum;
    uint32_t start; /* of the block, in the file */
    uint32_t next;  /* place of an equal block behind it; 0: none */
    uint32_t last;  /* of the first place: the last of its equals */
    uint32_t many;  /* of the first place: its equals */
};

struct nc_blocks {
    const struct nc_judged *judged;
    uint64_t *seen; /* a bit for each byte of the file */
    uint64_t *thin; /* bits of sums: most offsets of most texts end here */
    uint64_t thin_mask;
    uint64_t top; /* FACTOR to the power of NC_BLOCK */
    uint32_t *table;
    uint32_t mask;
    uint32_t count;
    struct place *places;
};

static uint64_t
sum_of(const uint8_t *text)
{
    uint64_t sum = 0;
    for (int i = 0; i < NC_BLOCK; i++)
        sum = sum * FACTOR + text[i] + 1;
    return sum;
}

static int
is_seen(const struct nc_blocks *blocks, size_t at)
{
    return (int)(blocks->seen[at / WORD] >> at % WORD & 1);
}

static void
see(struct nc_blocks *blocks, size_t start, size_t end)
{
    for (; start < end && start % WORD; start++)
        blocks->seen[start / WORD] |= (uint64_t)1 << start % WORD;
    for (; start + WORD <= end; start += WORD)
        blocks->seen[start / WORD] = ~(uint64_t)0;
    for (; start < end; start++)
        blocks->seen[start / WORD] |= (uint64_t)1 << start % WORD;
}

/* The filter's word and bit of a sum. */
static uint64_t *
thin_word(const struct nc_blocks *blocks, uint64_t sum, uint64_t *bit)
{
    uint64_t nth = (sum ^ sum >> 23) & blocks->thin_mask;
    *bit = (uint64_t)1 << nth % WORD;
    return blocks->thin + nth / WORD;
}

/* The first byte from `at` on that was seen, or was not; `end`: none. */
static size_t
next(const struct nc_blocks *blocks, size_t at, size_t end, int seen)
{
    while (at < end) {
        uint64_t word = blocks->seen[at / WORD];
        if (at % WORD == 0 && word == (seen ? 0 : ~(uint64_t)0))
            at += WORD;
        else if (is_seen(blocks, at) == seen)
            return at;
        else
            at++;
    }
    return end;
}

/* The place of the first block that equals `text`, or where it would stand in
 * the table. */
static uint32_t
find(const struct nc_blocks *blocks, const uint8_t *text, uint64_t sum,
     uint32_t *free_at)
{
    uint32_t at = (uint32_t)(sum >> 32) & blocks->mask;
    for (uint32_t nth; (nth = blocks->table[at]); at = (at + 1) & blocks->mask)
        if (blocks->places[nth].sum == sum &&
            !memcmp(blocks->judged->content + blocks->places[nth].start, text,
                    NC_BLOCK))
            return nth;
    *free_at = at;
    return 0;
}

static void
add(struct nc_blocks *blocks, uint32_t start)
{
    const uint8_t *text = blocks->judged->content + start;
    uint64_t sum = sum_of(text);
    uint32_t at, nth = find(blocks, text, sum, &at);
    uint64_t bit;
    *thin_word(blocks, sum, &bit) |= bit;
    struct place *first = blocks->places + nth;
    if (nth && first->many == PLACES_MOST)
        return;
    uint32_t made = ++blocks->count;
    blocks->places[made] =
        (struct place){.sum = sum, .start = start, .last = made, .many = 1};
    if (!nth) {
        blocks->table[at] = made;
        return;
    }
    blocks->places[first->last].next = made;
    first->last = made;
    first->many++;
}

struct nc_blocks *
nc_blocks_new(const struct nc_judged *judged, const struct nc_range *seen,
              size_t seen_count)
{
    size_t most = judged->size / NC_BLOCK + 1, size = 64;
    while (size < 2 * most)
        size *= 2;
    struct nc_blocks *blocks = calloc(1, sizeof *blocks);
    if (!blocks)
        return NULL;
    blocks->judged = judged;
    blocks->seen = calloc(judged->size / WORD + 1, sizeof *blocks->seen);
    blocks->table = calloc(size, sizeof *blocks->table);
    blocks->places = malloc((most + 1) * sizeof *blocks->places);
    blocks->thin = calloc(size * THIN / WORD, sizeof *blocks->thin);
    blocks->thin_mask = size * THIN - 1;
    blocks->mask = (uint32_t)(size - 1);
    if (!blocks->seen || !blocks->table || !blocks->places || !blocks->thin) {
        nc_blocks_free(blocks);
        return NULL;
    }
    for (blocks->top = 1, size = 0; size < NC_BLOCK; size++)
        blocks->top *= FACTOR;
    for (size_t i = 0; i < seen_count; i++)
        if (seen[i].end <= judged->size)
            see(blocks, seen[i].start, seen[i].end);
    for (uint32_t i = 0; i < judged->wide_count; i++) {
        const struct nc_range *line = judged->wide + i;
        for (uint64_t at = line->start; at + NC_BLOCK <= line->end;
             at += NC_BLOCK)
            add(blocks, (uint32_t)at);
    }
    return blocks;
}

void
nc_blocks_free(struct nc_blocks *blocks)
{
    if (!blocks)
        return;
    free(blocks->seen);
    free(blocks->table);
    free(blocks->thin);
    free(blocks->places);
    free(blocks);
}

/* The very long line around an offset; NULL: there is none. */
static const struct nc_range *
wide_at(const struct nc_judged *judged, size_t at)
{
    uint32_t low = 0, high = judged->wide_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (judged->wide[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < judged->wide_count && judged->wide[low].start <= at
               ? judged->wide + low
               : NULL;
}

/* A hole that begins with the block, among the first ones; -1: none. */
static int64_t
place_in_hole(const struct nc_blocks *blocks, const uint8_t *block)
{
    const struct nc_judged *judged = blocks->judged;
    size_t at = 0;
    for (int n = 0; n < HOLES_MOST; n++) {
        at = next(blocks, at, judged->size, 0);
        if (at >= judged->size)
            return -1;
        size_t end = next(blocks, at, judged->size, 1);
        const struct nc_range *line = wide_at(judged, at);
        if (end - at >= NC_BLOCK && line && line->end >= at + NC_BLOCK &&
            !memcmp(judged->content + at, block, NC_BLOCK))
            return (int64_t)at;
        at = end;
    }
    return -1;
}

/* Where the block stands: where it was not yet seen, or else anywhere. */
static int64_t
place(const struct nc_blocks *blocks, const uint8_t *block, uint64_t sum)
{
    uint32_t unused;
    uint64_t bit;
    if (!(*thin_word(blocks, sum, &bit) & bit))
        return -1;
    uint32_t nth = find(blocks, block, sum, &unused);
    if (!nth)
        return -1;
    for (uint32_t n = nth; n; n = blocks->places[n].next) {
        size_t start = blocks->places[n].start;
        if (next(blocks, start, start + NC_BLOCK, 0) < start + NC_BLOCK)
            return (int64_t)start;
    }
    return (int64_t)blocks->places[nth].start;
}

/* The part around a block at `at` of the text that stands at `start` of the
 * file. `done` bytes of the text have served already. */
static struct nc_part
grow(const struct nc_blocks *blocks, const uint8_t *text, size_t size,
     size_t done, size_t at, size_t start)
{
    const struct nc_judged *judged = blocks->judged;
    const struct nc_range *line = wide_at(judged, start);
    size_t back = 0, forth = NC_BLOCK;
    while (at - back > done && start - back > line->start &&
           text[at - back - 1] == judged->content[start - back - 1])
        back++;
    while (at + forth < size && start + forth < line->end &&
           text[at + forth] == judged->content[start + forth])
        forth++;
    struct nc_part part = {
        .start = start - back, .end = start + forth, .paid = back + forth};
    /* The newline goes with the end of its line. */
    part.end += part.end == line->end && part.end < judged->size;
    return part;
}

size_t
nc_blocks_find(struct nc_blocks *blocks, const uint8_t *text, size_t size,
               struct nc_part *out, size_t room)
{
    size_t at = 0, done = 0, found = 0;
    uint64_t sum = 0;
    int rolls = 0;
    while (at + NC_BLOCK <= size && found < room) {
        sum = rolls ? sum : sum_of(text + at);
        rolls = 1;
        int64_t start = at == done ? place_in_hole(blocks, text + at) : -1;
        if (start < 0)
            start = place(blocks, text + at, sum);
        if (start < 0) {
            if (at + NC_BLOCK < size)
                sum = sum * FACTOR + text[at + NC_BLOCK] + 1 -
                      blocks->top * (text[at] + (uint64_t)1);
            at++;
            continue;
        }
        struct nc_part part = grow(blocks, text, size, done, at, (size_t)start);
        see(blocks, part.start, part.end);
        out[found++] = part;
        at += part.paid - ((size_t)start - part.start);
        done = at;
        rolls = 0;
    }
    return found;
}
