/* What a printed line says of a file's line once its decoration is taken off.
 *
 * Tools print a file with line numbers, paths and diff marks around its lines.
 * Each function here proposes readings of one printed line; whether a reading
 * is true is decided elsewhere, by comparing it with the file's own line byte
 * for byte. So a wrong proposal costs time, never credit. */
#include "attest.h"

#include <stdlib.h>
#include <string.h>

#define PATH_MOST 256 /* bytes of a line within which its path must end */
#define PATHS_TRIED 3 /* a path may itself hold `-12-`: parses to propose */
#define DIGITS_MOST 9

struct nc_manner {
    const uint8_t *pool;
    const struct nc_printed *lines;
    uint32_t count;
    int is_diff;
    int all_numbers; /* `seq` and not `sed =` */
    struct nc_names *names;
};

/* One line that is being read, and the readings up to now. */
struct reader {
    const uint8_t *text;
    uint32_t size;
    uint32_t start; /* of `text` in the pool */
    struct nc_saying *out;
    unsigned count;
};

static int
is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static int
is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static void
say(struct reader *line, uint32_t number, uint32_t at)
{
    if (line->count < NC_READINGS)
        line->out[line->count++] = (struct nc_saying){.number = number,
                                                      .start = line->start + at,
                                                      .size = line->size - at};
}

static uint8_t
byte_at(const struct reader *line, uint32_t at)
{
    return at < line->size ? line->text[at] : 0;
}

/* The end of 1 to `most` digits at `at`, their value in *number; 0: there are
 * none, or more. */
static uint32_t
digits(const struct reader *line, uint32_t at, unsigned most, uint32_t *number)
{
    uint32_t end = at;
    *number = 0;
    while (end < line->size && is_digit(line->text[end])) {
        if (end - at == most)
            return 0;
        *number = *number * 10 + (uint32_t)(line->text[end++] - '0');
    }
    return end > at ? end : 0;
}

static uint32_t
skip(const struct reader *line, uint32_t at, uint8_t byte)
{
    while (at < line->size && line->text[at] == byte)
        at++;
    return at;
}

/* `12:` of a column at `at`: its end, else 0. */
static uint32_t
column(const struct reader *line, uint32_t at)
{
    uint32_t number;
    uint32_t end = digits(line, at, 6, &number);
    return end && byte_at(line, end) == ':' ? end + 1 : 0;
}

/* The upright stroke of a box, in ASCII or not, at `at`: its size, else 0. */
static uint32_t
stroke(const struct reader *line, uint32_t at)
{
    if (byte_at(line, at) == '|')
        return 1;
    return line->size >= at + 3 && !memcmp(line->text + at, "\xe2\x94\x82", 3)
               ? 3
               : 0;
}

/* `   ~ | text`, what follows bat's and others' numbers: where the text is. */
static uint32_t
box(const struct reader *line, uint32_t at)
{
    at = skip(line, at, ' ');
    uint8_t mark = byte_at(line, at);
    if (mark == '+' || mark == '~' || mark == '_' || mark == '-')
        at = skip(line, at + 1, ' ');
    uint32_t size = stroke(line, at);
    if (!size)
        return 0;
    return at + size + (byte_at(line, at + size) == ' ');
}

/* `12<tab>text` and its like: cat -n, nl, grep -n, less -N, bat, Read tools. */
static void
numbered(struct reader *line)
{
    uint32_t number;
    uint32_t at = skip(line, 0, ' ');
    at = digits(line, at + (byte_at(line, at) == 'L'), DIGITS_MOST, &number);
    if (!at)
        return;
    if (at == line->size) { /* a blank line, its trailing blank trimmed */
        if (line->text[0] == ' ')
            say(line, number, at);
        return;
    }
    uint8_t mark = line->text[at];
    uint32_t text;
    switch (mark) {
    case '\t':
    case '-':
        say(line, number, at + 1);
        break;
    case ':':
    case '.':
    case ')':
        if (mark == ':')
            say(line, number, at + 1);
        if (byte_at(line, at + 1) == ' ')
            say(line, number, at + 2);
        if (mark == ':' && (text = column(line, at + 1)))
            say(line, number, text);
        break;
    case ' ':
    case '|':
        say(line, number, at + 1);
        if ((text = box(line, at)))
            say(line, number, text);
        break;
    case 0xe2: /* an arrow, or a box */
        if (line->size >= at + 3 && !memcmp(line->text + at, "\xe2\x86\x92", 3))
            say(line, number, at + 3);
        else if ((text = box(line, at)))
            say(line, number, text);
        break;
    }
}

/* `path:12:text`, `path-12-text` (grep -Hn, rg), with a column or without. */
static void
placed(struct reader *line)
{
    uint32_t most = line->size < PATH_MOST ? line->size : PATH_MOST;
    unsigned found = 0;
    for (uint32_t at = 1; at < most && found < PATHS_TRIED; at++) {
        uint8_t mark = line->text[at];
        if (mark != ':' && mark != '-')
            continue;
        uint32_t number;
        uint32_t end = digits(line, at + 1, DIGITS_MOST, &number);
        if (!end || end >= most || line->text[end] != mark)
            continue;
        found++;
        at = end;
        say(line, number, end + 1);
        uint32_t text = column(line, end + 1);
        if (text)
            say(line, number, text);
    }
}

