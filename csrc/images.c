/* Whose call it is. A process is told from what ran under its pid before by the
 * random bytes that the kernel gives each program at its start; a child that
 * was only forked has those of its parent. */
#include "supervise.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define THREADS_KNOWN 1024
#define MOST_PENDING 256

static struct nc_image *images;
static struct {
    pid_t tid;
    struct nc_image *image;
} known[THREADS_KNOWN]; /* by the thread's number; nc_tables */

/* ---- images -------------------------------------------------------------- */

static struct nc_image *
new_image(pid_t pid)
{
    struct nc_image *image = calloc(1, sizeof *image);
    if (!image)
        return NULL;
    image->pid = pid;
    image->sock = -1;
    image->uses = 1;
    image->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (image->pidfd < 0 || getrandom(&image->token, sizeof image->token, 0) !=
                                sizeof image->token) {
        if (image->pidfd >= 0)
            nc_raw_close(image->pidfd);
        free(image);
        return NULL;
    }
    image->token += !image->token;
    pthread_mutex_init(&image->asking, NULL);
    pthread_mutex_init(&image->sending, NULL);
    image->next = images;
    images = image;
    return image;
}

void
nc_image_let_go(struct nc_image *image)
{
    if (--image->uses)
        return;
    for (struct nc_image **at = &images; *at; at = &(*at)->next)
        if (*at == image) {
            *at = image->next;
            break;
        }
    for (int i = 0; i < THREADS_KNOWN; i++)
        if (known[i].image == image)
            known[i].image = NULL;
    if (image->sock >= 0)
        nc_raw_close(image->sock);
    nc_raw_close(image->pidfd);
    for (int i = 0; i < image->scope_count; i++)
        free(image->scopes[i]);
    free(image);
}

void
nc_image_release(struct nc_image *image)
{
    pthread_mutex_lock(&nc_tables);
    nc_image_let_go(image);
    pthread_mutex_unlock(&nc_tables);
}

static bool
has_ended(const struct nc_image *image)
{
    struct pollfd one = {.fd = image->pidfd, .events = POLLIN};
    return poll(&one, 1, 0) > 0;
}

/* Over, but for what it opened and is still to be told of. nc_tables is held. */
static void
end(struct nc_image *image)
{
    if (image->is_over)
        return;
    image->is_over = true;
    image->is_pending &= !has_ended(image); /* it ran, as far as is known */
    nc_kept_drop(image);
    if (!image->is_pending)
        nc_image_tell_pipes(image);
    nc_image_let_go(image);
}

static struct nc_image *
pending_of(pid_t pid)
{
    for (struct nc_image *at = images; at; at = at->next)
        if (at->pid == pid && at->is_pending && !at->is_over)
            return at;
    return NULL;
}

/* What ran under a pid until it became the program that it is now. */
static struct nc_image *
become(pid_t pid)
{
    struct nc_image *next = pending_of(pid), *at = images;
    while (at) {
        struct nc_image *following = at->next;
        if (at->pid == pid && at != next)
            end(at);
        at = following;
    }
    if (!next)
        return new_image(pid);
    next->is_pending = false;
    return next;
}

static void
describe(struct nc_image *image, pid_t tid)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", tid);
    ssize_t size = readlink(link, image->exe, sizeof image->exe - 1);
    if (size > 0)
        image->exe[size] = 0;
    size_t words =
        nc_read_of(tid, "cmdline", image->words, sizeof image->words);
    if (words)
        image->words_size = words;
    image->shares_root = nc_shares_root(tid);
    for (int fd = 0; fd < 3; fd++) {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", tid, fd);
        if (!image->stdio[fd].st_ino && stat(link, &image->stdio[fd]))
            image->stdio[fd].st_ino = 0;
    }
}

