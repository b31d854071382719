/* What was printed, held against a file's bytes: the part of attesting that
 * goes through every byte. Python (controlplane/noclobber/attest/) says what is
 * looked for and turns what is found into evidence.
 *
 * Nothing here believes a hash: two texts are equal when their bytes are. All
 * sizes and offsets are bytes unless said otherwise; any byte may stand
 * anywhere. Where memory or a limit is met, less is found, never more.
 *
 *   attest-keys.c     texts by their bytes
 *   attest-index.c    printed lines, and the texts that they may stand for
 *   attest-pieces.c   what is asked of a piece: where it stands, what looks cut
 *   attest-gutters.c  what a printed line says without its decoration
 *   attest-names.c    and without the path of a search
 *   attest-lines.c    a file's lines, as far as they were printed
 *   attest-align.c    which line of the file each printed line stands for
 *   attest-loose.c    the same, for lines that no run puts anywhere
 *   attest-found.c    what came of it
 *   attest-blocks.c   parts of very long lines
 */
#ifndef NOCLOBBER_ATTEST_H
#define NOCLOBBER_ATTEST_H
#include "protocol.h"

#include <stddef.h>

/* Printed lines that are in no file and end no run: the numbers of `sed =`, the
 * `-` line of a diff. */
#define NC_SKIPPED 2
/* A line that was cut is found by so much of it. */
#define NC_HEAD 32
/* Printed lines of this size may be parts of very long ones: they hold an
 * aligned block whatever their offset. */
#define NC_LONG 127
#define NC_WIDE 512    /* from which a line is looked for by blocks, too */
#define NC_BLOCK 64    /* by which parts of very long lines are found */
#define NC_PROBE 16    /* at least, by which a whole piece is looked for */
#define NC_READINGS 40 /* of one printed line, at most */

/* What is taken in and looked at, at most: the rest counts as unseen. */
#define NC_POOL_MOST 536870912 /* bytes of text in one index */
#define NC_PIECE_LINES 1000000 /* lines of one piece */
#define NC_LINES_MOST 8388608  /* lines of one file */
#define NC_COMPARED 8388608    /* lines compared to place runs in one file */

/* See VIEW_LINES and VIEW_WEIGHT in controlplane/noclobber/attest. */
#define NC_VIEW_LINES 3
#define NC_VIEW_WEIGHT 3

/* Of a line of the file. */
#define NC_OWNED 1   /* it was printed */
#define NC_BY_LINE 2 /* and a printed line stands for it */

/* What else than itself a printed line may say, the longest first. */
struct nc_saying {
    uint32_t number; /* of the line in its file, from 1; 0: none printed */
    uint32_t key;
    uint32_t start; /* in the pool */
    uint32_t size;
};

/* Printed lines are numbered through all pieces: a line's number is its slot.
 * Between two pieces lie slots that are no lines. */
struct nc_printed {
    uint32_t
        start; /* in the pool: no colours, no carriage returns at its end */
    uint32_t size;
    uint32_t key;
    uint32_t readings; /* its first; they go up to the next slot's first */
    uint32_t bare; /* where its text without a gutter starts, and its size */
    uint32_t bare_size;
};

/* A text that a piece is, and the part of it that finds it in a file. */
struct nc_body {
    uint32_t start; /* in the pool */
    uint32_t size;
    uint32_t probe;      /* offset in the text */
    uint32_t probe_size; /* 0: it is not looked for */
};

/* One contiguous piece of a command's output. */
struct nc_piece {
    uint32_t first;           /* slot of its first line */
    uint32_t count;           /* of lines, 1 or more */
    uint32_t is_cut;          /* its last line had no newline */
    struct nc_body bodies[2]; /* as it is; without gutters */
};

/* Texts by their bytes; a text's key is its number from 1. */
struct nc_keys {
    uint32_t *table; /* keys, 0: free */
    uint32_t mask;
    uint32_t count;
    uint32_t room;
    struct nc_key *keys;
};

struct nc_key {
    uint32_t hash;
    uint32_t start; /* in the pool */
    uint32_t size;
};