/* Lines that a diff says are in the new file: ` ` and `+`, `> ` and `< `. A
 * combined diff has two columns of marks. A `-` line is in no file. */
static void
marked(struct reader *line)
{
    uint8_t mark = line->text[0], next = byte_at(line, 1);
    if (mark == '+' || mark == ' ') {
        say(line, 0, 1);
        if (next == '+' || next == ' ')
            say(line, 0, 2);
    } else if ((mark == '>' || mark == '<') && next == ' ') {
        say(line, 0, 2);
    }
}

static uint32_t
hex(const struct reader *line, uint32_t at)
{
    while (at < line->size &&
           (is_digit(line->text[at]) ||
            (line->text[at] >= 'a' && line->text[at] <= 'f')))
        at++;
    return at;
}

/* `git blame` and `git annotate`: HASH [FILE] (WHO WHEN 12) text. */
static void
blamed(struct reader *line)
{
    uint32_t begin = byte_at(line, 0) == '^';
    uint32_t at = hex(line, begin);
    if (at < begin + 7 || at > begin + 40 || byte_at(line, at) != ' ')
        return;
    at++;
    if (byte_at(line, at) != '(') {
        while (at < line->size && !is_space(line->text[at]) &&
               line->text[at] != '(' && line->text[at] != ')')
            at++;
        if (byte_at(line, at) != ' ')
            return;
        at = skip(line, at, ' ');
        if (byte_at(line, at) != '(')
            return;
    }
    uint32_t close = at + 1;
    while (close < line->size && line->text[close] != '(' &&
           line->text[close] != ')')
        close++;
    if (byte_at(line, close) != ')' || byte_at(line, close + 1) != ' ')
        return;
    uint32_t first = close, number;
    while (is_digit(line->text[first - 1]))
        first--;
    if (line->text[first - 1] == ' ' && first - 1 > at &&
        digits(line, first, DIGITS_MOST, &number) == close)
        say(line, number, close + 2);
}

/* A line of 1 to 9 digits and nothing else, as `sed =` prints before each line
 * of a file: its value in *number. */
static int
is_number(const struct nc_manner *manner, int64_t at, uint32_t *number)
{
    if (at < 0 || at >= manner->count)
        return 0;
    struct reader line = {.text = manner->pool + manner->lines[at].start,
                          .size = manner->lines[at].size};
    return digits(&line, 0, DIGITS_MOST, number) == line.size && line.size;
}

static void
interleaved(const struct nc_manner *manner, int64_t at, struct reader *line)
{
    uint32_t number, next, last;
    if (manner->all_numbers || !is_number(manner, at - 1, &number))
        return;
    if ((is_number(manner, at + 1, &next) && next == number + 1) ||
        (is_number(manner, at - 3, &last) && last + 1 == number))
        say(line, number, 0);
}

struct nc_manner *
nc_manner_new(const uint8_t *pool, const struct nc_printed *lines,
              uint32_t count)
{
    struct nc_manner *manner = calloc(1, sizeof *manner);
    if (!manner)
        return NULL;
    manner->pool = pool;
    manner->lines = lines;
    manner->count = count;
    manner->all_numbers = 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *text = pool + lines[i].start;
        uint32_t size = lines[i].size, number;
        manner->all_numbers =
            manner->all_numbers && is_number(manner, i, &number);
        if (size && text[0] == '+')
            manner->is_diff = 1;
        else if (size >= 2 &&
                 (!memcmp(text, "@@", 2) || !memcmp(text, "> ", 2) ||
                  !memcmp(text, "< ", 2)))
            manner->is_diff = 1;
    }
    manner->names = nc_names_new(pool, lines, count);
    if (manner->names)
        return manner;
    nc_manner_free(manner);
    return NULL;
}

void
nc_manner_free(struct nc_manner *manner)
{
    if (manner)
        nc_names_free(manner->names);
    free(manner);
}

static int
holds_nothing_but(const struct reader *line, int (*is_of)(uint8_t))
{
    for (uint32_t at = 0; at < line->size; at++)
        if (!is_of(line->text[at]))
            return 0;
    return 1;
}

unsigned
nc_manner_read(const struct nc_manner *manner, uint32_t at,
               struct nc_saying *out)
{
    const struct nc_printed *printed = manner->lines + at;
    struct reader line = {.text = manner->pool + printed->start,
                          .size = printed->size,
                          .start = printed->start,
                          .out = out};
    if (line.size && !holds_nothing_but(&line, is_digit)) {
        uint8_t first = line.text[0];
        if (first == ' ' || first == 'L' || is_digit(first)) {
            numbered(&line);
            if (holds_nothing_but(&line, is_space))
                say(&line, 0, line.size); /* nl numbers no blank line */
        }
        if (manner->is_diff)
            marked(&line);
        placed(&line);
        uint32_t name = nc_names_find(manner->names, line.text, line.size);
        if (name)
            say(&line, 0, name);
        if (first == '^' || is_digit(first) || (first >= 'a' && first <= 'f'))
            blamed(&line);
    }
    interleaved(manner, at, &line);
    return line.count;
}
