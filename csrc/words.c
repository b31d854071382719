/* What is said to the daemon in a supervised process's name. */
#include "supervise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t
put(char *out, size_t at, const char *text, size_t size)
{
    memcpy(out + at, text, size);
    return at + size;
}

static size_t
hello(struct nc_image *image, char out[NC_HELLO_ROOM])
{
    const char *session = getenv("NOCLOBBER_SESSION");
    const char *command = getenv("NOCLOBBER_COMMAND");
    char status[NC_STATUS_ROOM];
    struct nc_hello record = {
        .record = {.version = NC_VERSION,
                   .type = NC_HELLO,
                   .flags = NC_SPOKEN_FOR},
        .token = image->token,
        .parent_token = image->parent,
        .pid = image->pid,
    };
    if (nc_read_of(image->pid, "status", status, sizeof status))
        record.ppid = atoi(nc_field(status, "\nPPid:"));
    if (image->has_shim) /* what the shim tells is of the same process */
        nc_peek(image->pid, image->presence.token_at, &record.parent_token,
                sizeof record.parent_token);
    record.session_size = (uint16_t)strnlen(session, NC_ID_MAX);
    record.command_size = command ? (uint16_t)strnlen(command, NC_ID_MAX) : 0;
    record.exe_size = (uint16_t)strnlen(image->exe, 768);
    record.argv_size =
        (uint16_t)(image->words_size > NC_ARGV_MAX - 8 ? NC_ARGV_MAX - 8
                                                       : image->words_size);
    size_t at = sizeof record;
    at = put(out, at, session, record.session_size);
    if (command)
        at = put(out, at, command, record.command_size);
    at = put(out, at, image->exe, record.exe_size);
    at = put(out, at, image->words, record.argv_size);
    while (at % 8)
        out[at++] = 0;
    record.record.size = (uint32_t)at;
    memcpy(out, &record, sizeof record);
    return at;
}

int
nc_image_connect(struct nc_image *image)
{
    if (image->sock >= 0)
        return 0;
    char out[NC_HELLO_ROOM];
    int sock = nc_connect(-1);
    if (sock < 0)
        return -1;
    if (nc_send(sock, out, hello(image, out), NULL, 0)) {
        nc_raw_close(sock);
        return -1;
    }
    image->sock = sock;
    return 0;
}

int
nc_image_send(struct nc_image *image, const void *data, size_t size,
              const int *fds, int count)
{
    int failed = -1;
    pthread_mutex_lock(&image->sending);
    for (int tries = 0; tries < 2 && failed; tries++) {
        if (nc_image_connect(image))
            break;
        failed = nc_send(image->sock, data, size, fds, count);
        if (failed) { /* a daemon that was started anew, perhaps */
            nc_raw_close(image->sock);
            image->sock = -1;
        }
    }
    pthread_mutex_unlock(&image->sending);
    return failed;
}

/* ---- pipes -------------------------------------------------------------------- */

static bool
leads_to_the_agent(ino_t ino)
{
    const char *inodes = getenv("NOCLOBBER_PUMP");
    for (; inodes && *inodes; inodes += *inodes == ',') {
        char *end;
        if (strtoull(inodes, &end, 10) == ino)
            return true;
        inodes = end;
        if (*inodes != ',')
            return false;
    }
    return false;
}

static void
tell_pipe(struct nc_image *image, int fd, uint64_t bytes)
{
    const struct nc_pipe record = {
        .record = {.size = sizeof record,
                   .version = NC_VERSION,
                   .type = NC_PIPE,
                   .flags = fd ? NC_PIPE_WRITE : NC_PIPE_READ},
        .ino = image->stdio[fd].st_ino,
        .bytes = bytes,
    };
    if (image->told_pipes[fd] != bytes + 1 &&
        !nc_image_send(image, &record, sizeof record, NULL, 0))
        image->told_pipes[fd] = bytes + 1;
}

/* How much went through a pipe is bounded by what the process read and wrote in
 * all; of one that has ended nothing is known. */
void
nc_image_tell_pipes(struct nc_image *image)
{
    char text[512];
    bool is_pipe[3], has_any = false;
    for (int fd = 0; fd < 3; fd++) {
        is_pipe[fd] = S_ISFIFO(image->stdio[fd].st_mode) &&
                      image->stdio[fd].st_ino &&
                      !leads_to_the_agent(image->stdio[fd].st_ino);
        has_any |= is_pipe[fd];
    }
    /* what says nothing, and hears of nothing, passes nothing on */
    if (!has_any || (!is_pipe[0] && image->sock < 0))
        return;
    size_t size = nc_read_of(image->pid, "io", text, sizeof text);
    for (int fd = 0; fd < 3; fd++) {
        const char *name = fd ? "wchar:" : "rchar:";
        uint64_t bytes =
            size ? strtoull(nc_field(text, name), NULL, 10) : UINT64_MAX - 1;
        if (is_pipe[fd])
            tell_pipe(image, fd, bytes);
    }
}
