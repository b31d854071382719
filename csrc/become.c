/* From launcher to command: give back all that was the caller's. */
#include "pump.h"

#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

void
nc_take_timers(struct nc_pump *pump)
{
    static const struct itimerval none;
    setitimer(ITIMER_REAL, &none, &pump->timers[0]);
    setitimer(ITIMER_VIRTUAL, &none, &pump->timers[1]);
    setitimer(ITIMER_PROF, &none, &pump->timers[2]);
}

void
nc_give_timers(const struct nc_pump *pump)
{
    setitimer(ITIMER_REAL, &pump->timers[0], NULL);
    setitimer(ITIMER_VIRTUAL, &pump->timers[1], NULL);
    setitimer(ITIMER_PROF, &pump->timers[2], NULL);
}

void
nc_become(const struct nc_pump *pump)
{
    nc_take_places(pump);
#ifdef PR_SET_PDEATHSIG
    /* A harness that kills us without warning means the command. */
    if (pump->pty.master < 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != pump->launcher)
            raise(SIGKILL);
    }
#endif
    nc_give_timers(pump);
    sigaction(SIGCHLD, &pump->child, NULL);
    sigprocmask(SIG_SETMASK, &pump->mask, NULL);
    nc_name_pump(pump->launch);
    nc_begin(pump->launch);
}
