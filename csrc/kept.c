/* What supervised processes opened, and what came of it. A descriptor that is
 * read from in order needs no call of ours for each read: a duplicate shares
 * its offset, and tells how far the reader came even when that one is gone. */
#include "supervise.h"

#include "coverage.h"

#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_KEPT 768 /* descriptors; of more the oldest are told and let go */
#define GIVEN_BACK 65536 /* bytes that a reader may have read ahead */

struct kept {
    struct kept *next;
    struct nc_image *image;
    int fd; /* of a writer O_PATH: it may be executed once that one is done */
    bool is_reader, is_writer, is_made, is_fresh, appends, is_elder, has_news;
    int64_t position; /* read up to here */
    struct nc_version opened, told;
    struct nc_coverage coverage;
    size_t path_size;
    char path[];
};

static struct kept *all, **last = &all;
static int count;

/* ---- telling -------------------------------------------------------------- */

static void
sample(struct kept *at)
{
    if (!at->is_reader || at->is_writer)
        return;
    int64_t now = lseek(at->fd, 0, SEEK_CUR);
    if (now > at->position) {
        nc_coverage_add(&at->coverage, (uint64_t)at->position, (uint64_t)now);
        at->has_news = true;
    }
    if (now >= 0)
        at->position = now;
}

/* A shell's orders are no reading; what its forked children read is. */
static bool
obeys(const struct nc_image *image)
{
    static const char *const shells[] = {"sh", "ash", "bash", "dash", "hush"};
    if (image->parent)
        return false;
    const char *word = image->words;
    for (int i = 0; i < 2 && word < image->words + image->words_size; i++) {
        const char *slash = strrchr(word, '/');
        const char *base = slash ? slash + 1 : word;
        for (size_t j = 0; j < sizeof shells / sizeof *shells; j++)
            if (!strcmp(base, shells[j]))
                return true;
        if (strncmp(base, "busybox", 7))
            return false;
        word += strlen(word) + 1;
    }
    return false;
}

static void
tell_read(struct kept *at)
{
    size_t size = at->coverage.count * sizeof(struct nc_range);
    struct nc_read *record = malloc(sizeof *record + size);
    if (!record)
        return;
    *record = (struct nc_read){
        .record = {.size = (uint32_t)(sizeof *record + size),
                   .version = NC_VERSION,
                   .type = NC_READ},
        .version = at->opened,
        .count = at->coverage.count,
    };
    if (at->is_writer)
        record->record.flags |= NC_WRITABLE;
    if (at->is_elder)
        record->record.flags |= NC_INHERITED;
    if (obeys(at->image))
        record->record.flags |= NC_EXECUTED;
    memcpy(record + 1, nc_coverage_ranges(&at->coverage), size);
    if (!nc_image_send(at->image, record, record->record.size, NULL, 0))
        at->has_news = false;
    free(record);
}

static void
tell_written(struct kept *at)
{
    struct stat st;
    struct nc_version now;
    char out[sizeof(struct nc_wrote) + NC_PATH_MAX + 8] = {0};
    if (nc_stat(at->fd, &st))
        return;
    nc_version_from(&now, &st);
    if (!memcmp(&now, &at->told, sizeof now))
        return;
    size_t size = (sizeof(struct nc_wrote) + at->path_size + 7) & ~(size_t)7;
    struct nc_wrote record = {
        .record = {.size = (uint32_t)size,
                   .version = NC_VERSION,
                   .type = NC_WROTE},
        .version = now,
        .opened = at->opened,
        .path_size = (uint32_t)at->path_size,
    };
    if (at->is_made)
        record.record.flags |= NC_CREATED;
    if (at->is_fresh)
        record.record.flags |= NC_TRUNCATED;
    else
        record.record.flags |= at->appends ? NC_APPEND : NC_UPDATE;
    if (at->is_elder)
        record.record.flags |= NC_INHERIT;
    if (!at->image->is_over)
        record.record.flags |= NC_OPENED;
    memcpy(out, &record, sizeof record);
    memcpy(out + sizeof record, at->path, at->path_size);
    if (!nc_image_send(at->image, out, size, NULL, 0))
        at->told = now;
}

