/* The supervisor's process: it begins beside the program that it is for, takes
 * that one's calls, and ends when the last of its descendants has. */
#include "supervise.h"

#include <linux/audit.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif

#define MOST_THREADS 64
#define MOST_WATCHED 1024
#define ROOM 512 /* bytes: what a kernel may put behind the structs we know */
#define LOOK_MS 1000

int nc_listener = -1;
pthread_mutex_t nc_tables = PTHREAD_MUTEX_INITIALIZER;

static int idle, threads;

/* ---- answering ------------------------------------------------------- */

bool
nc_notice_stands(const struct nc_notice *notice)
{
    uint64_t id = notice->id;
    return !ioctl(nc_listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
}

static void
answer(const struct nc_notice *notice, int64_t value, int error, uint32_t flags)
{
    union {
        struct seccomp_notif_resp known;
        char room[ROOM];
    } out = {
        .known = {
            .id = notice->id, .val = value, .error = -error, .flags = flags}};
    ioctl(nc_listener, SECCOMP_IOCTL_NOTIF_SEND, &out); /* or it is gone */
}

void
nc_notice_return(const struct nc_notice *notice, int64_t value)
{
    answer(notice, value, 0, 0);
}

int
nc_notice_give(const struct nc_notice *notice, int fd, int at,
               bool is_closed_on_exec)
{
    struct seccomp_notif_addfd given = {
        .id = notice->id,
        .srcfd = (uint32_t)fd,
        .newfd = at >= 0 ? (uint32_t)at : 0,
        .flags = at >= 0 ? SECCOMP_ADDFD_FLAG_SETFD : 0,
        .newfd_flags = is_closed_on_exec ? O_CLOEXEC : 0,
    };
    int number = ioctl(nc_listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given);
    return number < 0 ? -errno : number;
}

/* ---- the calls -------------------------------------------------------- */

static int
handle(const struct nc_notice *notice)
{
    if (notice->kind == NC_CALL_EXECVE || notice->kind == NC_CALL_EXECVEAT)
        return nc_call_exec(notice);
    if (notice->kind == NC_CALL_SECCOMP)
        return nc_call_listen(notice);
    struct nc_image *image = nc_image_of(notice);
    if (!image)
        return NC_GO_ON;
    int result = NC_GO_ON;
    switch (notice->kind) {
    case NC_CALL_OPEN:
    case NC_CALL_OPENAT:
    case NC_CALL_OPENAT2:
    case NC_CALL_CREAT:
        result = nc_call_open(notice, image);
        break;
    case NC_CALL_TRUNCATE:
    case NC_CALL_FTRUNCATE:
    case NC_CALL_TRUNCATE_WIDE:
    case NC_CALL_FTRUNCATE_WIDE:
    case NC_CALL_FALLOCATE:
    case NC_CALL_IOCTL:
        result = nc_call_shrink(notice, image);
        break;
    case NC_CALL_LSEEK:
    case NC_CALL_LLSEEK:
        result = nc_kept_seeks(notice, image);
        break;
    case NC_CALL_PREAD:
    case NC_CALL_PREADV:
    case NC_CALL_PREADV2:
    case NC_CALL_MMAP:
    case NC_CALL_MMAP2:
        result = nc_kept_reads(notice, image);
        break;
    case NC_CALL_FLOCK:
        result = nc_kept_locks(notice, image);
        break;
    default:
        result = nc_call_name(notice, image);
    }
    nc_image_release(image);
    return result;
}

static void *work(void *);

/* There is always a thread that waits, up to a limit. */
static void
busy(void)
{
    pthread_t thread;
    if (__atomic_sub_fetch(&idle, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (__atomic_fetch_add(&threads, 1, __ATOMIC_ACQ_REL) >= MOST_THREADS) {
        __atomic_sub_fetch(&threads, 1, __ATOMIC_ACQ_REL);
        return;
    }
    __atomic_add_fetch(&idle, 1, __ATOMIC_ACQ_REL);
    if (pthread_create(&thread, NULL, work, NULL))
        __atomic_sub_fetch(&idle, 1, __ATOMIC_ACQ_REL);
    else
        pthread_detach(thread);
}

static void *
work(void *unused)
{
    unshare(CLONE_FS); /* the mask for new files is each thread's own */
    for (;;) {
        union {
            struct seccomp_notif known;
            char room[ROOM];
        } in;
        memset(&in, 0, sizeof in);
        if (ioctl(nc_listener, SECCOMP_IOCTL_NOTIF_RECV, &in)) {
            if (errno == EINTR || errno == ENOENT)
                continue; /* it died meanwhile */
            return unused;
        }
        busy();
        const struct seccomp_data *data = &in.known.data;
        struct nc_notice notice = {
            .id = in.known.id,
            .tid = (pid_t)in.known.pid,
            .kind = nc_call_kind_of(data->arch, data->nr),
            .number = data->nr,
            .is_narrow =
                data->arch == AUDIT_ARCH_I386 || data->arch == AUDIT_ARCH_ARM,
            .pointer = data->instruction_pointer,
        };
        for (int i = 0; i < 6; i++)
            notice.args[i] = data->args[i];
        int result = handle(&notice);
        if (result == NC_GO_ON)
            answer(&notice, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
        else if (result != NC_SENT)
            answer(&notice, -1, result, 0);
        __atomic_add_fetch(&idle, 1, __ATOMIC_ACQ_REL);
    }
}

/* ---- the daemon's own questions ---------------------------------------- */

/* The connection by which the daemon asks for what was not told yet. */
static int
watch(void)
{
    const struct nc_record hello = {
        .size = sizeof hello,
        .version = NC_VERSION,
        .type = NC_WATCH,
    };
    int sock = nc_connect(-1);
    if (sock >= 0 && nc_send(sock, &hello, sizeof hello, NULL, 0)) {
        nc_raw_close(sock);
        sock = -1;
    }
    return sock;
}

static int
settle(int sock)
{
    struct nc_record asked;
    if (nc_receive(sock, &asked, sizeof asked) || asked.type != NC_SETTLE) {
        nc_raw_close(sock);
        return -1;
    }
    nc_images_look();
    nc_kept_tell(NULL);
    if (nc_send(sock, &asked, sizeof asked, NULL, 0)) {
        nc_raw_close(sock);
        return -1;
    }
    return sock;
}

/* Until no supervised process is left. */
static void
serve(void)
{
    int sock = watch();
    struct pollfd all[MOST_WATCHED + 2];
    for (;;) {
        int alive[MOST_WATCHED];
        int count = nc_images_alive(alive, MOST_WATCHED);
        all[0] = (struct pollfd){.fd = nc_listener}; /* its end alone */
        all[1] = (struct pollfd){.fd = sock, .events = POLLIN};
        for (int i = 0; i < count; i++)
            all[i + 2] = (struct pollfd){.fd = alive[i], .events = POLLIN};
        poll(all, (nfds_t)count + 2, LOOK_MS);
        if (sock >= 0 && all[1].revents)
            sock = settle(sock);
        else if (sock < 0)
            sock = watch();
        nc_images_look();
        if (all[0].revents)
            break;
    }
    nc_kept_tell(NULL);
    if (sock >= 0)
        nc_raw_close(sock);
}

/* ---- the start --------------------------------------------------------- */

const char *
nc_environment_get(const char *name)
{
    return getenv(name);
}

static int
take_listener(int sock)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    ssize_t got;
    do
        got = recvmsg(sock, &message, NC_RECEIVE_FLAGS);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *at = CMSG_FIRSTHDR(&message);
    if (got != 1 || !at || at->cmsg_type != SCM_RIGHTS)
        return -1;
    int fd;
    memcpy(&fd, CMSG_DATA(at), sizeof fd);
    return fd;
}

/* Of nobody's group and terminal, with nobody's files, and past every signal
 * that is meant for the program. */
static void
leave(void)
{
    setsid();
    if (chdir("/"))
        _exit(1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            close(fd);
    const char *lifeline = getenv("NOCLOBBER_LIFELINE");
    int kept = lifeline ? atoi(lifeline) : -1;
    if (kept > NC_SOCKET) {
        nc_raw(close_range, NC_SOCKET + 1, kept - 1, 0);
        nc_raw(close_range, kept + 1, ~0U, 0);
    } else {
        nc_raw(close_range, NC_SOCKET + 1, ~0U, 0);
    }
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int
begin(void)
{
    leave();
    const char *socket_path = getenv("NOCLOBBER_SOCKET");
    if (!socket_path || !getenv("NOCLOBBER_SESSION"))
        return 1;
    nc_area_start(getenv("NOCLOBBER_ROOTS"), getenv("NOCLOBBER_SKIP"));
    nc_connect_start(socket_path, getenv("NOCLOBBER_LIFELINE"));
    pid_t pid = getpid();
    if (send(NC_SOCKET, &pid, sizeof pid, MSG_NOSIGNAL) != sizeof pid)
        return 1;
    nc_listener = take_listener(NC_SOCKET);
    close(NC_SOCKET);
    if (nc_listener < 0)
        return 1;
    /* on the same processor, where the kernel can: half the time */
    ioctl(nc_listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
          SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    pthread_t thread;
    idle = threads = 1;
    if (pthread_create(&thread, NULL, work, NULL))
        return 1;
    serve();
    return 0;
}

int
main(int count, char **words)
{
    if (count == 2 && !strcmp(words[1], NC_SERVES)) {
        pid_t child = fork();
        _exit(child ? child < 0 : begin());
    }
    if (count < 3)
        return 2;
    /* in the place of what the C library was to start: see supervised.c */
    execv(words[1], words + 2);
    return 127;
}
