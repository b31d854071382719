/* What the agent was shown of a command's output, on its way to the daemon: as
 * harnesses cut it, the head and the tail.
 *
 * The head goes off as it comes. The tail changes with every byte, so it is
 * kept in a ring here and sent when it matters: when the command falls silent
 * or ends, and when the daemon asks before it judges. A daemon that is slow or
 * gone costs evidence (and that errs to refusal), never the command's time. */
#include "pump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MOST 16384 /* bytes of output in one record */
#define RECONNECT_SECONDS 1

/* Bytes of output and, for each, the stream that it came by. */
struct text {
    char *bytes;
    unsigned char *tags;
    size_t size;
};

struct nc_spool {
    const struct nc_launch *launch;
    int fd; /* to the daemon; -1: lost */
    time_t lost;
    struct nc_command *again; /* for another daemon, should this one die */
    size_t again_size;
    uint64_t total;   /* bytes printed up to now */
    uint64_t base;    /* where the head begins */
    bool is_turn;     /* and nothing of it was sent yet */
    struct text head; /* [base, base + head_used) */
    size_t head_used;
    size_t head_sent;
    struct text ring;    /* [ring_start, total), as far as it reaches back */
    uint64_t ring_start; /* what is older than this was not kept */
    uint64_t ring_sent;
    bool ended; /* the command has */
    bool ended_sent;
    unsigned asked; /* answers that the daemon waits for */
    char *out;      /* a record on its way: [out_sent, out_used) */
    size_t out_size;
    size_t out_used;
    size_t out_sent;
};

static void
make_text(struct text *text, size_t size)
{
    text->size = size;
    text->bytes = nc_alloc(size);
    text->tags = nc_alloc(size);
}

struct nc_spool *
nc_spool_new(const struct nc_launch *launch)
{
    struct nc_spool *spool = nc_alloc(sizeof *spool);
    size_t limit = launch->limit ? launch->limit : NC_SHOWN_LIMIT;
    spool->launch = launch;
    spool->fd = launch->daemon;
    spool->again =
        nc_command_record(launch, 0, launch->flags, &spool->again_size);
    make_text(&spool->head, limit - limit / 2);
    make_text(&spool->ring, limit / 2);
    spool->out_size = sizeof(struct nc_shown) + 2 * NC_ID_MAX + TEXT_MOST + 8;
    spool->out = nc_alloc(spool->out_size);
    return spool;
}

int
nc_spool_fd(const struct nc_spool *spool)
{
    return spool->fd;
}

bool
nc_spool_is_waiting(const struct nc_spool *spool)
{
    return spool->fd >= 0 && spool->out_sent < spool->out_used;
}

void
nc_spool_started(struct nc_spool *spool, pid_t pid)
{
    spool->again->pid = pid;
}

void
nc_spool_ended(struct nc_spool *spool)
{
    spool->ended = true;
}

void
nc_spool_add(struct nc_spool *spool, const char *text, size_t size,
             unsigned tag)
{
    size_t room = spool->head.size - spool->head_used;
    size_t part = size < room ? size : room;
    memcpy(spool->head.bytes + spool->head_used, text, part);
    memset(spool->head.tags + spool->head_used, (int)tag, part);
    spool->head_used += part;
    spool->total += part;
    text += part;
    size -= part;
    if (part)
        spool->ring_start = spool->ring_sent = spool->total;

    size_t cap = spool->ring.size;
    if (size > cap) {
        spool->total += size - cap;
        text += size - cap;
        size = cap;
    }
    while (size) {
        size_t at = (size_t)(spool->total % cap);
        part = size < cap - at ? size : cap - at;
        memcpy(spool->ring.bytes + at, text, part);
        memset(spool->ring.tags + at, (int)tag, part);
        spool->total += part;
        text += part;
        size -= part;
    }
}

bool
nc_spool_wants_end_only(const struct nc_spool *spool, size_t *end)
{
    *end = spool->ring.size;
    return spool->head_used == spool->head.size;
}

void
nc_spool_skip(struct nc_spool *spool, size_t size)
{
    spool->total += size;
    spool->ring_start = spool->total;
}

void
nc_spool_restart(struct nc_spool *spool)
{
    nc_spool_flush(spool, true);
    spool->base = spool->total;
    spool->is_turn = true;
    spool->head_used = spool->head_sent = 0;
    spool->ring_start = spool->ring_sent = spool->total;
}

/* Where the ring's text begins that is still to be sent. */
static uint64_t
ring_from(const struct nc_spool *spool)
{
    uint64_t from = spool->ring_start > spool->ring_sent ? spool->ring_start
                                                         : spool->ring_sent;
    uint64_t cap = spool->ring.size;
    return spool->total > cap && from < spool->total - cap ? spool->total - cap
                                                           : from;
}

bool
nc_spool_has_tail(const struct nc_spool *spool)
{
    return ring_from(spool) < spool->total;
}