static void
tell(struct kept *at)
{
    if (at->image->is_pending)
        return;
    sample(at);
    if (at->has_news)
        tell_read(at);
    if (at->is_writer)
        tell_written(at);
}

/* nc_tables is held. */
static void
drop(struct kept **where)
{
    struct kept *at = *where;
    tell(at);
    *where = at->next;
    if (!at->next)
        last = where;
    count--;
    nc_raw_close(at->fd);
    nc_coverage_clear(&at->coverage);
    struct nc_image *image = at->image;
    free(at);
    nc_image_let_go(image);
}

void
nc_kept_tell(struct nc_image *only)
{
    pthread_mutex_lock(&nc_tables);
    for (struct kept *at = all; at; at = at->next)
        if (!only || at->image == only)
            tell(at);
    nc_images_tell_pipes();
    pthread_mutex_unlock(&nc_tables);
}

void
nc_kept_drop(struct nc_image *image)
{
    for (struct kept **at = &all; *at;)
        if ((*at)->image == image)
            drop(at);
        else
            at = &(*at)->next;
}

void
nc_kept_drop_file(const struct stat *st)
{
    pthread_mutex_lock(&nc_tables);
    for (struct kept **at = &all; *at;)
        if ((*at)->opened.ino == (uint64_t)st->st_ino &&
            (*at)->opened.dev == (uint64_t)st->st_dev)
            drop(at);
        else
            at = &(*at)->next;
    pthread_mutex_unlock(&nc_tables);
}

/* ---- keeping --------------------------------------------------------------- */

void
nc_keep_open(const struct nc_keeping *what)
{
    struct stat st;
    char link[64];
    struct kept *at = calloc(1, sizeof *at + what->path_size);
    int fd = what->fd;
    if (at && what->is_writer) { /* who holds it open for writing is in the way
                                  * of executing it */
        nc_link_to(what->fd, link);
        fd = open(link, O_PATH | O_CLOEXEC);
        nc_raw_close(what->fd);
    }
    if (!at || fd < 0 || nc_stat(fd, &st)) {
        if (fd >= 0)
            nc_raw_close(fd);
        free(at);
        return;
    }
    at->image = what->image;
    at->fd = fd;
    at->is_reader = what->is_reader;
    at->is_writer = what->is_writer;
    at->is_made = what->is_made;
    at->is_fresh = !st.st_size;
    at->appends = what->appends;
    at->is_elder = what->is_elder;
    at->path_size = what->path_size;
    memcpy(at->path, what->path, what->path_size);
    nc_version_from(&at->opened, &st);
    if (!at->is_fresh)
        at->told = at->opened; /* until it changes there is nothing to tell */
    if (at->is_elder && !at->is_writer)
        at->position = lseek(fd, 0, SEEK_CUR);
    pthread_mutex_lock(&nc_tables);
    at->image->uses++;
    *last = at;
    last = &at->next;
    if (++count > MOST_KEPT)
        drop(&all);
    pthread_mutex_unlock(&nc_tables);
}

/* ---- reads that do not go by the offset -------------------------------------- */

/* What a descriptor of the process is, if it is kept. nc_tables is held. */
static struct kept *
find(const struct nc_notice *notice, const struct nc_image *image, int fd)
{
    char link[64];
    struct stat st;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", notice->tid, fd);
    if (!all || stat(link, &st) || !S_ISREG(st.st_mode))
        return NULL;
    for (struct kept *at = all; at; at = at->next) {
        if (at->opened.ino != (uint64_t)st.st_ino ||
            at->opened.dev != (uint64_t)st.st_dev || !at->is_reader)
            continue;
        if (at->is_writer ? at->image == image
                          : !syscall(SYS_kcmp, image->pid, getpid(), KCMP_FILE,
                                     (unsigned long)fd, (unsigned long)at->fd))
            return at;
    }
    return NULL;
}

/* Where a descriptor of the process is that also writes. */
static int64_t
offset_of(pid_t tid, int fd)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", tid, fd);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        nc_raw_close(file);
    return got > 4 && !strncmp(text, "pos:", 4) ? strtoll(text + 4, NULL, 10)
                                                : -1;
}

