/* noclobber-exec: run one command of a session under the guard.
 *
 * A harness waits for this process as if it were the command, so nothing here
 * may show: options are read, the daemon is told, the command is executed. */
#include "launch.h"
#include "library.h"
#include "paths.h"
#include "pump.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef NOCLOBBER_RELEASE
#define NOCLOBBER_RELEASE "unknown"
#endif

extern char **environ;

static const char help[] =
    "Usage: noclobber-exec [OPTION]... [--] COMMAND [ARG]...\n"
    "Run COMMAND as one command of an agent's session: a file under the\n"
    "session's roots may be replaced only by someone who has seen what the\n"
    "replacement destroys.\n"
    "\n"
    "  --session S       the session (default: $NOCLOBBER_SESSION, else one\n"
    "                    for each harness process and root)\n"
    "  --root DIR        protect DIR; may be repeated (default: the git top\n"
    "                    level of the working directory, else that directory)\n"
    "  --tier TIER       workspace-write (default) or read-only\n"
    "  --task NAME       what COMMAND is for: where NOCLOBBER_DIRTY_OVERRIDE\n"
    "                    names it or is *, git may throw away what was dirty\n"
    "  --agent           COMMAND is the agent itself, not one of its commands\n"
    "  --agent-exe NAME  the agent is the program NAME, which COMMAND starts\n"
    "  --no-pump         do not record what COMMAND prints\n"
    "  --shown-limit N   bytes of COMMAND's output that reach the agent, half\n"
    "                    from the head and half from the tail (default: as\n"
    "                    configured, else 30000)\n"
    "  --help, --version\n"
    "\n"
    "The exit status is COMMAND's; 125 if noclobber-exec itself fails, 126 if\n"
    "COMMAND cannot be executed, 127 if it is not found.\n"
    "noclobber-bash takes bash's arguments and runs bash in this way.\n";

void
nc_execute(const struct nc_launch *launch)
{
    execvp(launch->program, launch->argv);
    int error = errno;
    /* ENOENT of an empty name, too: as a shell has it. */
    nc_quit(error == ENOENT ? NC_EXIT_NOT_FOUND : NC_EXIT_CANNOT_EXECUTE,
            "%s: %s", launch->program, strerror(error));
}

/* The value of option `option`, given as `--option=V` or `--option V`; NULL if
 * this argument is another one. */
static const char *
value(char ***argument, const char *option)
{
    size_t length = strlen(option);
    const char *text = **argument;
    if (strncmp(text, option, length))
        return NULL;
    if (text[length] == '=')
        return text + length + 1;
    if (text[length])
        return NULL;
    if (!(*argument)[1])
        nc_quit(NC_EXIT_FAILED, "option %s needs a value", option);
    return *++*argument;
}

static uint32_t
limit_of(const char *text)
{
    char *end;
    errno = 0;
    unsigned long limit = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || !limit ||
        limit > NC_SHOWN_MOST)
        nc_quit(NC_EXIT_FAILED, "--shown-limit: not a number from 1 to %d: %s",
                NC_SHOWN_MOST, text);
    return (uint32_t)limit;
}

static int
tier_of(const char *text)
{
    if (!strcmp(text, "workspace-write"))
        return NC_WORKSPACE_WRITE;
    if (!strcmp(text, "read-only"))
        return NC_READ_ONLY;
    nc_quit(NC_EXIT_FAILED, "--tier: workspace-write or read-only, not %s",
            text);
}

static void
print_and_exit(const char *text)
{
    size_t size = strlen(text);
    _exit(write(STDOUT_FILENO, text, size) == (ssize_t)size ? 0
                                                            : NC_EXIT_FAILED);
}

/* Read the options of noclobber-exec; returns --session's value or NULL. */
static const char *
read_options(struct nc_launch *launch, char **argument)
{
    const char *session = NULL;
    const char *text;
    launch->pumped = true;
    for (argument++; *argument && **argument == '-'; argument++) {
        if (!strcmp(*argument, "--")) {
            argument++;
            break;
        }
        if (!strcmp(*argument, "--help"))
            print_and_exit(help);
        else if (!strcmp(*argument, "--version"))
            print_and_exit("noclobber " NOCLOBBER_RELEASE "\n");
        else if (!strcmp(*argument, "--agent"))
            launch->agent = true;
        else if ((text = value(&argument, "--agent-exe"))) {
            launch->agent = true;
            launch->agent_exe = text;
        } else if (!strcmp(*argument, "--no-pump"))
            launch->pumped = false;
        else if ((text = value(&argument, "--session")))
            session = text;
        else if ((text = value(&argument, "--root")))
            nc_add_root(launch, text);
        else if ((text = value(&argument, "--tier")))
            launch->tier = tier_of(text);
        else if ((text = value(&argument, "--task")))
            launch->task = text;
        else if ((text = value(&argument, "--shown-limit")))
            launch->limit = limit_of(text);
        else
            nc_quit(NC_EXIT_FAILED, "unknown option %s; see %s --help",
                    *argument, nc_program);
    }
    if (!*argument)
        nc_quit(NC_EXIT_FAILED, "no command given; see %s --help", nc_program);
    launch->argv = argument;
    launch->program = argument[0];
    return session;
}

