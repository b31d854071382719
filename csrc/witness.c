/* A signal to a process group reaches the command without us, and passing it
 * on would be a second one; a signal to our pid alone is meant for the command.
 * The kernel does not say which it was. A process beside us in the same group
 * that does nothing but tell what it got does. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

/* Says "you have had all that was sent before this" to the witness: of several
 * pending signals the kernel gives out the highest of these last. */
#ifdef SIGRTMAX
#define PROBE (SIGRTMAX - 1)
#else
#define PROBE SIGURG
#endif
#define PROBE_MS 100

static void
testify(int testimony, pid_t launcher, const struct nc_launch *launch)
{
    sigset_t all;
    nc_close_all_but(&testimony, 1);
    memset(launch->title, 0, launch->title_size);
    strncpy(launch->title, "noclobber-wait", launch->title_size - 1);
#ifdef PR_SET_PDEATHSIG
    prctl(PR_SET_NAME, "noclobber-wait");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    sigfillset(&all);
    while (getppid() == launcher) {
        int number;
        if (sigwait(&all, &number) != 0)
            continue;
        char byte = (char)number;
        if (write(testimony, &byte, 1) < 0 && errno == EPIPE)
            break;
    }
    _exit(0);
}

void
nc_call_witness(struct nc_witness *witness, const struct nc_launch *launch)
{
    int ends[2];
    witness->testimony = -1;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    pid_t launcher = getpid();
    witness->pid = fork();
    if (witness->pid == 0)
        testify(ends[1], launcher, launch);
    close(ends[1]);
    witness->testimony = ends[0];
}

bool
nc_was_to_group(const struct nc_witness *witness, int number)
{
    bool seen = false;
    if (witness->pid <= 0 || kill(witness->pid, PROBE) < 0)
        return false;
    struct pollfd ready = {.fd = witness->testimony, .events = POLLIN};
    while (poll(&ready, 1, PROBE_MS) > 0 || errno == EINTR) {
        char byte;
        ssize_t got = read(witness->testimony, &byte, 1);
        if (got == 0 || (got == 1 && byte == (char)PROBE))
            break;
        seen = seen || (got == 1 && byte == (char)number);
        errno = 0;
    }
    return seen;
}

void
nc_dismiss(const struct nc_witness *witness)
{
    if (witness->pid <= 0)
        return;
    kill(witness->pid, SIGKILL);
    waitpid(witness->pid, NULL, 0);
}