/* Has nobody written to it since it was opened? */
static bool
is_untouched(const struct kept *at)
{
    struct stat st;
    struct nc_version now;
    if (nc_stat(at->fd, &st))
        return false;
    nc_version_from(&now, &st);
    return now.mtime == at->opened.mtime && now.size == at->opened.size;
}

/* Read up to `now`; from `next` on it reads next. */
static void
move(struct kept *at, int64_t now, int64_t next, bool by_count)
{
    int64_t end = now;
    /* what it goes back over by a little, or by a count, it had read ahead */
    if (next > at->position && next < now &&
        (by_count || now - next <= GIVEN_BACK))
        end = next;
    if (end > at->position && (!at->is_writer || is_untouched(at))) {
        nc_coverage_add(&at->coverage, (uint64_t)at->position, (uint64_t)end);
        at->has_news = true;
    }
    at->position = next;
}

int
nc_kept_seeks(const struct nc_notice *notice, struct nc_image *image)
{
    int fd = (int)notice->args[0];
    pthread_mutex_lock(&nc_tables);
    struct kept *at = find(notice, image, fd);
    if (at) {
        int64_t now = at->is_writer ? offset_of(notice->tid, fd)
                                    : lseek(at->fd, 0, SEEK_CUR);
        int64_t by = notice->is_narrow ? (int32_t)notice->args[1]
                                       : (int64_t)notice->args[1];
        int whence = (int)notice->args[2];
        if (notice->kind == NC_CALL_LLSEEK) {
            by = (int64_t)(notice->args[1] << 32 | (uint32_t)notice->args[2]);
            whence = (int)notice->args[4];
        }
        int64_t next = whence == SEEK_SET ? by : now;
        struct stat st;
        if (whence == SEEK_CUR)
            next = now + by;
        else if (whence == SEEK_END && !nc_stat(at->fd, &st))
            next = st.st_size + by;
        if (now >= 0 && next >= 0)
            move(at, now, next, whence == SEEK_CUR);
    }
    pthread_mutex_unlock(&nc_tables);
    return NC_GO_ON;
}

int
nc_kept_reads(const struct nc_notice *notice, struct nc_image *image)
{
    const uint64_t *args = notice->args;
    bool is_map = notice->kind == NC_CALL_MMAP || notice->kind == NC_CALL_MMAP2;
    int fd = (int)args[is_map ? 4 : 0];
    uint64_t from = args[is_map ? 5 : 3], size = args[is_map ? 1 : 2];
    if (notice->kind == NC_CALL_MMAP2)
        from *= 4096;
    if (notice->kind == NC_CALL_PREAD && notice->is_narrow)
        from = args[3] | args[4] << 32;
    if (!is_map && notice->kind != NC_CALL_PREAD) { /* into several places */
        struct iovec parts[64];
        size_t got = nc_peek(notice->tid, args[1], parts, sizeof parts);
        size = 0;
        for (size_t i = 0; i < args[2] && (i + 1) * sizeof *parts <= got; i++)
            size += parts[i].iov_len;
        if (notice->is_narrow)
            return NC_GO_ON; /* less is known, never more */
        if (notice->kind == NC_CALL_PREADV2 && from == UINT64_MAX)
            return NC_GO_ON; /* as readv: by the offset */
    }
    pthread_mutex_lock(&nc_tables);
    struct kept *at = find(notice, image, fd);
    struct stat st;
    if (at && !nc_stat(at->fd, &st) && from < (uint64_t)st.st_size) {
        uint64_t left = (uint64_t)st.st_size - from;
        nc_coverage_add(&at->coverage, from,
                        from + (size < left ? size : left));
        at->has_news = true;
    }
    pthread_mutex_unlock(&nc_tables);
    return NC_GO_ON;
}

/* A lock on the open file would outlast it: what shares it goes. */
int
nc_kept_locks(const struct nc_notice *notice, struct nc_image *image)
{
    pthread_mutex_lock(&nc_tables);
    struct kept *found = find(notice, image, (int)notice->args[0]);
    for (struct kept **at = &all; found && *at; at = &(*at)->next)
        if (*at == found && !found->is_writer) {
            drop(at);
            break;
        }
    pthread_mutex_unlock(&nc_tables);
    return NC_GO_ON;
}
