/* Texts by their bytes. A hash only says where to look. */
#include "attest.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

int
nc_grow(void **array, uint32_t *room, uint32_t count, size_t size)
{
    if (count < *room)
        return 1;
    if (*room > UINT32_MAX / 2)
        return 0;
    uint32_t more = *room ? *room * 2 : FIRST_ROOM;
    void *moved = realloc(*array, more * size);
    if (!moved)
        return 0;
    *array = moved;
    *room = more;
    return 1;
}

/* Eight bytes at a time; nothing secret, and no equality is taken from it. */
static uint32_t
hash(const uint8_t *text, size_t size)
{
    uint64_t sum = size * 0x9e3779b97f4a7c15u;
    uint64_t part;
    for (; size >= sizeof part; size -= sizeof part, text += sizeof part) {
        memcpy(&part, text, sizeof part);
        sum = (sum ^ part) * 0xff51afd7ed558ccdu;
        sum ^= sum >> 32;
    }
    part = 0;
    memcpy(&part, text, size);
    sum = (sum ^ part) * 0xff51afd7ed558ccdu;
    sum ^= sum >> 29;
    return (uint32_t)(sum ^ sum >> 32);
}

static uint32_t
find(const struct nc_keys *keys, const uint8_t *pool, const uint8_t *text,
     size_t size, uint32_t sum, uint32_t *place)
{
    uint32_t at = sum & keys->mask;
    for (uint32_t key; (key = keys->table[at]); at = (at + 1) & keys->mask) {
        const struct nc_key *known = keys->keys + key;
        if (known->hash == sum && known->size == size &&
            !memcmp(pool + known->start, text, size))
            return key;
    }
    *place = at;
    return 0;
}

uint32_t
nc_key_find(const struct nc_keys *keys, const uint8_t *pool,
            const uint8_t *text, size_t size)
{
    uint32_t place;
    return keys->count ? find(keys, pool, text, size, hash(text, size), &place)
                       : 0;
}

/* A table that is at most half full. */
static int
widen(struct nc_keys *keys)
{
    if (keys->table && keys->count + 1 <= keys->mask / 2)
        return 1;
    uint32_t size = keys->table ? (keys->mask + 1) * 2 : FIRST_ROOM;
    uint32_t *table = size ? calloc(size, sizeof *table) : NULL;
    if (!table)
        return 0;
    for (uint32_t key = 1; key <= keys->count; key++) {
        uint32_t at = keys->keys[key].hash & (size - 1);
        while (table[at])
            at = (at + 1) & (size - 1);
        table[at] = key;
    }
    free(keys->table);
    keys->table = table;
    keys->mask = size - 1;
    return 1;
}

uint32_t
nc_key_make(struct nc_keys *keys, const uint8_t *pool, uint32_t start,
            uint32_t size)
{
    if (!widen(keys) || !nc_grow((void **)&keys->keys, &keys->room,
                                 keys->count + 1, sizeof *keys->keys))
        return 0;
    uint32_t sum = hash(pool + start, size);
    uint32_t place;
    uint32_t key = find(keys, pool, pool + start, size, sum, &place);
    if (key)
        return key;
    key = ++keys->count;
    keys->keys[key] =
        (struct nc_key){.hash = sum, .start = start, .size = size};
    keys->table[place] = key;
    return key;
}
