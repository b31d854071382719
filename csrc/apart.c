/* Where the program has no descriptor left for us. */
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "client.h"

struct errand {
    const char *hello; /* made by the process that it speaks of */
    size_t hello_size;
    const char *data;
    size_t size;
    const struct nc_ask *ask;
    struct nc_reply *reply;
    int failed;
};

#define STACK 65536

static int
run(void *given)
{
    struct errand *errand = given;
    int closable = 0; /* of this process: the program keeps its own */
    while (errand->ask &&
           (closable == errand->ask->fd || closable == errand->ask->other))
        closable++;
    int to = nc_connect(closable);
    errand->failed =
        to < 0 || nc_send(to, errand->hello, errand->hello_size, NULL, 0);
    if (!errand->failed && errand->size)
        errand->failed = nc_send(to, errand->data, errand->size, NULL, 0);
    if (!errand->failed && errand->ask)
        errand->failed = nc_exchange(to, errand->ask, errand->reply);
    nc_raw(exit, 0);
    return 0;
}

int
nc_apart(const char *data, size_t size, const struct nc_ask *ask,
         struct nc_reply *reply)
{
    char *stack = nc_pages_get(STACK);
    if (!stack)
        return -1;
    char hello[NC_HELLO_ROOM];
    size_t hello_size = nc_hello(hello, sizeof hello);
    struct errand errand = {hello, hello_size, data, size, ask, reply, 1};
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    /* no signal at its end: the program's own waiting sees nothing of it */
    int pid = REAL(clone)(run, stack + STACK, CLONE_VM | CLONE_VFORK, &errand,
                          NULL, NULL, NULL);
    if (pid > 0)
        nc_raw(wait4, pid, NULL, __WCLONE, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    nc_pages_drop(stack, STACK);
    return pid < 0 || errand.failed ? -1 : 0;
}

#define FIRST_SLAVE 136 /* major numbers of /dev/pts/N */
#define LAST_SLAVE 143

uint64_t
nc_terminal_of(int fd, const struct stat *st)
{
    struct stat slave = *st;
    unsigned number = 0;
    char path[32] = "/dev/pts/";
    if (nc_is_terminal_master(st)) {
        if (nc_raw(ioctl, fd, TIOCGPTN, &number))
            return 0;
        char digits[12], *out = path + sizeof "/dev/pts/" - 1;
        int many = 0;
        for (unsigned rest = number; rest || !many; rest /= 10)
            digits[many++] = (char)('0' + rest % 10);
        while (many)
            *out++ = digits[--many];
        if (nc_raw(newfstatat, AT_FDCWD, path, &slave, 0))
            return 0;
    }
    unsigned kind = major(slave.st_rdev);
    if (kind < FIRST_SLAVE || kind > LAST_SLAVE)
        return 0;
    uint64_t made = (uint64_t)slave.st_ctim.tv_sec * 1000000000U +
                    (uint64_t)slave.st_ctim.tv_nsec;
    return (uint64_t)slave.st_rdev << 48 ^ made;
}

void *
nc_wiped_on_fork(void)
{
    size_t page = (size_t)getauxval(AT_PAGESZ);
    void *start = nc_pages_get(page);
    if (start && nc_raw(madvise, start, page, MADV_WIPEONFORK)) {
        nc_pages_drop(start, page);
        start = NULL;
    }
    return start;
}
