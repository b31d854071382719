/* Prefixes `path:` and `path-` of a search without numbers. A word before a
 * colon is no path unless it looks like one or heads two lines that follow
 * each other. */
#include "attest.h"

#include <stdlib.h>
#include <string.h>

#define PATH_MOST 256 /* bytes of a path */
#define NAMES_MOST 499
#define NAME_PLACES 2048 /* more than twice as many, a power of two */

struct name {
    const uint8_t *text;
    uint32_t size;
    uint32_t hash;
};

struct nc_names {
    unsigned count;
    struct name places[NAME_PLACES];
};

static int
is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static uint32_t
mix(uint32_t hash, uint8_t byte)
{
    return (hash ^ byte) * 0x01000193u;
}

#define MIX_SEED 0x811c9dc5u

static struct name *
place_of(struct nc_names *names, const uint8_t *text, uint32_t size,
         uint32_t sum)
{
    uint32_t at = sum % NAME_PLACES;
    for (struct name *name; (name = names->places + at)->text;
         at = (at + 1) % NAME_PLACES)
        if (name->hash == sum && name->size == size &&
            !memcmp(name->text, text, size))
            break;
    return names->places + at;
}

/* The word before the line's first colon, no more than a path is long; 0:
 * there is none. */
static uint32_t
word_before_colon(const uint8_t *text, uint32_t size, uint32_t *sum,
                  int *is_path)
{
    uint32_t at = 0;
    *sum = MIX_SEED;
    *is_path = 0;
    for (; at < size && at <= PATH_MOST && !is_space(text[at]); at++) {
        if (text[at] == ':')
            return at;
        *is_path |= text[at] == '/' || text[at] == '.';
        *sum = mix(*sum, text[at]);
    }
    return 0;
}

struct nc_names *
nc_names_new(const uint8_t *pool, const struct nc_printed *lines,
             uint32_t count)
{
    struct nc_names *names = calloc(1, sizeof *names);
    const uint8_t *last = NULL;
    uint32_t last_size = 0;
    for (uint32_t i = 0; names && i < count; i++) {
        const uint8_t *text = pool + lines[i].start;
        uint32_t sum;
        int is_path;
        uint32_t size = word_before_colon(text, lines[i].size, &sum, &is_path);
        is_path |=
            size && size == last_size && last && !memcmp(last, text, size);
        last = text;
        last_size = size;
        if (!size || !is_path)
            continue;
        struct name *place = place_of(names, text, size, sum);
        if (place->text)
            continue;
        if (names->count == NAMES_MOST) {
            names->count = 0; /* that many are no paths */
            return names;
        }
        *place = (struct name){.text = text, .size = size, .hash = sum};
        names->count++;
    }
    return names;
}

void
nc_names_free(struct nc_names *names)
{
    free(names);
}

uint32_t
nc_names_find(struct nc_names *names, const uint8_t *text, uint32_t size)
{
    uint32_t sum = MIX_SEED, found = 0;
    for (uint32_t at = 0; names->count && at < size && at <= PATH_MOST; at++) {
        if (is_space(text[at]))
            break;
        if ((text[at] == ':' || text[at] == '-') && at &&
            place_of(names, text, at, sum)->text)
            found = at + 1;
        if (text[at] == ':')
            break;
        sum = mix(sum, text[at]);
    }
    return found;
}