/* The image that a process is now. nc_tables is held. */
static struct nc_image *
identify(pid_t tid)
{
    uint64_t at = nc_random_of(tid), random[2];
    if (!at || nc_peek(tid, at, random, sizeof random) < sizeof random)
        return NULL;
    pid_t pid = nc_process_of(tid);
    struct nc_image *parent = NULL;
    pid_t above = nc_parent_of(tid);
    for (struct nc_image *image = images; image; image = image->next) {
        if (image->is_pending || memcmp(image->random, random, sizeof random))
            continue;
        if (image->pid == pid && !image->is_over)
            return image;
        if (!parent || image->pid == above)
            parent = image;
    }
    struct nc_image *image = pid ? become(pid) : NULL;
    if (!image)
        return NULL;
    image->random_at = at;
    memcpy(image->random, random, sizeof random);
    if (parent)
        image->parent = parent->token;
    describe(image, tid);
    if (nc_peek(tid, NC_PRESENCE_AT, &image->presence,
                sizeof image->presence) == sizeof image->presence &&
        image->presence.magic == NC_PRESENCE_MAGIC)
        image->has_shim = true;
    return image;
}

/* Was the call made by what the shim stands before? Then it has settled it. */
static bool
is_settled(const struct nc_image *image, const struct nc_notice *notice)
{
    for (int i = 0; image->has_shim && i < NC_PRESENCE_CODES; i++)
        if (notice->pointer > image->presence.codes[i].start &&
            notice->pointer <= image->presence.codes[i].end)
            return true;
    return false;
}

struct nc_image *
nc_image_of(const struct nc_notice *notice)
{
    pid_t tid = notice->tid;
    unsigned slot = (unsigned)tid % THREADS_KNOWN;
    uint64_t random[2];
    pthread_mutex_lock(&nc_tables);
    struct nc_image *image = known[slot].tid == tid ? known[slot].image : NULL;
    if (!image || image->is_over ||
        nc_peek(tid, image->random_at, random, sizeof random) < sizeof random ||
        memcmp(random, image->random, sizeof random))
        image = identify(tid);
    if (image && !nc_notice_stands(notice))
        image = NULL; /* it was another process's pid by then, perhaps */
    if (image) {
        known[slot].tid = tid;
        known[slot].image = image;
        if (is_settled(image, notice))
            image = NULL;
        else
            image->uses++;
    }
    pthread_mutex_unlock(&nc_tables);
    return image;
}

struct nc_image *
nc_image_expect(pid_t pid, const char *exe, const char *words,
                size_t words_size)
{
    pthread_mutex_lock(&nc_tables);
    struct nc_image *image = pending_of(pid);
    if (image) /* that program could not be started */
        end(image);
    image = new_image(pid);
    if (image) {
        image->is_pending = true;
        snprintf(image->exe, sizeof image->exe, "%s", exe);
        image->words_size = words_size;
        memcpy(image->words, words, words_size);
        image->uses++;
    }
    pthread_mutex_unlock(&nc_tables);
    return image;
}

/* One whose process has ended, or NULL. */
static struct nc_image *
ended(void)
{
    for (struct nc_image *at = images; at; at = at->next)
        if (!at->is_over && has_ended(at))
            return at;
    return NULL;
}

void
nc_images_look(void)
{
    pthread_mutex_lock(&nc_tables);
    for (struct nc_image *at; (at = ended());)
        end(at);
    pid_t pending[MOST_PENDING];
    int count = 0;
    for (struct nc_image *at = images; at && count < MOST_PENDING;
         at = at->next)
        if (at->is_pending && !at->is_over)
            pending[count++] = at->pid;
    while (count)
        (void)identify(pending[--count]);
    pthread_mutex_unlock(&nc_tables);
}

int
nc_images_alive(int *out, int most)
{
    int count = 0;
    pthread_mutex_lock(&nc_tables);
    for (const struct nc_image *at = images; at && count < most; at = at->next)
        if (!at->is_over)
            out[count++] = at->pidfd;
    pthread_mutex_unlock(&nc_tables);
    return count;
}

void
nc_images_tell_pipes(void)
{
    for (struct nc_image *at = images; at; at = at->next)
        if (!at->is_over && !at->is_pending)
            nc_image_tell_pipes(at);
}
