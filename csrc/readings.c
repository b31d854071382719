#include "readings.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64 /* readings, and files */

#define KEY_SIZE offsetof(struct nc_version, size)

struct nc_readings *
nc_readings_new(void)
{
    return calloc(1, sizeof(struct nc_readings));
}

void
nc_readings_free(struct nc_readings *all)
{
    free(all->each);
    free(all->ranges);
    free(all->files);
    free(all);
}

/* ---- files --------------------------------------------------------- */

/* Inodes are neighbours: far apart in the table they must be (splitmix64). */
static uint64_t
hash_of(uint64_t dev, uint64_t ino)
{
    uint64_t hash = ino + dev * 0x9e3779b97f4a7c15U;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
    return hash ^ (hash >> 31);
}

/* The two numbers of a file, both 0 where it has none yet. There is always an
 * unused pair: the table is never full. */
static uint32_t *
find_file(const struct nc_readings *all, uint64_t dev, uint64_t ino)
{
    uint32_t mask = all->files_room - 1;
    uint32_t at = (uint32_t)hash_of(dev, ino) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t *file = all->files + (size_t)at * 2;
        if (!file[0])
            return file;
        const struct nc_version *of = &all->each[file[0] - 1].version;
        if (of->ino == ino && of->dev == dev)
            return file;
    }
}

static int
make_room_for_a_file(struct nc_readings *all)
{
    if (all->files_used < all->files_room / 2)
        return 0;
    uint32_t *before = all->files, room = all->files_room;
    uint32_t *more =
        calloc(room ? (size_t)room * 4 : (size_t)FIRST_ROOM * 2, sizeof *more);
    if (!more)
        return -1;
    all->files = more;
    all->files_room = room ? room * 2 : FIRST_ROOM;
    for (uint32_t i = 0; i < room; i++) {
        const uint32_t *old = before + (size_t)i * 2;
        if (!old[0])
            continue;
        const struct nc_version *of = &all->each[old[0] - 1].version;
        memcpy(find_file(all, of->dev, of->ino), old, 2 * sizeof *old);
    }
    free(before);
    return 0;
}

/* ---- taking in ----------------------------------------------------- */

static int
make_room(struct nc_readings *all, uint32_t ranges)
{
    if (all->count == UINT32_MAX / 4)
        return -1; /* more than any memory holds */
    if (all->count == all->room) {
        uint32_t room = all->room ? all->room * 2 : FIRST_ROOM;
        void *more = realloc(all->each, room * sizeof *all->each);
        if (!more)
            return -1;
        all->each = more;
        all->room = room;
    }
    if (all->ranges_used + ranges > all->ranges_room) {
        size_t room = all->ranges_room * 2 + FIRST_ROOM + ranges;
        void *more = realloc(all->ranges, room * sizeof *all->ranges);
        if (!more)
            return -1;
        all->ranges = more;
        all->ranges_room = room;
    }
    return make_room_for_a_file(all);
}

static int
add(struct nc_readings *all, uint64_t token, const struct nc_read *read,
    const char *ranges)
{
    if (make_room(all, read->count))
        return -1;
    struct nc_reading *made = &all->each[all->count++];
    *made = (struct nc_reading){
        .token = token,
        .version = read->version,
        .ranges = all->ranges_used,
        .count = read->count,
        .flags = read->record.flags,
    };
    if (read->count)
        memcpy(all->ranges + all->ranges_used, ranges,
               read->count * sizeof *all->ranges);
    all->ranges_used += read->count;
    uint32_t *file = find_file(all, read->version.dev, read->version.ino);
    if (file[0]) {
        all->each[file[1] - 1].next = all->count;
    } else {
        file[0] = all->count;
        all->files_used++;
    }
    file[1] = all->count;
    return 0;
}

size_t
nc_readings_run(const char *buffer, size_t at, size_t end)
{
    struct nc_record record;
    while (end - at >= sizeof record) {
        memcpy(&record, buffer + at, sizeof record);
        if (record.type != NC_READ || record.version != NC_VERSION ||
            record.size < sizeof(struct nc_read) ||
            record.size > NC_RECORD_MAX || record.size % 8 ||
            record.size > end - at)
            break;
        at += record.size;
    }
    return at;
}

size_t
nc_readings_take(struct nc_readings *all, uint64_t token, const char *buffer,
                 size_t at, size_t end)
{
    struct nc_read read;
    for (; at < end; at += read.record.size) {
        memcpy(&read, buffer + at, sizeof read);
        const char *ranges = buffer + at + sizeof read;
        size_t size = read.record.size - sizeof read;
        if (size != read.count * sizeof(struct nc_range))
            break;
        if (read.record.flags & NC_EXECUTED)
            continue; /* taken in to be obeyed, not to be known */
        if (add(all, token, &read, ranges))
            break;
    }
    return at;
}

/* ---- looking up ---------------------------------------------------- */

uint32_t
nc_readings_first(const struct nc_readings *all, const char *key)
{
    struct nc_version of;
    memcpy(&of, key, KEY_SIZE);
    return all->files_room ? find_file(all, of.dev, of.ino)[0] : 0;
}

void
nc_readings_keys(const struct nc_readings *all, uint32_t from, uint32_t to,
                 char *out)
{
    for (uint32_t number = from; number < to; number++, out += KEY_SIZE)
        memcpy(out, &all->each[number - 1].version, KEY_SIZE);
}
