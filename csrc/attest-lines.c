/* A file's lines, as far as something printed speaks of them. Most lines of
 * most files were never printed: those cost a hash and a look into a table. */
#include "attest.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_LINES 64
#define MARK "\xef\xbb\xbf" /* of byte order, where a file starts */

const uint8_t *
nc_judged_text(const struct nc_judged *judged, uint32_t line, size_t *size)
{
    const uint8_t *text = judged->content + judged->starts[line];
    const uint8_t *end = judged->content + judged->starts[line + 1];
    if (end > text && end[-1] == '\n')
        end--;
    while (end > text && end[-1] == '\r')
        end--;
    if (!line && end - text >= 3 && !memcmp(text, MARK, 3))
        text += 3;
    *size = (size_t)(end - text);
    return text;
}

uint32_t
nc_judged_line(const struct nc_judged *judged, size_t offset)
{
    uint32_t low = 0, high = judged->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (judged->starts[middle + 1] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The code of a printed text that the file has. */
static uint32_t
code_of(struct nc_judged *judged, uint32_t key)
{
    if (key && !judged->local[key])
        judged->local[key] = ++judged->code_count;
    return judged->local[key];
}

static int
note_line(struct nc_judged *judged, const struct nc_index *index,
          uint32_t start, uint32_t end)
{
    uint32_t line = judged->count;
    if (line + 1 >= judged->line_room) {
        uint32_t room = judged->line_room * 2;
        uint32_t *starts = realloc(judged->starts, room * sizeof *starts);
        if (starts)
            judged->starts = starts;
        uint32_t *codes = realloc(judged->codes, room * sizeof *codes);
        if (codes)
            judged->codes = codes;
        if (!starts || !codes)
            return -1;
        judged->line_room = room;
    }
    judged->starts[line] = start;
    judged->starts[line + 1] = end;
    judged->count++;
    size_t size;
    const uint8_t *text = nc_judged_text(judged, line, &size);
    judged->codes[line] =
        code_of(judged, nc_key_find(&index->texts, index->pool, text, size));

    if (size >= NC_HEAD && index->heads.count && !judged->codes[line] &&
        nc_key_find(&index->heads, index->pool, text, NC_HEAD)) {
        if (!nc_grow((void **)&judged->headed, &judged->headed_room,
                     judged->headed_count, sizeof *judged->headed))
            return -1;
        judged->headed[judged->headed_count++] = start;
    }
    if (end - start >= NC_WIDE) {
        if (!nc_grow((void **)&judged->wide, &judged->wide_room,
                     judged->wide_count, sizeof *judged->wide))
            return -1;
        end -= judged->content[end - 1] == '\n';
        judged->wide[judged->wide_count++] =
            (struct nc_range){.start = start, .end = end};
    }
    return 0;
}

/* The lines of each code together, in their order. */
static int
sort_spots(struct nc_judged *judged)
{
    size_t codes = (size_t)judged->code_count + 2;
    uint32_t *at = judged->spots_at = calloc(codes, sizeof *at);
    judged->cursor = malloc(codes * sizeof *judged->cursor);
    if (!at || !judged->cursor)
        return -1;
    for (uint32_t line = 0; line < judged->count; line++)
        if (judged->codes[line])
            at[judged->codes[line]]++;
    uint32_t sum = 0;
    for (size_t code = 0; code < codes; code++) {
        uint32_t many = at[code];
        judged->cursor[code] = at[code] = sum;
        sum += many;
    }
    judged->spots = malloc((sum ? sum : 1) * sizeof *judged->spots);
    if (!judged->spots)
        return -1;
    for (uint32_t line = 0; line < judged->count; line++)
        if (judged->codes[line])
            judged->spots[judged->cursor[judged->codes[line]]++] = line;
    memcpy(judged->cursor, at, codes * sizeof *at);
    return 0;
}

int
nc_judged_scan(struct nc_judged *judged, const struct nc_index *index)
{
    judged->line_room = LEAST_LINES;
    judged->starts = calloc(LEAST_LINES, sizeof *judged->starts);
    judged->codes = calloc(LEAST_LINES, sizeof *judged->codes);
    judged->local = calloc((size_t)index->texts.count + 1, sizeof(uint32_t));
    if (!judged->starts || !judged->codes || !judged->local)
        return -1;
    const uint8_t *content = judged->content;
    size_t at = 0;
    while (at < judged->size && judged->count < NC_LINES_MOST) {
        const uint8_t *newline = memchr(content + at, '\n', judged->size - at);
        size_t end = newline ? (size_t)(newline - content) + 1 : judged->size;
        if (note_line(judged, index, (uint32_t)at, (uint32_t)end) < 0)
            return -1;
        at = end;
    }
    return sort_spots(judged);
}

/* Lines that lie in the ranges as a whole are printed already. */
static void
own(struct nc_judged *judged, const struct nc_range *seen, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t line = nc_judged_line(judged, seen[i].start);
        if (line < judged->count && judged->starts[line] < seen[i].start)
            line++;
        for (; line < judged->count && judged->starts[line + 1] <= seen[i].end;
             line++)
            judged->owned[line] = NC_OWNED;
    }
}

/* What there is for each line and each slot. */
static int
make_room(struct nc_judged *judged, const struct nc_index *index)
{
    size_t slots = (size_t)index->line_count + 1,
           size = slots * sizeof(int32_t);
    judged->owned = calloc((size_t)judged->count + 1, 1);
    judged->firm = calloc(slots, 1);
    judged->first = calloc(slots, sizeof *judged->first);
    judged->loose = malloc(size);
    int32_t **places[] = {&judged->at, &judged->anchors, &judged->before,
                          &judged->behind};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *places[i] = malloc(size);
        if (!*places[i])
            return -1;
        memset(*places[i], -1, size); /* none */
    }
    return judged->owned && judged->firm && judged->first && judged->loose ? 0
                                                                           : -1;
}

struct nc_judged *
nc_judge(const struct nc_index *index, const uint8_t *mask,
         const uint8_t *content, size_t size, const struct nc_range *seen,
         size_t seen_count)
{
    struct nc_judged *judged =
        size < UINT32_MAX ? calloc(1, sizeof *judged) : NULL;
    if (!judged)
        return NULL;
    judged->content = content;
    judged->size = size;
    if (nc_judged_scan(judged, index) < 0 || make_room(judged, index) < 0)
        goto failed;
    own(judged, seen, seen_count);
    if (nc_judged_align(judged, index, mask) < 0)
        goto failed;
    nc_judged_settle(judged, index);
    if (nc_judged_gather(judged, index, mask) == 0)
        return judged;
failed:
    nc_judged_free(judged);
    return NULL;
}

void
nc_judged_free(struct nc_judged *judged)
{
    if (!judged)
        return;
    void *all[] = {judged->starts, judged->codes,  judged->owned,
                   judged->at,     judged->firm,   judged->headed,
                   judged->wide,   judged->ranges, judged->edges,
                   judged->local,  judged->spots,  judged->spots_at,
                   judged->cursor, judged->first,  judged->anchors,
                   judged->before, judged->behind, judged->loose};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(judged);
}
