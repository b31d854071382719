/* strict MODE: puts itself under a filter that kills it for any call but read,
 * write and exit, then copies its input's first bytes and ends. MODE: prctl,
 * syscall (seccomp(2) by number), filter. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAY(number)                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1),      \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int
main(int arguments, char **words)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        MAY(read), MAY(write), MAY(exit), MAY(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    char bytes[8];
    const char *mode = arguments > 1 ? words[1] : "";
    int fd = open("f", O_RDONLY), failed;
    if (read(fd, bytes, 4) != 4)
        return 9;
    if (!strcmp(mode, "prctl")) {
        failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    } else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        return 8;
    } else if (!strcmp(mode, "filter")) {
        failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    } else {
        failed = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0,
                              &program);
    }
    if (failed)
        return 7;
    if (read(fd, bytes + 4, 4) != 4 || write(1, bytes, 8) != 8)
        syscall(SYS_exit, 6);
    syscall(SYS_exit, 0);
    return 5;
}
