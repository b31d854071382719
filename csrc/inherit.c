/* The environment of a guarded command. Everything the caller set stays as it
 * is, byte for byte and in its order; ours comes last. */
#include "launch.h"
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#define PRELOAD "DYLD_INSERT_LIBRARIES"
#else
#define PRELOAD "LD_PRELOAD"
#endif

#define MOST_SKIPPED 16

extern char **environ;

static const char *const ours[] = {
    "NOCLOBBER_SESSION",
    "NOCLOBBER_COMMAND",
    "NOCLOBBER_ROOTS",
    "NOCLOBBER_SKIP",
    "NOCLOBBER_SOCKET",
    "NOCLOBBER_PUMP",
    "NOCLOBBER_TIER",
    "NOCLOBBER_DIRTY",
    "NOCLOBBER_AGENT",
    "NOCLOBBER_SUPERVISE",
    PRELOAD,
    "ASAN_OPTIONS",
};
#define OURS (sizeof ours / sizeof *ours)

char *
nc_join_list(char *const *items, size_t count)
{
    size_t size = 1;
    for (size_t i = 0; i < count; i++)
        size += 2 * strlen(items[i]) + 1;
    char *list = nc_alloc(size);
    char *out = list;
    for (size_t i = 0; i < count; i++) {
        if (i)
            *out++ = ':';
        for (const char *c = items[i]; *c; c++) {
            if (*c == ':' || *c == '\\')
                *out++ = '\\';
            *out++ = *c;
        }
    }
    return list;
}

char **
nc_split_list(const char *list, size_t *count)
{
    char **items = nc_alloc((strlen(list) + 1) * sizeof *items);
    *count = 0;
    while (*list) {
        char *item = nc_alloc(strlen(list) + 1);
        char *out = item;
        for (; *list && *list != ':'; list++) {
            if (*list == '\\' && list[1])
                list++;
            *out++ = *list;
        }
        list += *list == ':';
        items[(*count)++] = item;
    }
    return items;
}

__attribute__((format(printf, 1, 2))) static char *
print(const char *format, ...)
{
    va_list values;
    char *text;
    va_start(values, format);
    int size = vasprintf(&text, format, values);
    va_end(values);
    if (size < 0)
        nc_quit(NC_EXIT_FAILED, "%s", strerror(ENOMEM));
    return text;
}

/* A variable that names / or the home directory names no such directory. */
static void
skip(char **list, size_t *count, const char *directory)
{
    char *real =
        directory && *directory == '/' ? realpath(directory, NULL) : NULL;
    if (!real)
        return;
    const char *home = getenv("HOME");
    char *real_home = home && *home ? realpath(home, NULL) : NULL;
    bool is_none =
        !strcmp(real, "/") || (real_home && !strcmp(real, real_home));
    free(real_home);
    if (is_none) {
        free(real);
        return;
    }
    for (size_t i = 0; i < *count; i++)
        if (!strcmp(list[i], real)) {
            free(real);
            return;
        }
    list[(*count)++] = real;
}

/* Temporary, cache and runtime directories: protected only inside a root. */
static char *
skipped(void)
{
    static const char *const fixed[] = {"/tmp", "/var/tmp", "/dev/shm",
                                        "/var/cache", "/run"};
    char *list[MOST_SKIPPED];
    size_t count = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        skip(list, &count, fixed[i]);
    skip(list, &count, getenv("TMPDIR"));
    skip(list, &count, getenv("XDG_RUNTIME_DIR"));
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache && *cache)
        skip(list, &count, cache);
    else if (home && *home)
        skip(list, &count, print("%s/.cache", home));
    return nc_join_list(list, count);
}

/* The shim goes last: who must come first (a sanitizer's runtime) does. NULL:
 * there is nothing to preload. */
static char *
preload(const char *before, const struct nc_launch *launch)
{
    char found[PATH_MAX], other[NC_LIBRARY_ROOM];
    const char *path = nc_search(launch->program, found);
    const char *library = nc_library_for(
        launch->library, nc_cover_of(AT_FDCWD, path).loader, other);
    size_t room = (before ? strlen(before) : 0) + NC_LIBRARY_ROOM + 2;
    char *list = nc_alloc(room);
    if (!nc_library_put(before ? before : "", library, list, room))
        return NULL;
    char *entry = *list ? print(PRELOAD "=%s", list) : NULL;
    free(list);
    return entry;
}

/* A preloaded library before ASan's own is an error to it unless told. */
static char *
sanitizer(const char *before)
{
    static const char option[] = "verify_asan_link_order=0";
    if (before && strstr(before, "verify_asan_link_order"))
        return print("ASAN_OPTIONS=%s", before);
    return print("ASAN_OPTIONS=%s%s%s", before ? before : "",
                 before && *before ? ":" : "", option);
}

char **
nc_guarded_environment(const struct nc_launch *launch)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **out = nc_alloc((count + OURS + 4) * sizeof *out);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t name = strcspn(environ[i], "=");
        size_t j = 0;
        while (j < OURS && !(strlen(ours[j]) == name &&
                             !strncmp(environ[i], ours[j], name)))
            j++;
        if (j == OURS)
            out[used++] = environ[i];
    }
    out[used++] = print("NOCLOBBER_SESSION=%s", launch->session);
    out[used++] = print("NOCLOBBER_COMMAND=%s", launch->command);
    out[used++] = print("NOCLOBBER_ROOTS=%s",
                        nc_join_list(launch->roots, launch->root_count));
    out[used++] = print("NOCLOBBER_SKIP=%s", skipped());
    out[used++] = print("NOCLOBBER_SOCKET=%s", launch->socket);
    if (launch->tier == NC_READ_ONLY)
        out[used++] = print("NOCLOBBER_TIER=read-only");
    if (launch->is_dirty)
        out[used++] = print("NOCLOBBER_DIRTY=1");
    if (launch->agent)
        out[used++] = print("NOCLOBBER_AGENT=%u:%s",
                            launch->limit ? launch->limit : NC_SHOWN_LIMIT,
                            launch->agent_exe ? launch->agent_exe : "");
    if (launch->supervised != NC_SUPERVISED_NONE)
        out[used++] = print("NOCLOBBER_SUPERVISE=%s", launch->supervisor);
    if (launch->fail_open && !getenv("NOCLOBBER_FAIL"))
        out[used++] = print("NOCLOBBER_FAIL=open");
    char *list = preload(getenv(PRELOAD), launch);
    if (list)
        out[used++] = list;
    out[used++] = sanitizer(getenv("ASAN_OPTIONS"));
    return out;
}

void
nc_name_pump(const struct nc_launch *launch)
{
    unsigned long long inodes[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        struct stat status;
        if (fstat(STDOUT_FILENO + i, &status) == 0 && S_ISFIFO(status.st_mode))
            inodes[i] = status.st_ino;
    }
    if (!inodes[0] && !inodes[1])
        return;
    size_t used = 0;
    while (launch->environment[used])
        used++;
    launch->environment[used] =
        print("NOCLOBBER_PUMP=%llu,%llu", inodes[0], inodes[1]);
}
