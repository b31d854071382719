/* What is asked of a printed piece as a whole. */
#include "attest.h"

#include <string.h>
#include <strings.h>

int64_t
nc_index_place(const struct nc_index *index, uint32_t piece,
               const uint8_t *content, size_t size, uint32_t *which)
{
    for (*which = 0; *which < 2; ++*which) {
        const struct nc_body *body = index->pieces[piece].bodies + *which;
        const uint8_t *text = index->pool + body->start;
        const uint8_t *probe = text + body->probe;
        if (!body->probe_size || body->size > size)
            continue;
        const uint8_t *at = memmem(content, size, probe, body->probe_size);
        if (!at || (size_t)(at - content) < body->probe)
            continue;
        size_t start = (size_t)(at - content) - body->probe;
        if (start > size - body->size ||
            memcmp(content + start, text, body->size))
            continue;
        /* Within a line, something that looks like a gutter was its text. */
        if (*which && start && content[start - 1] != '\n')
            continue;
        size_t left = size - (size_t)(at - content) - 1;
        if (!memmem(at + 1, left, probe, body->probe_size))
            return (int64_t)start;
    }
    return -1;
}

int64_t
nc_index_glued(const struct nc_index *index, uint32_t from, uint32_t behind,
               const uint8_t *text, size_t size, int is_end)
{
    for (uint32_t slot = from; slot < behind; slot++) {
        const struct nc_printed *line = index->lines + slot;
        const uint8_t *printed = index->pool + line->start;
        if (line->size >= size &&
            ((!is_end && !memcmp(printed, text, size)) ||
             !memcmp(printed + line->size - size, text, size)))
            return slot;
    }
    return -1;
}

/* Whether there may be one of the marks that harnesses put where they cut a
 * line: three dots, an ellipsis, "truncated". */
static int
may_be_marked(const uint8_t *text, size_t size)
{
    static const char word[] = "truncated";
    if (!size || !memchr(".])>}\xa6", text[size - 1], 6))
        return 0;
    if (memmem(text, size, "...", 3) || memmem(text, size, "\xe2\x80\xa6", 3))
        return 1;
    for (size_t at = 0; at + sizeof word - 1 <= size; at++)
        if ((text[at] | 0x20) == word[0] &&
            !strncasecmp((const char *)text + at, word, sizeof word - 1))
            return 1;
    return 0;
}

static void
note_head(struct nc_index *index, uint32_t start, uint32_t size)
{
    if (size >= NC_HEAD)
        nc_key_make(&index->heads, index->pool, start, NC_HEAD);
}

size_t
nc_index_cut(struct nc_index *index, uint32_t piece, uint32_t *out, size_t room)
{
    uint32_t first = index->pieces[piece].first, widest = 0, bare = 0;
    uint32_t behind = first + index->pieces[piece].count;
    const struct nc_printed *lines = index->lines;
    size_t found = 0;
    for (uint32_t slot = first; slot < behind; slot++) {
        widest = lines[slot].size > widest ? lines[slot].size : widest;
        bare = lines[slot].bare_size > bare ? lines[slot].bare_size : bare;
    }
    for (uint32_t slot = first; slot < behind && found < room; slot++) {
        const struct nc_printed *line = lines + slot;
        if (line->size < NC_HEAD ||
            (line->size < NC_LONG && line->size != widest &&
             line->bare_size != bare &&
             !may_be_marked(index->pool + line->start, line->size)))
            continue;
        out[found++] = slot;
        note_head(index, line->start, line->size);
        for (uint32_t n = line->readings; n < line[1].readings; n++)
            note_head(index, index->readings[n].start, index->readings[n].size);
    }
    return found;
}
