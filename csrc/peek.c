/* What is to be known of a process: its memory, and what /proc says. */
#include "supervise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREDENTIALS 1024

size_t
nc_peek(pid_t tid, uint64_t from, void *out, size_t size)
{
    struct iovec to = {out, size};
    struct iovec part = {(void *)(uintptr_t)from, size};
    ssize_t got = process_vm_readv(tid, &to, 1, &part, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

int
nc_peek_path(pid_t tid, uint64_t from, char out[NC_PATH_MAX])
{
    size_t used = 0;
    while (used < NC_PATH_MAX) {
        /* the next page may not be there, and need not */
        size_t part = 4096 - ((from + used) & 4095);
        if (part > NC_PATH_MAX - used)
            part = NC_PATH_MAX - used;
        size_t got = nc_peek(tid, from + used, out + used, part);
        if (memchr(out + used, 0, got))
            return 0;
        if (got < part)
            return -1;
        used += got;
    }
    return -1;
}

static size_t
read_all(const char *path, char *out, size_t room)
{
    size_t used = 0;
    int fd = nc_raw_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t got;
    while (fd >= 0 && used + 1 < room &&
           (got = read(fd, out + used, room - used - 1)) > 0)
        used += (size_t)got;
    if (fd >= 0)
        nc_raw_close(fd);
    out[used] = 0;
    return used;
}

size_t
nc_read_of(pid_t pid, const char *name, char *out, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return read_all(path, out, room);
}

const char *
nc_field(const char *status, const char *name)
{
    const char *at = strstr(status, name);
    return at ? at + strlen(name) : "";
}

pid_t
nc_process_of(pid_t tid)
{
    char status[NC_STATUS_ROOM];
    if (!nc_read_of(tid, "status", status, sizeof status))
        return 0;
    return (pid_t)atoi(nc_field(status, "\nTgid:"));
}

pid_t
nc_parent_of(pid_t tid)
{
    char status[NC_STATUS_ROOM];
    nc_read_of(tid, "status", status, sizeof status);
    return (pid_t)atoi(nc_field(status, "\nPPid:"));
}

bool
nc_has_no_new_privileges(pid_t tid)
{
    char status[NC_STATUS_ROOM];
    nc_read_of(tid, "status", status, sizeof status);
    return atoi(nc_field(status, "\nNoNewPrivs:"));
}

/* Where the kernel put the random bytes of the program's start. */
uint64_t
nc_random_of(pid_t tid)
{
    char vector[2048];
    size_t size = nc_read_of(tid, "auxv", vector, sizeof vector);
    for (size_t at = 0; at + 16 <= size; at += 16) {
        uint64_t entry[2];
        memcpy(entry, vector + at, sizeof entry);
        if (entry[0] == AT_RANDOM)
            return entry[1];
    }
    for (size_t at = 0; at + 8 <= size; at += 8) { /* of 32 bits */
        uint32_t entry[2];
        memcpy(entry, vector + at, sizeof entry);
        if (entry[0] == AT_RANDOM)
            return entry[1];
    }
    return 0;
}

/* Who it is to the kernel, as far as that decides what it may do. */
static void
credentials(const char *status, char *out, size_t room)
{
    static const char *const names[] = {
        "\nUid:", "\nGid:", "\nGroups:", "\nCapEff:"};
    size_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = nc_field(status, names[i]);
        size_t size = strcspn(at, "\n");
        if (used + size + 1 >= room)
            size = room - used - 1;
        memcpy(out + used, at, size);
        used += size;
    }
    out[used] = 0;
}

bool
nc_image_agrees(struct nc_image *image, pid_t tid, mode_t *mask)
{
    char own[NC_STATUS_ROOM], status[NC_STATUS_ROOM];
    char mine[CREDENTIALS], its[CREDENTIALS];
    if (!image->shares_root ||
        !read_all("/proc/self/status", own, sizeof own) ||
        !nc_read_of(tid, "status", status, sizeof status))
        return false;
    credentials(own, mine, sizeof mine);
    credentials(status, its, sizeof its);
    *mask = (mode_t)strtoul(nc_field(status, "\nUmask:"), NULL, 8);
    return !strcmp(mine, its);
}

bool
nc_shares_root(pid_t tid)
{
    char path[64], mine[64], its[64];
    struct stat ours, theirs;
    snprintf(path, sizeof path, "/proc/%d/root", tid);
    if (stat("/", &ours) || stat(path, &theirs) ||
        ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev)
        return false;
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", tid);
    ssize_t one = readlink("/proc/self/ns/mnt", mine, sizeof mine);
    ssize_t other = readlink(path, its, sizeof its);
    return one > 0 && one == other && !memcmp(mine, its, (size_t)one);
}