struct nc_index {
    uint8_t *pool;
    uint32_t pool_used;
    uint32_t pool_room;
    struct nc_printed *lines;
    uint32_t line_count; /* slots up to now */
    uint32_t line_room;
    struct nc_saying *readings;
    uint32_t reading_count;
    uint32_t reading_room;
    struct nc_piece *pieces;
    uint32_t piece_count;
    uint32_t piece_room;
    struct nc_keys texts; /* lines and readings */
    struct nc_keys heads; /* the first NC_HEAD bytes of lines that may be cut */
};

struct nc_index *nc_index_new(void); /* NULL: no memory */
void nc_index_free(struct nc_index *index);

/* Takes in a piece of output: `text` without colours; `raw` with them, or NULL
 * where there were none. Returns the piece's number, or -1: nothing in it, or
 * no room for it. */
int nc_index_add(struct nc_index *index, const uint8_t *text, size_t size,
                 const uint8_t *raw, size_t raw_size);

/* Writes the slots of the piece's lines that look cut to `out`, `room` of them
 * at most: very long, the longest of their piece, or with a mark of omission
 * near their end. Lines of a file that begin as one of those does are noticed
 * from now on. Returns how many. */
size_t nc_index_cut(struct nc_index *index, uint32_t piece, uint32_t *out,
                    size_t room);

/* Where the piece stands in `content` as it is, at one place only: the offset,
 * and which body in *body; -1: nowhere. */
int64_t nc_index_place(const struct nc_index *index, uint32_t piece,
                       const uint8_t *content, size_t size, uint32_t *body);

/* The first of the piece's slots from `from` on (up to `behind`) whose line
 * begins or ends with `text` (is_end: ends with it); -1: none. */
int64_t nc_index_glued(const struct nc_index *index, uint32_t from,
                       uint32_t behind, const uint8_t *text, size_t size,
                       int is_end);

/* A line that was not seen whole beside a run of lines that were, and the
 * printed line beside that run. `step` is 1 behind the run, -1 before it. */
struct nc_edge {
    uint32_t piece;
    uint32_t slot;
    uint32_t line;
    int32_t step;
};

/* A file against an index. Lines are numbered from 0. */
struct nc_judged {
    const uint8_t *content;
    size_t size;
    uint32_t count;   /* of lines */
    uint32_t *starts; /* offsets of lines; [count] is the end of the last one */
    uint32_t *codes;  /* which printed text each line is; 0: none */
    uint8_t *owned;   /* by line: NC_OWNED, NC_BY_LINE, or 0 */
    int32_t *at;      /* by slot: the line that it stands for, or -1 */
    uint8_t *firm;    /* by slot: it is of a run that is anchored */
    uint32_t
        *headed; /* offsets of lines of which a head may have been printed */
    uint32_t headed_count;
    struct nc_range *wide; /* lines of NC_WIDE bytes and more, no newline */
    uint32_t wide_count;
    struct nc_range *ranges; /* of the lines that were printed */
    uint32_t range_count;
    struct nc_edge *edges;
    uint32_t edge_count;
    int has_run; /* three lines running, with letters in them, were printed */
    /* Its own: */
    uint32_t *local;     /* key: code */
    uint32_t code_count; /* the highest code */
    uint32_t *spots;     /* lines of each code, together */
    uint32_t *spots_at;  /* code: where they begin; they end at the next's */
    uint32_t *cursor;    /* code: spots that are known not to be free */
    uint32_t *first;     /* by slot: the code that it most likely stands for */
    int32_t *anchors;    /* by slot, -1: none */
    int32_t *before;
    int32_t *behind;
    uint32_t *loose; /* slots without a place of their own */
    uint32_t loose_count;
    uint32_t line_room;
    uint32_t headed_room;
    uint32_t wide_room;
};

/* Aligns the pieces p with mask[p] != 0. `seen` are ranges that are known
 * already, ascending, apart. `content` must stay until nc_judged_free. NULL: no
 * memory, or 4 GiB and more. */
