/* Shared by client.c, question.c and apart.c: one question and its answer. */
#ifndef NOCLOBBER_CLIENT_H
#define NOCLOBBER_CLIENT_H
#include "shim.h"

#define NC_HELLO_ROOM (NC_ARGV_MAX + 2048)
#define NC_QUESTION_ROOM (2 * NC_PATH_MAX + 128)
#define NC_REPLY_TEXT 12288

struct nc_reply {
    struct nc_answer answer;
    char text[NC_REPLY_TEXT]; /* the scope, then the message */
};

int nc_exchange(int to, const struct nc_ask *ask, struct nc_reply *reply);
/* Its two halves. */
int nc_exchange_ask(int to, const struct nc_ask *ask);
int nc_exchange_hear(int to, struct nc_reply *reply);
extern const char nc_down[]; /* what is said where nobody answers */

/* Over this process's connection. 1: it is busy in this very thread; -1: the
 * daemon does not answer. */
int nc_client_ask(const struct nc_ask *ask, struct nc_reply *reply);

/* Says `data` and asks, in a process that shares this memory but not its
 * descriptors: for a program that has used up all that it may have. */
int nc_apart(const char *data, size_t size, const struct nc_ask *ask,
             struct nc_reply *reply);

/* What part this program has, by the daemon's word; -1: no answer. */
int nc_client_who(const char *wanted);

/* A record of that many bytes, header and all, has this size. */
static inline size_t
nc_record_size(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

/* One record, whole, with two strings behind its `size` bytes. Its size. */
size_t nc_record_put(char *out, struct nc_record *record, size_t size,
                     const void *first, size_t first_size, const void *second,
                     size_t second_size);
int nc_is_unsent(void); /* are there reports that the daemon has not got */

/* A page that the kernel zeroes in every fork child, or NULL. */
void *nc_wiped_on_fork(void);
#endif
