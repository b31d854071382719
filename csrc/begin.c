/* What holds for a command, asked of the daemon before it starts: the state of
 * the session's roots must be known by then, or the command's own changes
 * would be taken for somebody else's. */
#include "launch.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 25000 /* for git to look at all of a large tree */

static int64_t
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static char *
put(char *out, const void *data, size_t size)
{
    memcpy(out, data, size);
    return out + size;
}

/* What NOCLOBBER_DIRTY_OVERRIDE lifts for this command, or NULL: task names
 * with commas between them, or `*`. Whether it is the host's to say is for the
 * daemon to tell. */
static const char *
lifted_task(const char *task)
{
    const char *list = getenv("NOCLOBBER_DIRTY_OVERRIDE");
    while (list && *list) {
        size_t size = strcspn(list, ",");
        if (size == 1 && *list == '*')
            return task ? task : "*";
        if (task && strlen(task) == size && !strncmp(list, task, size))
            return task;
        list += size;
        list += *list == ',';
    }
    return NULL;
}

int
nc_send_begin(const struct nc_launch *launch)
{
    const char *lift = lifted_task(launch->task);
    const char *task = lift ? lift : "";
    size_t roots = 0;
    for (size_t i = 0; i < launch->root_count; i++)
        roots += strlen(launch->roots[i]) + 1;
    struct nc_begin begin = {
        .record = {.version = NC_VERSION,
                   .type = NC_BEGIN,
                   .flags = (uint16_t)((launch->agent ? NC_AGENT : 0) |
                                       (lift ? NC_LIFTS : 0))},
        .tier = launch->tier,
        .session_size = (uint16_t)strlen(launch->session),
        .command_size = (uint16_t)strlen(launch->command),
        .task_size = (uint32_t)strlen(task),
        .roots_size = (uint32_t)roots,
    };
    size_t total = sizeof begin + begin.session_size + begin.command_size +
                   begin.task_size + roots;
    total = (total + 7) & ~(size_t)7;
    if (total > NC_RECORD_MAX)
        nc_quit(NC_EXIT_FAILED, "too many roots");
    begin.record.size = (uint32_t)total;
    char *record = nc_alloc(total);
    char *out = put(record, &begin, sizeof begin);
    out = put(out, launch->session, begin.session_size);
    out = put(out, launch->command, begin.command_size);
    out = put(out, task, begin.task_size);
    for (size_t i = 0; i < launch->root_count; i++)
        out = put(out, launch->roots[i], strlen(launch->roots[i]) + 1);
    int failed = nc_send(launch->daemon, record, total);
    free(record);
    return failed;
}

static int
receive(int fd, struct nc_begun *begun, int64_t patience)
{
    int64_t end = now() + patience;
    size_t got = 0;
    while (got < sizeof *begun) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left = end - now();
        if (left <= 0)
            return -1;
        if (poll(&ready, 1, (int)left) <= 0)
            continue;
        ssize_t more = recv(fd, (char *)begun + got, sizeof *begun - got, 0);
        if (more > 0)
            got += (size_t)more;
        else if (more == 0 || (errno != EINTR && errno != EAGAIN))
            return -1;
    }
    return begun->record.type == NC_BEGUN && begun->record.size == sizeof *begun
               ? 0
               : -1;
}

void
nc_receive_begun(struct nc_launch *launch, bool asked)
{
    struct nc_begun begun;
    int failed = !asked || receive(launch->daemon, &begun, NC_SEND_MS);
    if (!failed && (begun.record.flags & NC_LOOKING))
        failed = receive(launch->daemon, &begun, LOOK_MS);
    if (!failed) {
        launch->tier = begun.tier;
        launch->fail_open = begun.record.flags & NC_FAIL_OPEN;
        if (begun.record.flags & NC_SUPERVISE)
            launch->supervised = begun.record.flags & NC_SUPERVISE_ALL
                                     ? NC_SUPERVISED_ALL
                                     : NC_SUPERVISED_NEEDY;
        if (!launch->limit && begun.limit <= NC_SHOWN_MOST)
            launch->limit = begun.limit;
    }
    launch->is_dirty = failed || begun.is_dirty;
    const char *wanted = getenv("NOCLOBBER_SUPERVISOR");
    if (wanted && !getenv("NOCLOBBER_SESSION")) /* the host's to say */
        launch->supervised = !strcmp(wanted, "always")  ? NC_SUPERVISED_ALL
                             : !strcmp(wanted, "never") ? NC_SUPERVISED_NONE
                                                        : NC_SUPERVISED_NEEDY;
}
