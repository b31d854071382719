/* Printed lines, indexed while they come in: each is hashed once, and judging
 * a file then costs little more than the file does. */
#include "attest.h"

#include <stdlib.h>
#include <string.h>

struct nc_index *
nc_index_new(void)
{
    return calloc(1, sizeof(struct nc_index));
}

void
nc_index_free(struct nc_index *index)
{
    if (!index)
        return;
    free(index->pool);
    free(index->lines);
    free(index->readings);
    free(index->pieces);
    free(index->texts.table);
    free(index->texts.keys);
    free(index->heads.table);
    free(index->heads.keys);
    free(index);
}

static int
reserve(struct nc_index *index, size_t more)
{
    if (more > NC_POOL_MOST - (size_t)index->pool_used)
        return 0;
    size_t need = index->pool_used + more;
    if (need <= index->pool_room)
        return 1;
    size_t room = index->pool_room ? index->pool_room : 4096;
    while (room < need)
        room *= 2;
    uint8_t *moved = realloc(index->pool, room);
    if (!moved)
        return 0;
    index->pool = moved;
    index->pool_room = (uint32_t)room;
    return 1;
}

static uint32_t
put(struct nc_index *index, const uint8_t *text, size_t size)
{
    uint32_t start = index->pool_used;
    memcpy(index->pool + start, text, size);
    index->pool_used += (uint32_t)size;
    return start;
}

/* One slot more; false: no memory. */
static int
put_line(struct nc_index *index, uint32_t start, uint32_t size)
{
    if (!nc_grow((void **)&index->lines, &index->line_room, index->line_count,
                 sizeof *index->lines))
        return 0;
    index->lines[index->line_count++] =
        (struct nc_printed){.start = start,
                            .size = size,
                            .readings = index->reading_count,
                            .bare = start,
                            .bare_size = size};
    return 1;
}

/* The end of the line at `text`, and its end without carriage returns. */
static const uint8_t *
line_end(const uint8_t *text, const uint8_t *end, const uint8_t **trimmed)
{
    const uint8_t *newline = memchr(text, '\n', (size_t)(end - text));
    const uint8_t *stop = newline ? newline : end;
    *trimmed = stop;
    while (*trimmed > text && (*trimmed)[-1] == '\r')
        --*trimmed;
    return stop;
}

/* Copy the lines to the pool, one newline between each two of them. */
static int
put_lines(struct nc_index *index, struct nc_piece *piece, const uint8_t *text,
          const uint8_t *end)
{
    while (text < end && piece->count < NC_PIECE_LINES) {
        const uint8_t *trimmed;
        const uint8_t *stop = line_end(text, end, &trimmed);
        uint32_t size = (uint32_t)(trimmed - text);
        if (!put_line(index, put(index, text, size), size))
            return 0;
        piece->count++;
        piece->is_cut = stop == end;
        if (stop < end)
            put(index, (const uint8_t *)"\n", 1);
        text = stop + 1;
    }
    return 1;
}

static int
put_reading(struct nc_index *index, struct nc_saying reading)
{
    reading.key =
        nc_key_make(&index->texts, index->pool, reading.start, reading.size);
    if (!reading.key ||
        !nc_grow((void **)&index->readings, &index->reading_room,
                 index->reading_count, sizeof reading))
        return 0;
    index->readings[index->reading_count++] = reading;
    return 1;
}

/* The longest first: the less was taken off, the more was compared. */
static void
sort(struct nc_saying *readings, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        struct nc_saying one = readings[i];
        unsigned j = i;
        for (; j && readings[j - 1].size < one.size; j--)
            readings[j] = readings[j - 1];
        readings[j] = one;
    }
}

static int
has_mark(const struct nc_index *index, uint32_t start, uint32_t size)
{
    return size >= 3 && !memcmp(index->pool + start, "\xef\xbb\xbf", 3);
}

/* What the escapes of a line would be if they were the file's own. */
static int
raw_reading(struct nc_index *index, const uint8_t **raw, const uint8_t *end,
            struct nc_saying *out)
{
    if (!*raw || *raw >= end)
        return 0;
    const uint8_t *trimmed;
    const uint8_t *stop = line_end(*raw, end, &trimmed);
    size_t size = (size_t)(trimmed - *raw);
    int found = memchr(*raw, 0x1b, size) != NULL;
    if (found)
        *out = (struct nc_saying){.start = put(index, *raw, size),
                                  .size = (uint32_t)size};
    *raw = stop + 1;
    return found;
}

