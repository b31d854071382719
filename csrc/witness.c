/* A signal to a process group reaches the command without us, and passing it
 * on would be a second one; a signal to our pid alone is meant for the command.
 * The kernel does not say which it was. A process beside us in the same group
 * that does nothing but tell what it got does. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
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

struct duty {
    int testimony;
    pid_t launcher;
};

static int
testify(void *argument)
{
    struct duty duty = *(struct duty *)argument;
    sigset_t all;
    nc_close_all_but(&duty.testimony, 1);
#ifdef PR_SET_PDEATHSIG
    prctl(PR_SET_NAME, "noclobber-wait");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    sigfillset(&all);
    while (getppid() == duty.launcher) {
        int number;
        if (sigwait(&all, &number) != 0)
            continue;
        char byte = (char)number;
        if (write(duty.testimony, &byte, 1) < 0 && errno == EPIPE)
            break;
    }
    _exit(0);
}

/* It shares our memory where it can: a copy would take as long as some
 * commands do. It touches none but its stack, and its descriptors are its
 * own. */
static pid_t
start(struct duty *duty)
{
#ifdef __linux__
    static char stack[16384] __attribute__((aligned(16)));
    return clone(testify, stack + sizeof stack, CLONE_VM | SIGCHLD, duty);
#else
    pid_t pid = fork();
    if (pid == 0)
        testify(duty);
    return pid;
#endif
}

void
nc_call_witness(struct nc_witness *witness)
{
    static struct duty duty; /* outlives this call, for it is shared */
    int ends[2];
    witness->testimony = -1;
    if (nc_pipe(ends, false) < 0)
        return;
    witness->testimony = ends[0];
    duty.testimony = ends[1];
    duty.launcher = getpid();
    witness->pid = start(&duty);
    close(ends[1]);
}

bool
nc_was_to_group(struct nc_witness *witness, int number)
{
    if (witness->pid <= 0 || kill(witness->pid, PROBE) < 0)
        return false;
    struct pollfd ready = {.fd = witness->testimony, .events = POLLIN};
    for (;;) {
        int any = poll(&ready, 1, PROBE_MS);
        if (any < 0 && errno == EINTR)
            continue;
        unsigned char byte;
        if (any <= 0 || read(witness->testimony, &byte, 1) <= 0 ||
            byte == PROBE)
            break;
        if (byte < NSIG)
            witness->seen[byte] = true;
    }
    bool seen = witness->seen[number];
    witness->seen[number] = false;
    return seen;
}

void
nc_dismiss(struct nc_witness *witness)
{
    if (witness->pid <= 0)
        return;
    kill(witness->pid, SIGKILL);
    waitpid(witness->pid, NULL, 0);
    witness->pid = 0;
}