struct nc_judged *nc_judge(const struct nc_index *index, const uint8_t *mask,
                           const uint8_t *content, size_t size,
                           const struct nc_range *seen, size_t seen_count);
void nc_judged_free(struct nc_judged *judged);

/* The line's text: no newline, no carriage returns at its end, no byte order
 * mark at the file's start. */
const uint8_t *nc_judged_text(const struct nc_judged *judged, uint32_t line,
                              size_t *size);
/* Number of the line that the offset is in; the count behind the last. */
uint32_t nc_judged_line(const struct nc_judged *judged, size_t offset);

/* The steps of nc_judge, a file each. 0, or -1: no memory. */
int nc_judged_scan(struct nc_judged *judged, const struct nc_index *index);
int nc_judged_align(struct nc_judged *judged, const struct nc_index *index,
                    const uint8_t *mask);
void nc_judged_settle(struct nc_judged *judged, const struct nc_index *index);
int nc_judged_gather(struct nc_judged *judged, const struct nc_index *index,
                     const uint8_t *mask);

/* attest-align.c. The n-th code that the slot may stand for; 0: its n-th text
 * is not in the file. *more says whether there are further ones. */
uint32_t nc_judged_code(const struct nc_judged *judged,
                        const struct nc_index *index, uint32_t slot, uint32_t n,
                        int *more);
/* Whether the line (-1: none) was still free; it is the slot's now. */
int nc_judged_take(struct nc_judged *judged, uint32_t slot, int64_t line);

/* How many lines of the file have the code. */
static inline uint32_t
nc_judged_times(const struct nc_judged *judged, uint32_t code)
{
    return judged->spots_at[code + 1] - judged->spots_at[code];
}

/* The slot of the piece's last line. */
static inline uint32_t
nc_last(const struct nc_piece *piece)
{
    return piece->first + piece->count - 1;
}

/* A part of a very long line that was printed, and the bytes of the printed
 * line that it took. */
struct nc_part {
    uint64_t start;
    uint64_t end;
    uint64_t paid;
};

/* The aligned blocks of a file's very long lines. */
struct nc_blocks;
struct nc_blocks *nc_blocks_new(const struct nc_judged *judged,
                                const struct nc_range *seen, size_t seen_count);
void nc_blocks_free(struct nc_blocks *blocks);
/* The parts of one printed text, at most `room`, into `out`; they count as
 * seen from now on. Returns how many. Parts not yet seen are preferred. */
size_t nc_blocks_find(struct nc_blocks *blocks, const uint8_t *text,
                      size_t size, struct nc_part *out, size_t room);

/* attest-index.c, for its neighbours. The key of a text of the pool; 0: no
 * memory. */
uint32_t nc_key_make(struct nc_keys *keys, const uint8_t *pool, uint32_t start,
                     uint32_t size);
/* 0: not there. */
uint32_t nc_key_find(const struct nc_keys *keys, const uint8_t *pool,
                     const uint8_t *text, size_t size);

/* attest-names.c. The paths that head a piece's lines. NULL: no memory. */
struct nc_names;
struct nc_names *nc_names_new(const uint8_t *pool,
                              const struct nc_printed *lines, uint32_t count);
void nc_names_free(struct nc_names *names);
/* Bytes of the longest path with its mark that the line begins with; 0: none. */
uint32_t nc_names_find(struct nc_names *names, const uint8_t *text,
                       uint32_t size);

/* attest-gutters.c. What the printed lines of one piece have in common. */
struct nc_manner;
struct nc_manner *nc_manner_new(const uint8_t *pool,
                                const struct nc_printed *lines, uint32_t count);
void nc_manner_free(struct nc_manner *manner);
/* Proposes readings of line `at` of the piece; `out` has NC_READINGS places. A
 * reading's key is not set. Returns how many, in the order of likelihood. */
unsigned nc_manner_read(const struct nc_manner *manner, uint32_t at,
                        struct nc_saying *out);

/* Room for one more at `count` in a growing array; false: no memory. */
int nc_grow(void **array, uint32_t *room, uint32_t count, size_t size);
#endif
