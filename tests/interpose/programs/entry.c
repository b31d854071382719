/* entry list KIND          prints the names of a kind
 * entry KIND SCENE [NAME]  runs them, a line for each: what came of it
 * entry replace PATH       reads half of PATH, then opens it with O_TRUNC
 *
 * KIND is a letter of enum kind. SCENE says what the process did with the
 * file before: it has `seen` all of it or `half`, made it itself (`own`), or
 * knows nothing of it (`unread`; the file may also be missing or empty).
 * Files are ./KIND.NAME, and made by the caller but for `own`. */
#include "entry.h"

char buffer[1 << 19];
const char *self;

int
plain_open(const char *path, int flags)
{
    return open(path, flags, 0644);
}

long
read_until(int fd, long upto)
{
    long all = 0;
    while (all < upto) {
        long got = read(fd, buffer + all, (size_t)(upto - all));
        if (got <= 0)
            break;
        all += got;
    }
    return all;
}

long
got_file(const char *path, long upto)
{
    int fd = plain_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    long got = read_until(fd, upto);
    close(fd);
    return got;
}

long
put_file(const char *path, const char *text)
{
    int fd = plain_open(path, O_WRONLY | O_CREAT | O_EXCL);
    size_t size = strlen(text);
    if (fd < 0 || write(fd, text, size) != (ssize_t)size)
        return -1;
    return close(fd);
}

long
ended(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

const char *
beside(const char *path, const char *tail)
{
    static char names[8][4200];
    static unsigned next;
    char *name = names[next++ % 8];
    snprintf(name, sizeof names[0], "%s.%s", path, tail);
    return name;
}

static const char *
error_name(int error)
{
    const char *name = error ? strerrorname_np(error) : "0";
    return name ? name : "?";
}

/* Size and a sum of the bytes: enough to tell what stands there. */
static void
describe(const char *path, char *out, size_t size)
{
    struct stat st;
    if (lstat(path, &st)) {
        snprintf(out, size, "gone");
        return;
    }
    unsigned long sum = 5381;
    int fd = S_ISREG(st.st_mode) ? plain_open(path, O_RDONLY) : -1;
    long got = fd < 0 ? 0 : read(fd, buffer, sizeof buffer);
    for (long i = 0; i < got; i++)
        sum = sum * 33 + (unsigned char)buffer[i];
    if (fd >= 0)
        close(fd);
    snprintf(out, size, "%o:%ld:%08lx", st.st_mode, got, sum & 0xffffffff);
}

static void
prepare(const struct entry *entry, const char *scene, const char *path)
{
    struct stat st;
    long size = stat(path, &st) ? 0 : (long)st.st_size;
    int is_read = entry->kind == READS;
    if (!is_read && !strcmp(scene, "seen"))
        got_file(path, size);
    else if (!is_read && !strcmp(scene, "half"))
        got_file(path, size / 2);
    else if (!strcmp(scene, "own"))
        put_file(path, "made by this very process\nand by nobody else\n");
    if (entry->kind == AFTER && !strstr(entry->name, "shr"))
        (void)plain_open(path, O_WRONLY | O_TRUNC);
}

static void
run_one(const struct entry *entry, const char *scene)
{
    char path[256], before[64], line[512];
    struct stat st;
    snprintf(path, sizeof path, "%c.%s", entry->kind, entry->name);
    alarm(20); /* nothing may hang */
    prepare(entry, scene, path);
    long size = stat(path, &st) ? 0 : (long)st.st_size;
    long upto = strcmp(scene, "half") ? size : size / 2;
    errno = 0;
    long result = entry->run(path, upto);
    int error = errno;
    if (entry->kind == READS) {
        snprintf(before, sizeof before, "%ld", result);
        errno = 0;
        result = plain_open(path, O_WRONLY | O_TRUNC) < 0 ? -1 : 0;
        error = errno;
    } else {
        before[0] = 0;
    }
    if (result >= 0)
        error = 0; /* what a success leaves in errno says nothing */
    char after[64];
    describe(path, after, sizeof after);
    snprintf(line, sizeof line, "%s %s%s%ld %s %s\n", entry->name, before,
             *before ? " " : "", result, error_name(error), after);
    if (write(1, line, strlen(line)) < 0)
        _exit(9);
}

static void
run_apart(const struct entry *entry, const char *scene)
{
    pid_t child = fork();
    if (!child) {
        run_one(entry, scene);
        _exit(0);
    }
    long how = ended(child);
    if (how) {
        printf("%s ended with %ld\n", entry->name, how);
        fflush(stdout);
    }
}

static const struct entry *const tables[] = {
    replaces, reads, passes, starts, fails, changes, change_fails, talks,
};

static int
replace(const char *path)
{
    struct stat st;
    if (stat(path, &st) || got_file(path, st.st_size / 2) < 0)
        return 99;
    int fd = plain_open(path, O_WRONLY | O_TRUNC);
    return fd < 0 ? errno : 0;
}

int
main(int arguments, char **words)
{
    if (arguments < 3)
        return 98;
    self = words[0];
    if (!strcmp(words[1], "replace"))
        return replace(words[2]);
    int is_list = !strcmp(words[1], "list");
    int kind = words[is_list ? 2 : 1][0];
    const char *only = arguments > 3 ? words[3] : NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct entry *at = tables[i]; at->name; at++) {
            if ((int)at->kind != kind || is_lacking(at->name) ||
                (only && strcmp(at->name, only) != 0))
                continue;
            if (is_list)
                puts(at->name);
            else
                run_apart(at, words[2]);
        }
    return 0;
}
