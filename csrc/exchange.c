/* One question over a connection, and its answer. */
#include <poll.h>
#include <string.h>

#include "client.h"

#define WORK_PATIENCE 30 /* seconds for an answer that takes git */

static size_t
question(char *out, size_t size, const struct nc_ask *ask)
{
    struct nc_question record = {
        .record = {.version = NC_VERSION, .type = NC_QUESTION},
        .id = 1,
        .op = ask->op,
        .start = ask->start,
        .end = ask->end,
        .path_size = (uint32_t)ask->path_size,
        .other_size = (uint32_t)ask->other_size,
    };
    size_t whole = sizeof record + ask->path_size + ask->other_size;
    whole = (whole + 7) & ~(size_t)7;
    if (whole > size)
        return 0;
    record.record.size = (uint32_t)whole;
    memset(out + whole - 8, 0, 8);
    memcpy(out, &record, sizeof record);
    if (ask->path_size)
        memcpy(out + sizeof record, ask->path, ask->path_size);
    if (ask->other_size)
        memcpy(out + sizeof record + ask->path_size, ask->other_path,
               ask->other_size);
    return whole;
}

/* The daemon is at work on it, with limits of its own. */
static int
stay(int to)
{
    struct pollfd one = {.fd = to, .events = POLLIN};
    for (int tries = 0; tries < 1000; tries++) {
        struct timespec most = {WORK_PATIENCE, 0};
        long ready = nc_raw(ppoll, &one, 1, &most, NULL, 0);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return ready > 0 ? 0 : -1;
        if (!ready)
            break;
    }
    errno = EAGAIN;
    return -1;
}

static int
receive(int to, struct nc_answer *answer)
{
    if (nc_receive(to, answer, sizeof *answer))
        return -1;
    if (answer->record.type != NC_ANSWER || answer->verdict != NC_WAIT)
        return 0;
    return stay(to) || nc_receive(to, answer, sizeof *answer) ? -1 : 0;
}

int
nc_exchange_ask(int to, const struct nc_ask *ask)
{
    char out[NC_QUESTION_ROOM];
    size_t size =
        ask->record ? ask->record_size : question(out, sizeof out, ask);
    const int fds[2] = {ask->fd, ask->other};
    return size ? nc_send(to, ask->record ? ask->record : out, size, fds,
                          ask->other >= 0 ? 2 : 1)
                : -1;
}

int
nc_exchange_hear(int to, struct nc_reply *reply)
{
    struct nc_answer *answer = &reply->answer;
    if (receive(to, answer) || answer->record.type != NC_ANSWER ||
        answer->record.size < sizeof *answer ||
        answer->record.size - sizeof *answer > sizeof reply->text ||
        answer->scope_size + answer->text_size > sizeof reply->text ||
        nc_receive(to, reply->text, answer->record.size - sizeof *answer))
        return -1;
    return 0;
}

int
nc_exchange(int to, const struct nc_ask *ask, struct nc_reply *reply)
{
    return nc_exchange_ask(to, ask) || nc_exchange_hear(to, reply) ? -1 : 0;
}

const char nc_down[] =
    "noclobber: the guard does not answer, so nothing is replaced until it "
    "does. Start it again with: noclobber daemon start\n";
