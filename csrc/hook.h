/* noclobber-hook: one event of a harness goes to the daemon, and what the
 * daemon says of it to the harness.
 *
 *   hook.c    arguments, the conversation, what is printed
 *   event.c   the event: taken in, and looked at where there is no daemon
 */
#ifndef NOCLOBBER_HOOK_H
#define NOCLOBBER_HOOK_H
#include <stdbool.h>
#include <stddef.h>

#define NC_EVENT_MOST 67108864 /* bytes */

struct nc_event {
    int fd; /* a file that holds it and has no name */
    size_t size;
};

/* Take in all of `from`, of which something has to come every `patience` ms.
 * Returns 0, or -1 with errno (EFBIG, ETIMEDOUT). */
int nc_take_event(int from, int patience, struct nc_event *event);

/* The text that the outermost object of a JSON text has under `key`, its
 * escapes as they stand; "" where there is none, or where it is longer. */
void nc_member(const char *text, size_t size, const char *key, char *out,
               size_t room);

/* Whether the event asks for leave to put a text in a file's place, as far as
 * can be told without its harness's rules (controlplane/noclobber/harness). */
bool nc_replaces(const struct nc_event *event, const char *harness);
#endif
