/* A command that the shim does not enter begins under a supervisor; and where
 * it is configured so, every command does. */
#include "launch.h"
#include "library.h"
#include "submit.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Is the command to be supervised? *broad: as nc_filter has it. */
static bool
is_wanted(const struct nc_launch *launch, int *broad)
{
    char found[PATH_MAX], other[NC_LIBRARY_ROOM];
    const char *path = nc_search(launch->program, found);
    if (!path)
        return false;
    const struct nc_program program = nc_cover_of(AT_FDCWD, path);
    bool needs_it = program.cover == NC_COVER_SUPERVISOR ||
                    (program.cover == NC_COVER_OTHER &&
                     !nc_library_for(launch->library, program.loader, other));
    *broad = needs_it && program.why != NC_REASON_STATIC &&
             program.why != NC_REASON_GO && program.why != NC_REASON_BUN;
    return needs_it || launch->supervised == NC_SUPERVISED_ALL;
}

void
nc_supervise(const struct nc_launch *launch)
{
    struct nc_submission submission = {
        .supervisor = launch->supervisor,
        .environment = launch->environment,
        .clone = clone,
    };
    if (launch->supervised == NC_SUPERVISED_NONE ||
        getenv("NOCLOBBER_SUPERVISED") || !is_wanted(launch, &submission.broad))
        return;
    enum nc_submitted how = nc_submit(&submission);
    if (how != NC_SUBMITTED) {
        nc_say("%s runs without the supervisor, and what the shim does not "
               "see of it is not judged: %s",
               launch->program, nc_submit_trouble(how));
        return;
    }
    static char entry[] = "NOCLOBBER_SUPERVISED=1";
    size_t used = 0;
    while (launch->environment[used])
        used++;
    launch->environment[used] = entry;
}