static void
lose(struct nc_spool *spool)
{
    close(spool->fd);
    spool->fd = -1;
    spool->lost = time(NULL);
    spool->out_used = spool->out_sent = 0;
    spool->asked = 0;
}

/* The daemon was started anew: tell it again whose output this is, and all
 * that is still here of it. Offsets say what is the same. */
static void
reconnect(struct nc_spool *spool)
{
    if (time(NULL) - spool->lost < RECONNECT_SECONDS)
        return;
    spool->fd = nc_connect(spool->launch->socket, 0);
    if (spool->fd < 0) {
        spool->lost = time(NULL);
        return;
    }
    if (nc_send(spool->fd, spool->again, spool->again_size) < 0)
        lose(spool);
    spool->is_turn = spool->base > 0;
    spool->head_sent = 0;
    spool->ring_sent = 0;
    spool->ended_sent = false;
}

/* Send the record at hand. Returns whether there is none any more. */
static bool
push(struct nc_spool *spool)
{
    while (spool->out_sent < spool->out_used) {
        ssize_t sent = send(spool->fd, spool->out + spool->out_sent,
                            spool->out_used - spool->out_sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            spool->out_sent += (size_t)sent;
        } else if (errno == EAGAIN) {
            return false;
        } else if (errno != EINTR) {
            lose(spool);
            return false;
        }
    }
    spool->out_used = spool->out_sent = 0;
    return true;
}

/* Make the next record: text [at, at + size) of one stream. */
static void
write_record(struct nc_spool *spool, uint64_t offset, const char *text,
             size_t size, unsigned tag)
{
    const struct nc_launch *launch = spool->launch;
    size_t session = strlen(launch->session);
    size_t command = strlen(launch->command);
    size_t total = sizeof(struct nc_shown) + session + command + size;
    total = (total + 7) & ~(size_t)7;
    struct nc_shown *record = (struct nc_shown *)spool->out;
    memset(record, 0, sizeof *record);
    record->record = (struct nc_record){.size = (uint32_t)total,
                                        .version = NC_VERSION,
                                        .type = NC_SHOWN,
                                        .flags = (uint16_t)tag};
    record->offset = offset;
    record->session_size = (uint16_t)session;
    record->command_size = (uint16_t)command;
    record->text_size = (uint32_t)size;
    char *out = (char *)(record + 1);
    memcpy(out, launch->session, session);
    memcpy(out + session, launch->command, command);
    memcpy(out + session + command, text, size);
    memset(out + session + command + size, 0,
           total - sizeof *record - session - command - size);
    spool->out_used = total;
    spool->out_sent = 0;
}

/* How much of `text` from `at` is of one stream and fits a record. */
static size_t
run_length(const struct text *text, size_t at, size_t end)
{
    size_t size = 1;
    while (at + size < end && size < TEXT_MOST &&
           text->tags[at + size] == text->tags[at])
        size++;
    return size;
}

/* Write the next record that is due. Returns whether there was one. */
static bool
next_record(struct nc_spool *spool, bool tail)
{
    const struct text *head = &spool->head;
    const struct text *ring = &spool->ring;
    uint64_t from = ring_from(spool);
    if (spool->head_sent < spool->head_used) {
        size_t at = spool->head_sent;
        size_t size = run_length(head, at, spool->head_used);
        unsigned turn = spool->is_turn ? NC_TURN : 0;
        write_record(spool, spool->base + at, head->bytes + at, size,
                     head->tags[at] | turn);
        spool->is_turn = false;
        spool->head_sent += size;
        return true;
    }
    if (tail && from < spool->total) {
        size_t at = (size_t)(from % ring->size);
        uint64_t left = spool->total - from;
        size_t end = ring->size - at < left ? ring->size : at + (size_t)left;
        size_t size = run_length(ring, at, end);
        write_record(spool, from, ring->bytes + at, size, ring->tags[at]);
        spool->ring_sent = from + size;
        return true;
    }
    if (tail && spool->asked) {
        write_record(spool, spool->total, "", 0, 0);
        spool->asked--;
        return true;
    }
    if (spool->ended && !spool->ended_sent) {
        size_t size;
        void *record = nc_command_record(spool->launch, 0, NC_ENDED, &size);
        memcpy(spool->out, record, size);
        free(record);
        spool->out_used = size;
        spool->out_sent = 0;
        spool->ended_sent = true;
        return true;
    }
    return false;
}

void
nc_spool_flush(struct nc_spool *spool, bool tail)
{
    if (spool->fd < 0)
        reconnect(spool);
    while (spool->fd >= 0 && push(spool) && next_record(spool, tail))
        ;
}

bool
nc_spool_asked(struct nc_spool *spool)
{
    struct nc_record requests[16];
    ssize_t got = recv(spool->fd, requests, sizeof requests, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        lose(spool);
        return false;
    }
    /* Nothing but bare headers of NC_SHOWN comes this way. */
    if (got > 0)
        spool->asked += (unsigned)((size_t)got / sizeof *requests);
    return spool->asked;
}