static int
put_readings(struct nc_index *index, const struct nc_piece *piece,
             const struct nc_manner *manner, const uint8_t *raw,
             const uint8_t *raw_end)
{
    for (uint32_t at = 0; at < piece->count; at++) {
        struct nc_printed *line = index->lines + piece->first + at;
        struct nc_saying found[NC_READINGS * 2 + 4];
        unsigned count = nc_manner_read(manner, at, found);
        count += (unsigned)raw_reading(index, &raw, raw_end, found + count);
        found[count] =
            (struct nc_saying){.start = line->start, .size = line->size};
        /* A byte order mark is no part of the first line's text. */
        unsigned all = count;
        for (unsigned i = 0; i <= count; i++)
            if (has_mark(index, found[i].start, found[i].size)) {
                struct nc_saying rest = found[i];
                rest.start += 3;
                rest.size -= 3;
                found[++all] = rest;
            }
        if (all > count) {
            memmove(found + count, found + count + 1,
                    (all - count) * sizeof *found);
            count = all;
        }
        line->readings = index->reading_count;
        line->key =
            nc_key_make(&index->texts, index->pool, line->start, line->size);
        if (!line->key)
            return 0;
        if (count) {
            line->bare = found[0].start;
            line->bare_size = found[0].size;
        }
        sort(found, count);
        for (unsigned i = 0; i < count; i++)
            if (!put_reading(index, found[i]))
                return 0;
    }
    return 1;
}

static struct nc_body
body(const struct nc_index *index, const struct nc_piece *piece, uint32_t start,
     int bare)
{
    struct nc_body made = {.start = start, .size = index->pool_used - start};
    uint32_t at = 0;
    for (uint32_t i = 0; i < piece->count; i++) {
        const struct nc_printed *line = index->lines + piece->first + i;
        uint32_t size = bare ? line->bare_size : line->size;
        if (size > made.probe_size) {
            made.probe = at;
            made.probe_size = size;
        }
        at += size + 1;
    }
    if (made.probe_size >= NC_PROBE)
        return made;
    /* Short lines: some of them together. */
    made.probe = made.size / 2 > NC_PROBE ? made.size / 2 - NC_PROBE : 0;
    made.probe_size = made.size - made.probe;
    if (made.probe_size > 2 * NC_PROBE)
        made.probe_size = 2 * NC_PROBE;
    if (made.probe_size < NC_PROBE)
        made.probe_size = 0;
    return made;
}

/* The piece without gutters, where every line of it has one. */
static int
put_bare(struct nc_index *index, struct nc_piece *piece)
{
    uint32_t last = piece->first + piece->count - 1;
    for (uint32_t slot = piece->first; slot <= last; slot++) {
        uint32_t next = slot < last ? index->lines[slot + 1].readings
                                    : index->reading_count;
        if (index->lines[slot].readings == next)
            return 1;
    }
    uint32_t start = index->pool_used;
    for (uint32_t slot = piece->first; slot <= last; slot++) {
        const struct nc_printed *line = index->lines + slot;
        if (!reserve(index, (size_t)line->bare_size + 1))
            return 0;
        put(index, index->pool + line->bare, line->bare_size);
        if (slot < last || !piece->is_cut)
            put(index, (const uint8_t *)"\n", 1);
    }
    piece->bodies[1] = body(index, piece, start, 1);
    return 1;
}

static int
fill(struct nc_index *index, struct nc_piece *piece, const uint8_t *text,
     const uint8_t *end, const uint8_t *raw, const uint8_t *raw_end)
{
    uint32_t start = index->pool_used;
    if (!put_lines(index, piece, text, end))
        return 0;
    piece->bodies[0] = body(index, piece, start, 0);
    /* The raw lines are put behind the others, where there is room already. */
    struct nc_manner *manner =
        nc_manner_new(index->pool, index->lines + piece->first, piece->count);
    int made = manner && put_readings(index, piece, manner, raw, raw_end) &&
               put_bare(index, piece);
    nc_manner_free(manner);
    for (unsigned i = 0; made && i < NC_SKIPPED + 2; i++)
        made = put_line(index, 0, 0);
    return made;
}

int
nc_index_add(struct nc_index *index, const uint8_t *text, size_t size,
             const uint8_t *raw, size_t raw_size)
{
    struct nc_piece piece = {.first = index->line_count};
    uint32_t readings = index->reading_count;
    if (!size || size > NC_POOL_MOST || raw_size > NC_POOL_MOST ||
        !reserve(index, size + raw_size) ||
        !nc_grow((void **)&index->pieces, &index->piece_room,
                 index->piece_count, sizeof piece) ||
        index->piece_count >= INT32_MAX)
        return -1;
    if (!fill(index, &piece, text, text + size, raw,
              raw ? raw + raw_size : NULL)) {
        /* What is in the pool stays there: keys may point to it. */
        index->line_count = piece.first;
        index->reading_count = readings;
        return -1;
    }
    index->pieces[index->piece_count] = piece;
    return (int)index->piece_count++;
}
