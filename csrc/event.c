/* A harness's event. It may hold a file's whole content: it is taken in as a
 * file, which the daemon gets a descriptor of. What it says is for the daemon
 * to read; where none answers, its kind has to be known all the same, for a
 * replacement that nobody judged must not pass. */
#include "hook.h"
#include "launch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int
nameless_file(void)
{
#ifdef MFD_CLOEXEC
    return memfd_create("noclobber-event", MFD_CLOEXEC);
#else
    char name[] = "/tmp/noclobber-event-XXXXXX";
    int fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
    return fd;
#endif
}

static int
put(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno != EINTR)
            return -1;
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        }
    }
    return 0;
}

int
nc_take_event(int from, int patience, struct nc_event *event)
{
    static char piece[1 << 16];
    event->size = 0;
    event->fd = nc_move_high(nameless_file());
    if (event->fd < 0)
        return -1;
    for (;;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int found = poll(&ready, 1, patience);
        if (!found)
            errno = ETIMEDOUT;
        if (found < 0 && errno == EINTR)
            continue;
        ssize_t got = found > 0 ? read(from, piece, sizeof piece) : -1;
        if (!got)
            return 0;
        if (got < 0 && found > 0 && errno == EINTR)
            continue;
        if (got < 0 || put(event->fd, piece, (size_t)got) < 0)
            return -1;
        event->size += (size_t)got;
        if (event->size > NC_EVENT_MOST) {
            errno = EFBIG;
            return -1;
        }
    }
}

/* The end of a string that begins behind `at`, where its quote stands. */
static const char *
string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at : end;
}

static const char *
behind_blanks(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r\n", *at) && *at)
        at++;
    return at;
}

void
nc_member(const char *text, size_t size, const char *key, char *out,
          size_t room)
{
    const char *end = text + size;
    int depth = 0;
    *out = 0;
    for (const char *at = text; at < end; at++) {
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        if (*at != '"')
            continue;
        const char *name = at + 1;
        at = string_end(at, end);
        const char *colon = at < end ? behind_blanks(at + 1, end) : end;
        if (depth != 1 || (size_t)(at - name) != strlen(key) ||
            memcmp(name, key, strlen(key)) || colon == end || *colon != ':')
            continue;
        const char *value = behind_blanks(colon + 1, end);
        if (value == end || *value != '"')
            continue;
        at = string_end(value, end);
        size_t length = (size_t)(at - value - 1);
        if (at < end && length < room) {
            memcpy(out, value + 1, length);
            out[length] = 0;
        }
        return;
    }
}

bool
nc_replaces(const struct nc_event *event, const char *harness)
{
    static const struct {
        const char *harness, *event, *tool;
    } known[] = {
        {"claude", "PreToolUse", "Write"},
        {"gemini", "BeforeTool", "write_file"},
        {"codex", "PreToolUse", "apply_patch"},
        {"cursor", "preToolUse", "Write"},
    };
    char kind[32] = "", tool[32] = "";
    if (event->fd < 0 || !event->size)
        return false;
    char *text = mmap(NULL, event->size, PROT_READ, MAP_PRIVATE, event->fd, 0);
    if (text == MAP_FAILED)
        return false;
    nc_member(text, event->size, "hook_event_name", kind, sizeof kind);
    nc_member(text, event->size, "tool_name", tool, sizeof tool);
    munmap(text, event->size);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(harness, known[i].harness) &&
            !strcmp(kind, known[i].event) && !strcmp(tool, known[i].tool))
            return true;
    return false;
}
