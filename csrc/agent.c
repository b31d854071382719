/* Which process is the agent, under `noclobber run`. The launcher puts a word
 * into the environment; each program that finds it there asks the daemon what
 * it is. Those on the way (env, npx, a shell) hand the word on, the agent takes
 * it out of what it starts, but for workers of its own. */
#include <stdlib.h>
#include <string.h>

#include "intake.h"

/* By these a parent hands its worker a channel to itself. */
static const char *const workers[] = {"NODE_CHANNEL_FD="};

static int
is_worker(char *const *given)
{
    for (; given && *given; given++)
        for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
            if (!strncmp(*given, workers[i], strlen(workers[i])))
                return 1;
    return 0;
}

void
nc_agent_start(void)
{
    const char *word = nc_environment_get("NOCLOBBER_AGENT");
    char *end;
    unsigned long limit = strtoul(word, &end, 10);
    int part = *end == ':' ? nc_client_who(end + 1) : NC_ROLE_NONE;
    nc_process.agent = part == NC_ROLE_AGENT;
    nc_process.beside = part == NC_ROLE_NONE;
    if (nc_process.agent)
        nc_intake_start(limit);
}

int
nc_leaves_agent(char *const *given, int is_spawn)
{
    if (!is_spawn && !nc_is_guest() && !nc_process.parent)
        return 0; /* it becomes another program itself */
    return !is_worker(given);
}

static char *
append(char *out, const char *text, size_t size)
{
    memcpy(out, text, size);
    return out + size;
}

static char *
append_number(char *out, uint64_t number)
{
    char digits[24];
    int many = 0;
    for (; number || !many; number /= 10)
        digits[many++] = (char)('0' + number % 10);
    while (many)
        *out++ = digits[--many];
    return out;
}

size_t
nc_intake_command(char *out, const uint64_t ways[2])
{
    const char *own = nc_environment_get("NOCLOBBER_COMMAND");
    size_t size = own ? strcspn(own, ".") : 0;
    char *end = out;
    if (!size || size > NC_ID_MAX - 48)
        return 0;
    end = append(end, own, size);
    for (int i = 0; i < 2; i++) {
        if (!ways[i] || (i && ways[i] == ways[0]))
            continue;
        *end++ = i && ways[0] ? ',' : '.';
        end = append_number(end, ways[i]);
    }
    return (size_t)(end - out);
}

int
nc_child_command(char *out, const struct nc_outputs *outputs)
{
    static const char name[] = "NOCLOBBER_COMMAND=";
    int kept = errno;
    struct nc_outputs found = {{0, 0}};
    if (outputs)
        found = *outputs;
    for (int i = 0; !outputs && i < 2; i++)
        found.way[i] = nc_way_of(i + 1);
    errno = kept;
    if (!found.way[0] && !found.way[1])
        return 0;
    char *end = append(out, name, sizeof name - 1);
    size_t size = nc_intake_command(end, found.way);
    end[size] = 0;
    return size != 0;
}
