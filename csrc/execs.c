/* Programs started by supervised ones; and what cannot be had there. */
#include "supervise.h"

#include <stdio.h>
#include <string.h>

#define MOST_WORDS 64

/* Its words as /proc would have them, each ended by NUL. */
static size_t
read_words(const struct nc_notice *notice, uint64_t from,
           char out[NC_IMAGE_WORDS])
{
    uint64_t words[MOST_WORDS] = {0};
    size_t used = 0, width = notice->is_narrow ? 4 : 8;
    size_t got = nc_peek(notice->tid, from, words, MOST_WORDS * width);
    for (size_t i = 0; (i + 1) * width <= got; i++) {
        uint64_t at = 0;
        char word[NC_PATH_MAX];
        memcpy(&at, (char *)words + i * width, width);
        if (!at || nc_peek_path(notice->tid, at, word))
            break;
        size_t size = strlen(word) + 1;
        if (used + size > NC_IMAGE_WORDS)
            break;
        memcpy(out + used, word, size);
        used += size;
    }
    return used;
}

/* Of privileges that the program would have got: no_new_privs takes them. */
static void
tell_of_privileges(struct nc_image *image, const struct nc_notice *notice,
                   const struct nc_found *found)
{
    char text[NC_PATH_MAX + 256], status[64];
    struct stat st;
    snprintf(status, sizeof status, "/proc/%d", notice->tid);
    if (!(found->st.st_mode & (S_ISUID | S_ISGID)) || stat(status, &st) ||
        st.st_uid == found->st.st_uid || !nc_has_no_new_privileges(notice->tid))
        return;
    int size = snprintf(
        text, sizeof text,
        "noclobber: %s gets no other user's rights here: it was started by a "
        "program that needs the supervisor (supervisor = \"never\" turns that "
        "off)\n",
        found->path);
    if (size > 0 && (size_t)size < sizeof text)
        nc_tell_process(image, notice->tid, text, (size_t)size);
}

/* What it has as standard input and outputs, the next program has, too. */
static void
keep_stdio(struct nc_image *image)
{
    for (int fd = 0; fd < 3; fd++) {
        char path[64], name[NC_PATH_MAX];
        struct stat st;
        snprintf(path, sizeof path, "/proc/%d/fd/%d", image->pid, fd);
        if (stat(path, &st))
            continue;
        image->stdio[fd] = st;
        int theirs = S_ISREG(st.st_mode)
                         ? (int)syscall(SYS_pidfd_getfd, image->pidfd, fd, 0)
                         : -1;
        if (theirs < 0)
            continue;
        size_t size;
        int flags = (int)nc_raw(fcntl, theirs, F_GETFL);
        struct nc_keeping kept = {
            .image = image,
            .fd = theirs,
            .is_reader = (flags & O_ACCMODE) == O_RDONLY,
            .is_writer = (flags & O_ACCMODE) != O_RDONLY,
            .appends = flags & O_APPEND,
            .is_elder = true,
            .path = name,
        };
        if (nc_area_of_fd(theirs, name, &size) == NC_AREA_ROOT) {
            kept.path_size = size;
            nc_keep_open(&kept);
        } else {
            nc_raw_close(theirs);
        }
    }
}

int
nc_call_exec(const struct nc_notice *notice)
{
    bool is_at = notice->kind == NC_CALL_EXECVEAT;
    char path[NC_PATH_MAX], words[NC_IMAGE_WORDS];
    pid_t pid = nc_process_of(notice->tid);
    if (!pid || nc_peek_path(notice->tid, notice->args[is_at], path))
        return NC_GO_ON;
    size_t size = read_words(notice, notice->args[is_at ? 2 : 1], words);
    if (!nc_notice_stands(notice))
        return NC_GO_ON;
    struct nc_image *image = nc_image_expect(pid, path, words, size);
    if (!image)
        return NC_GO_ON;
    keep_stdio(image);
    struct nc_found found;
    if (!nc_resolve(image, notice->tid, is_at ? (int)notice->args[0] : AT_FDCWD,
                    path, true, &found)) {
        if (found.fd >= 0)
            tell_of_privileges(image, notice, &found);
        nc_found_drop(&found);
    }
    nc_image_release(image);
    return NC_GO_ON;
}

int
nc_call_listen(const struct nc_notice *notice)
{
    static const char text[] =
        "noclobber: a program cannot supervise others here: it runs under the "
        "supervisor itself (supervisor = \"never\" turns that off)\n";
    struct nc_image *image = nc_image_of(notice);
    if (image) {
        nc_tell_process(image, notice->tid, text, sizeof text - 1);
        nc_image_release(image);
    }
    return NC_GO_ON; /* EBUSY, by the kernel */
}
