/* What processes tell each other over socket pairs and pipes. None of it is
 * ever refused; the agent's own process listens to it (csrc/intake.c). */
#include "entry.h"

NAMED(ssize_t, named_recv_chk, __recv_chk, (int, void *, size_t, size_t, int));
NAMED(ssize_t, inner_write, __write, (int, const void *, size_t));

#define RUN(name) static long name(const char *t, long upto)
#define WORDS "what the one tells the other"
#define SIZE ((long)sizeof WORDS - 1)

enum way { BY_WRITE, BY_INNER_WRITE, BY_WRITEV };

static long
said(int fd, enum way way)
{
    const struct iovec parts[] = {
        {(char *)WORDS, 5}, {(char *)WORDS + 5, (size_t)SIZE - 5}};
    if (way == BY_WRITEV)
        return writev(fd, parts, 2);
    return way == BY_WRITE ? write(fd, WORDS, (size_t)SIZE)
                           : inner_write(fd, WORDS, (size_t)SIZE);
}

/* How much came through, or -1 where it was not what was said. */
static long
heard(int fd, ssize_t (*hear)(int, void *, size_t))
{
    memset(buffer, 0, (size_t)SIZE);
    ssize_t got = hear(fd, buffer, sizeof buffer);
    return got == SIZE && !memcmp(buffer, WORDS, (size_t)SIZE) ? got : -1;
}

static ssize_t
by_recv(int fd, void *out, size_t size)
{
    return recv(fd, out, size, 0);
}

/* Looks first: what was looked at is still to be had. */
static ssize_t
by_peeking(int fd, void *out, size_t size)
{
    return recv(fd, out, size, MSG_PEEK) == SIZE ? recv(fd, out, size, 0) : -1;
}

static ssize_t
by_recv_chk(int fd, void *out, size_t size)
{
    return named_recv_chk(fd, out, size, size, 0);
}

static long
through_pair(enum way way, ssize_t (*hear)(int, void *, size_t))
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || said(ends[0], way) != SIZE)
        return -1;
    long got = heard(ends[1], hear);
    close(ends[0]);
    /* the other end is gone */
    return recv(ends[1], buffer, 1, 0) ? -1 : got;
}

static long
through_pipe(enum way way)
{
    int ends[2];
    if (pipe(ends) || said(ends[1], way) != SIZE)
        return -1;
    return heard(ends[0], read);
}

#define TALK(name, expression) \
    RUN(name)                  \
    {                          \
        (void)t;               \
        (void)upto;            \
        return expression;     \
    }

TALK(p_recv, through_pair(BY_WRITE, by_recv))
TALK(p_recv_peek, through_pair(BY_WRITE, by_peeking))
TALK(p_recv_chk, through_pair(BY_WRITEV, by_recv_chk))
TALK(p_pair, through_pair(BY_INNER_WRITE, read))
TALK(p_inner_write, through_pipe(BY_INNER_WRITE))
TALK(p_writev, through_pipe(BY_WRITEV))

TALK(e_recv_number, recv(987, buffer, 1, 0))
TALK(e_recv_file, recv(plain_open(t, O_RDONLY), buffer, 1, 0))
TALK(e_recv_chk_number, named_recv_chk(987, buffer, 1, 1, 0))
TALK(e_inner_write_number, inner_write(987, WORDS, 1))
TALK(e_inner_write_null, inner_write(plain_open(t, O_WRONLY), NULL, 1))
TALK(e_writev_number, writev(987, NULL, 0))
TALK(e_writev_many, writev(plain_open(t, O_WRONLY), NULL, -1))
TALK(e_pair_null, socketpair(AF_UNIX, SOCK_STREAM, 0, NULL))
TALK(e_pair_family, socketpair(-1, SOCK_STREAM, 0, (int[2]){0, 0}))

const struct entry talks[] = {
    {"recv", p_recv, PASSES},
    {"recv:peek", p_recv_peek, PASSES},
    {"__recv_chk", p_recv_chk, PASSES},
    {"socketpair", p_pair, PASSES},
    {"__write", p_inner_write, PASSES},
    {"writev", p_writev, PASSES},
    {"recv:number", e_recv_number, FAILS},
    {"recv:file", e_recv_file, FAILS},
    {"__recv_chk:number", e_recv_chk_number, FAILS},
    {"__write:number", e_inner_write_number, FAILS},
    {"__write:null", e_inner_write_null, FAILS},
    {"writev:number", e_writev_number, FAILS},
    {"writev:many", e_writev_many, FAILS},
    {"socketpair:null", e_pair_null, FAILS},
    {"socketpair:family", e_pair_family, FAILS},
    {NULL, NULL, PASSES},
};
