#include "receive.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "platform.h"

int64_t
nc_receive_piece(int sock, char *out, size_t size, struct nc_received *with)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(NC_RECEIVED_MAX * sizeof(int))];
    } control;
    struct iovec part = {out, size};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    with->count = with->cut = 0;
    ssize_t got;
    do
        got = recvmsg(sock, &message, NC_RECEIVE_FLAGS);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    with->cut = !!(message.msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at;
         at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = at->cmsg_len - CMSG_LEN(0);
        int count = (int)(bytes / sizeof(int));
        for (int i = 0; i < count && with->count < NC_RECEIVED_MAX; i++)
            memcpy(&with->fds[with->count++],
                   CMSG_DATA(at) + (size_t)i * sizeof(int), sizeof(int));
    }
    return got;
}
