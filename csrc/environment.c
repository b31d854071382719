/* The environment of what is started from here: a program that was given an
 * empty one is still this session's. */
#include <string.h>

#include "library.h"
#include "shim.h"

#define KEPT_TEXT 16384
#define PRELOAD "LD_PRELOAD="
#define ASAN "ASAN_OPTIONS="
#define COMMAND "NOCLOBBER_COMMAND="
#define PRELOAD_MOST (NC_PRELOAD_ROOM - NC_CHILD_ROOM)

static const char *const names[] = {
    "NOCLOBBER_SESSION",    "NOCLOBBER_COMMAND",  "NOCLOBBER_ROOTS",
    "NOCLOBBER_SKIP",       "NOCLOBBER_SOCKET",   "NOCLOBBER_PUMP",
    "NOCLOBBER_FAIL",       "NOCLOBBER_LIFELINE", "NOCLOBBER_TIER",
    "NOCLOBBER_DIRTY",      "NOCLOBBER_AGENT",    "NOCLOBBER_SUPERVISE",
    "NOCLOBBER_SUPERVISED",
};
#define NAMES (sizeof names / sizeof *names)
_Static_assert(NAMES < NC_OURS_ROOM, "room for each and for the end");

/* Copies: a program may write its title over its first environment. */
NC_COLD static char text[KEPT_TEXT];
static size_t used;
static const char *kept[NAMES]; /* NAME=value */
static const char *shim;        /* the path of this library */
static const char *asan;        /* ASAN_OPTIONS=..., that tolerates a preload */

static const char *
keep(const char *from, size_t size)
{
    if (used + size + 1 > sizeof text)
        return NULL;
    char *to = text + used;
    memcpy(to, from, size);
    to[size] = 0;
    used += size + 1;
    return to;
}

void
nc_environment_start(char **environment)
{
    for (; *environment; environment++) {
        const char *entry = *environment;
        if (*entry == 'N' && !strncmp(entry, "NOCLOBBER_", 10)) {
            size_t name = 10;
            while (entry[name] && entry[name] != '=')
                name++;
            for (size_t i = 0; i < NAMES; i++)
                if (strlen(names[i]) == name && !memcmp(entry, names[i], name))
                    kept[i] = keep(entry, strlen(entry));
        } else if (*entry == 'L' &&
                   !strncmp(entry, PRELOAD, sizeof PRELOAD - 1)) {
            size_t size;
            const char *found =
                nc_library_in(entry + sizeof PRELOAD - 1, &size);
            if (found)
                shim = keep(found, size);
        } else if (*entry == 'A' && !strncmp(entry, ASAN, sizeof ASAN - 1)) {
            asan = keep(entry, strlen(entry));
        }
    }
}

const char *
nc_environment_get(const char *name)
{
    for (size_t i = 0; i < NAMES; i++)
        if (!strcmp(names[i], name))
            return kept[i] ? kept[i] + strlen(name) + 1 : NULL;
    return NULL;
}

size_t
nc_environment_size(char *const *given)
{
    size_t size = 0;
    while (given && given[size])
        size++;
    return size + NAMES + 5;
}

char *const *
nc_environment(char *const *given, char **room, char *preload,
               enum nc_loader loader, const char *also)
{
    return nc_environment_of(given, room, preload, loader, NULL, also);
}

void
nc_environment_ours(char *out[NC_OURS_ROOM])
{
    size_t at = 0;
    for (size_t i = 0; i < NAMES; i++)
        if (kept[i])
            out[at++] = (char *)kept[i];
    out[at] = NULL;
}

int
nc_has_library(enum nc_loader loader)
{
    char room[NC_LIBRARY_ROOM];
    return shim && nc_library_for(shim, loader, room);
}

/* Is this entry one that a program has no part in whose parent is the agent?
 * The name of its command gives way to `command`. */
static int
is_agents(const char *entry, const char *command)
{
    return !strncmp(entry, "NOCLOBBER_AGENT=", 16) ||
           (command && !strncmp(entry, COMMAND, sizeof COMMAND - 1));
}

/* What a preload list names, if anything: is it this library? */
static int
is_same(const char *found, size_t size, const char *library)
{
    return found && strlen(library) == size && !memcmp(found, library, size);
}

char *const *
nc_environment_of(char *const *given, char **room, char *preload,
                  enum nc_loader loader, const struct nc_outputs *outputs,
                  const char *also)
{
    char other[NC_LIBRARY_ROOM];
    const char *library = shim ? nc_library_for(shim, loader, other) : NULL;
    size_t at = 0, size;
    int leaves = nc_unlikely(nc_process.beside) ||
                 (nc_unlikely(nc_process.agent) &&
                  nc_leaves_agent(given, outputs != NULL));
    char *command = NULL;
    if (leaves && nc_process.agent &&
        nc_child_command(preload + NC_PRELOAD_ROOM - NC_CHILD_ROOM, outputs))
        command = preload + NC_PRELOAD_ROOM - NC_CHILD_ROOM;
    int has_session = 0, has_preload = 0, has_asan = 0, has_lifeline = 0;
    for (size_t i = 0; given && given[i]; i++) {
        char *entry = given[i];
        room[at++] = entry;
        if (*entry == 'N') {
            at -= (size_t)(leaves && is_agents(entry, command));
            if (!strncmp(entry, "NOCLOBBER_SESSION=", 18)) {
                has_session |= entry[18] != 0;
                at -= !entry[18]; /* emptied: as good as taken out */
            }
            has_lifeline |= !strncmp(entry, "NOCLOBBER_LIFELINE=", 19);
        } else if (*entry == 'A') {
            has_asan |= !strncmp(entry, ASAN, sizeof ASAN - 1);
        } else if (*entry == 'L' &&
                   !strncmp(entry, PRELOAD, sizeof PRELOAD - 1)) {
            const char *list = entry + sizeof PRELOAD - 1;
            const char *found = nc_library_in(list, &size);
            has_preload =
                !shim || (library ? is_same(found, size, library) : !found);
            if (has_preload ||
                !nc_library_put(list, library, preload + sizeof PRELOAD - 1,
                                PRELOAD_MOST - (sizeof PRELOAD - 1)))
                continue;
            memcpy(preload, entry, sizeof PRELOAD - 1);
            room[at - 1] = preload;
            at -= !preload[sizeof PRELOAD - 1]; /* nothing is left */
            has_preload = -1;
        }
    }
    const char *lifeline = has_lifeline ? NULL : nc_lifeline_entry();
    if (!library && !has_preload)
        has_preload = 1;
    if (has_session && has_preload == 1 && !lifeline && !leaves && !also)
        return given;
    if (!has_preload &&
        nc_library_put("", library, preload + sizeof PRELOAD - 1,
                       PRELOAD_MOST - (sizeof PRELOAD - 1))) {
        memcpy(preload, PRELOAD, sizeof PRELOAD - 1);
        room[at++] = preload;
    }
    for (size_t i = 0; !has_session && i < NAMES; i++)
        if (kept[i] && !(lifeline && !strcmp(names[i], "NOCLOBBER_LIFELINE")) &&
            !(leaves && is_agents(kept[i], command)))
            room[at++] = (char *)kept[i];
    if (command)
        room[at++] = command;
    if (!has_session && !has_asan && asan)
        room[at++] = (char *)asan;
    if (lifeline)
        room[at++] = (char *)lifeline;
    if (also)
        room[at++] = (char *)also;
    room[at] = NULL;
    return room;
}
