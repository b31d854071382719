/* Reaching the daemon. Raw system calls only, and no state of the process:
 * a vfork child may come here. */
#include <poll.h>
#include <string.h>
#include <sys/un.h>

#include "shim.h"

#define PATIENCE 2 /* seconds that a program waits for a silent daemon */

static const char *socket_path;
static int lifeline = -1;
static uint64_t lifeline_ino;
static char lifeline_text[64];

void
nc_connect_start(const char *path, const char *inherited)
{
    socket_path = path;
    if (!inherited || strlen(inherited) > 40)
        return;
    const char *at = inherited;
    int fd = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        fd = fd * 10 + (*at - '0');
    if (*at++ != ':')
        return;
    for (; *at >= '0' && *at <= '9'; at++)
        lifeline_ino = lifeline_ino * 10 + (uint64_t)(*at - '0');
    lifeline = fd;
}

/* ---- a socket ------------------------------------------------------ */

static int
be_patient(int sock)
{
    struct timeval limit = {.tv_sec = PATIENCE};
    nc_raw(setsockopt, sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    nc_raw(setsockopt, sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return sock;
}

static int
reach(int sock, struct sockaddr_un *to)
{
    for (int tries = 0; tries < 100; tries++) {
        if (!nc_raw(connect, sock, to, sizeof *to))
            return 0;
        if (errno != EINTR)
            return -1;
    }
    return -1;
}

/* A path longer than a socket's address may be goes by its folder. */
static int
reach_path(int sock)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t size = strlen(socket_path);
    if (size < sizeof to.sun_path) {
        memcpy(to.sun_path, socket_path, size);
        return reach(sock, &to);
    }
    const char *name = strrchr(socket_path, '/');
    char folder[NC_PATH_MAX];
    if (!name || (size_t)(name - socket_path) >= sizeof folder ||
        strlen(name) > 40)
        return -1;
    memcpy(folder, socket_path, (size_t)(name - socket_path));
    folder[name - socket_path] = 0;
    int held = nc_raw_open(AT_FDCWD, folder, NC_OPEN_LOOK | O_DIRECTORY, 0);
    if (held < 0)
        return -1;
    char *out = to.sun_path;
    memcpy(out, NC_FD_LINK, sizeof NC_FD_LINK - 1);
    out += sizeof NC_FD_LINK - 1;
    char digits[12];
    int many = 0;
    for (int rest = held; rest || !many; rest /= 10)
        digits[many++] = (char)('0' + rest % 10);
    while (many)
        *out++ = digits[--many];
    memcpy(out, name, strlen(name));
    int result = reach(sock, &to);
    int why = errno;
    nc_raw_close(held);
    errno = why;
    return result;
}

int
nc_lifeline_holds(void)
{
    struct stat st;
    return lifeline >= 0 && !nc_stat(lifeline, &st) && S_ISSOCK(st.st_mode) &&
           (uint64_t)st.st_ino == lifeline_ino;
}

/* Where the path is out of sight: one end of a pair goes over the connection
 * that was kept for this. */
static int
by_lifeline(void)
{
    int pair[2];
    if (!nc_lifeline_holds() ||
        nc_raw(socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return -1;
    const struct nc_record adopt = {
        .size = sizeof adopt,
        .version = NC_VERSION,
        .type = NC_ADOPT,
    };
    int failed = nc_send(lifeline, &adopt, sizeof adopt, &pair[1], 1);
    nc_raw_close(pair[1]);
    if (failed) {
        nc_raw_close(pair[0]);
        return -1;
    }
    return be_patient(pair[0]);
}

int
nc_connect(int closable)
{
    if (!socket_path)
        return -1;
    int sock = (int)nc_raw(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 && closable >= 0 && (errno == EMFILE || errno == ENFILE)) {
        nc_raw_close(closable);
        sock = (int)nc_raw(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    if (sock < 0) {
        int why = errno;
        sock = why == EMFILE ? -1 : by_lifeline();
        if (sock < 0)
            errno = why;
        return sock;
    }
    be_patient(sock);
    if (!reach_path(sock))
        return sock;
    int why = errno;
    nc_raw_close(sock);
    sock = by_lifeline();
    errno = why;
    return sock;
}

void
nc_lifeline_keep(int sock, uint64_t ino)
{
    lifeline = sock;
    lifeline_ino = ino;
}

const char *
nc_lifeline_entry(void)
{
    if (!nc_lifeline_holds())
        return NULL;
    char digits[24];
    int many = 0;
    char *out = lifeline_text;
    memcpy(out, "NOCLOBBER_LIFELINE=", 19);
    out += 19;
    for (int rest = lifeline; rest || !many; rest /= 10)
        digits[many++] = (char)('0' + rest % 10);
    while (many)
        *out++ = digits[--many];
    *out++ = ':';
    for (uint64_t rest = lifeline_ino; rest || !many; rest /= 10)
        digits[many++] = (char)('0' + rest % 10);
    while (many)
        *out++ = digits[--many];
    *out = 0;
    return lifeline_text;
}

/* ---- bytes --------------------------------------------------------- */

/* After an interruption: waits for what is left of PATIENCE since `began`.
 * -1 with EAGAIN: nothing is left. */
static int
wait_on(int sock, short events, const struct timespec *began)
{
    struct pollfd one = {.fd = sock, .events = events};
    for (;;) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        long left = PATIENCE * 1000L - (now.tv_sec - began->tv_sec) * 1000L -
                    (now.tv_nsec - began->tv_nsec) / 1000000L;
        struct timespec rest = {left / 1000, left % 1000 * 1000000L};
        long ready = left <= 0 ? 0 : nc_raw(ppoll, &one, 1, &rest, NULL, 0);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (!ready)
            errno = EAGAIN;
        return -1;
    }
}

int
nc_send(int sock, const void *data, size_t size, const int *fds, int fd_count)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {(void *)data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen =
            (socklen_t)CMSG_SPACE((size_t)fd_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len =
            (socklen_t)CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, (size_t)fd_count * sizeof(int));
    }
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (part.iov_len) {
        long sent = nc_raw(sendmsg, sock, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EINTR || wait_on(sock, POLLOUT, &began))
                return -1;
            continue;
        }
        message.msg_control = NULL;
        message.msg_controllen = 0;
        part.iov_base = (char *)part.iov_base + sent;
        part.iov_len -= (size_t)sent;
    }
    return 0;
}

/* Exactly `size` bytes within PATIENCE seconds, signals or no. */
int
nc_receive(int sock, void *out, size_t size)
{
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    char *at = out;
    while (size) {
        long got = nc_raw(recvfrom, sock, at, size, 0, NULL, NULL);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
            continue;
        }
        if (got == 0 || errno != EINTR || wait_on(sock, POLLIN, &began))
            return -1;
    }
    return 0;
}