/* noclobber-bash: the first bash on PATH that is not ourselves by another
 * name, for a harness may have put us there under that name. */
static void
become_bash(struct nc_launch *launch, char **argv, const char *directory)
{
    launch->pumped = true;
    launch->argv = argv;
    launch->program = "/bin/bash";
    argv[0] = argv[0][0] == '-' ? "-bash" : "bash";
    char *self = nc_joined(directory, "/noclobber-exec");
    struct stat ours, found;
    bool known = stat("/proc/self/exe", &ours) == 0 || stat(self, &ours) == 0;
    const char *path = getenv("PATH");
    for (const char *end = path; end; path = end + 1) {
        end = strchr(path, ':');
        size_t length = end ? (size_t)(end - path) : strlen(path);
        char candidate[PATH_MAX];
        int size = snprintf(candidate, sizeof candidate, "%.*s/bash",
                            (int)length, path);
        if (length && path[0] == '/' && (size_t)size < sizeof candidate &&
            access(candidate, X_OK) == 0 && stat(candidate, &found) == 0 &&
            S_ISREG(found.st_mode) &&
            !(known && found.st_dev == ours.st_dev &&
              found.st_ino == ours.st_ino)) {
            launch->program = nc_joined(candidate, "");
            return;
        }
        if (!end)
            return;
    }
}

/* Nothing to guard with: stop, unless the user would rather run unguarded. */
static void
unguarded(const struct nc_launch *launch, const char *why)
{
    if (!nc_fails_open(launch->socket, launch->fail_open))
        nc_quit(NC_EXIT_FAILED,
                "%s; %s was not run (NOCLOBBER_FAIL=open runs it unguarded)",
                why, launch->program);
    nc_say("%s; %s runs unguarded", why, launch->program);
    nc_execute(launch);
}

void
nc_begin(const struct nc_launch *launch)
{
    if (!launch->nested) {
        size_t size;
        void *record =
            nc_command_record(launch, getpid(), launch->flags, &size);
        if (nc_send(launch->daemon, record, size) < 0) {
            char why[200];
            snprintf(why, sizeof why,
                     "the guard's daemon does not take what it is told (%s); "
                     "try `noclobber daemon stop`",
                     strerror(errno));
            unguarded(launch, why);
        }
    }
    nc_supervise(launch);
    environ = launch->environment;
    nc_execute(launch);
}

/* Find the shim and the daemon. */
static void
find_guard(struct nc_launch *launch, const char *directory)
{
    char why[PATH_MAX + 200];
    const char *wanted = nc_joined(directory, "/../lib/noclobber/" NC_LIBRARY);
    char *library = realpath(wanted, NULL);
    if (!library || strpbrk(library, ": ")) {
        snprintf(why, sizeof why, "%s: %s", wanted,
                 library ? "a path with a space or a colon cannot be preloaded"
                         : strerror(errno));
        unguarded(launch, why);
    }
    launch->library = library;
    launch->supervisor = nc_joined(directory, "/noclobber-supervise");

    launch->daemon = nc_find_daemon(directory, &launch->socket, NC_START_MS,
                                    why, sizeof why);
    if (launch->daemon < 0)
        unguarded(launch, why);
}

int
main(int argc, char **argv)
{
    if (argc < 1)
        return NC_EXIT_FAILED;
    const char *slash = strrchr(argv[0], '/');
    const char *base = slash ? slash + 1 : argv[0];
    base += *base == '-';
    bool bash = !strcmp(base, "noclobber-bash");
    if (bash)
        nc_program = "noclobber-bash";

    struct nc_launch launch = {.daemon = -1, .title = argv[0]};
    launch.title_size =
        (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]) + 1;
    const char *session = NULL;
    char *directory = nc_own_directory();
    if (bash)
        become_bash(&launch, argv, directory);
    else
        session = read_options(&launch, argv);
    if (launch.agent)
        launch.pumped = false;
    nc_find_session(&launch, session);
    find_guard(&launch, directory);
    bool asked = !launch.nested && !nc_send_begin(&launch);

    struct nc_pump pump = {.control = -1, .launcher_end = -1};
    bool carried = false, attested = false;
    if (launch.pumped)
        carried = nc_plan_outlets(&pump, &launch, &attested);
    if (!launch.nested)
        nc_receive_begun(&launch, asked);
    else if (getenv("NOCLOBBER_SUPERVISE"))
        launch.supervised = NC_SUPERVISED_NEEDY;
    launch.flags = (launch.agent ? (unsigned)NC_AGENT : 0) |
                   (attested ? (unsigned)NC_ATTESTED : 0);
    launch.environment = nc_guarded_environment(&launch);
    if (attested && launch.outer[0]) {
        size_t size;
        void *record = nc_carried_record(&launch, &size);
        /* a failure meets the command's own record, too */
        nc_send(launch.daemon, record, size);
        free(record);
    }
    if (carried) {
        nc_follow(&pump);
        nc_drop_outlets(&pump);
        launch.flags &= ~(unsigned)NC_ATTESTED;
    }
    nc_begin(&launch);
}
