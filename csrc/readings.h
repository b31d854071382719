/* What the processes of one session read, as the daemon keeps it. A `grep -r`
 * reports 20,000 files, a build 100,000: an object of Python's for each would
 * cost more than the reading itself. */
#ifndef NOCLOBBER_READINGS_H
#define NOCLOBBER_READINGS_H
#include "protocol.h"
#include <stddef.h>

/* One report: bytes of one version that one process image got. */
struct nc_reading {
    uint64_t token;            /* of that image */
    struct nc_version version; /* when it began */
    uint64_t ranges;           /* the place of its first one among all */
    uint32_t count;            /* of its ranges */
    uint32_t flags;            /* enum nc_read_flags */
    uint32_t next;             /* the number of the file's next one, or 0 */
    uint32_t pad;
};

/* Readings have the numbers 1 to `count`, in the order of their coming. */
struct nc_readings {
    struct nc_reading *each; /* number n is each[n - 1] */
    struct nc_range *ranges;
    uint32_t *files; /* by hash: two numbers a file, its first and last */
    size_t ranges_used, ranges_room;
    uint32_t count, room;
    uint32_t files_used, files_room; /* a power of two */
};

/* Empty, or NULL where memory is out. */
struct nc_readings *nc_readings_new(void);
void nc_readings_free(struct nc_readings *all);

/* Where the run of whole and sound read records ends that begins at `at`. */
size_t nc_readings_run(const char *buffer, size_t at, size_t end);

/* Takes such a run in, but for what a shell only obeyed. Returns where it
 * stopped: `end`, or the record whose ranges do not fit it or find no room. */
size_t nc_readings_take(struct nc_readings *all, uint64_t token,
                        const char *buffer, size_t at, size_t end);

/* The number of a file's first reading, 0 where it has none. `key` is `dev`
 * and `ino` as they lie in struct nc_version. */
uint32_t nc_readings_first(const struct nc_readings *all, const char *key);

/* Writes the keys of the readings [from, to) to `out`. */
void nc_readings_keys(const struct nc_readings *all, uint32_t from, uint32_t to,
                      char *out);
#endif
