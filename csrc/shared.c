/* What the launcher and the hook both do: words for people, memory, where our
 * own files are, and the way to the daemon. */
#include "launch.h"
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

const char *nc_program = "noclobber-exec";

static void
say(const char *format, va_list values)
{
    char line[4096];
    int used = snprintf(line, sizeof line, "%s: ", nc_program);
    if (used < 0 || (size_t)used >= sizeof line)
        return;
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, values);
    strcat(line, "\n");
    /* One write: lines of several launchers do not mix. */
    if (write(STDERR_FILENO, line, strlen(line)) < 0)
        return;
}

void
nc_say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
}

void
nc_quit(int status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
    _exit(status);
}

void *
nc_alloc(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        nc_quit(NC_EXIT_FAILED, "%s", strerror(errno));
    return memory;
}

char *
nc_joined(const char *directory, const char *rest)
{
    size_t size = strlen(directory) + strlen(rest) + 1;
    char *path = nc_alloc(size);
    snprintf(path, size, "%s%s", directory, rest);
    return path;
}

char *
nc_own_directory(void)
{
    char exe[PATH_MAX];
#ifdef __APPLE__
    char raw[PATH_MAX];
    uint32_t size = sizeof raw;
    if (_NSGetExecutablePath(raw, &size) || !realpath(raw, exe))
        nc_quit(NC_EXIT_FAILED, "cannot find my own file");
#else
    ssize_t size = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (size <= 0)
        nc_quit(NC_EXIT_FAILED, "/proc/self/exe: %s", strerror(errno));
    exe[size] = 0;
#endif
    char *slash = strrchr(exe, '/');
    *slash = 0;
    return nc_joined(exe, "");
}

bool
nc_fails_open(const char *socket, bool configured)
{
    const char *fail = getenv("NOCLOBBER_FAIL");
    if (fail || configured || !socket)
        return fail ? !strcmp(fail, "open") : configured;
    char *mark = nc_joined(socket, "");
    *strrchr(mark, '/') = 0;
    mark = nc_joined(mark, "/fail-open"); /* failmark.py makes it */
    struct stat status;
    return lstat(mark, &status) == 0 && status.st_uid == geteuid();
}

int
nc_find_daemon(const char *directory, const char **socket, int patience,
               char *why, size_t why_size)
{
    char path[PATH_MAX];
    const char *inherited = getenv("NOCLOBBER_SOCKET");
    if (getenv("NOCLOBBER_SESSION") && inherited && inherited[0] == '/') {
        int daemon = nc_connect(inherited, NC_SEND_MS);
        if (daemon >= 0) {
            *socket = nc_joined(inherited, "");
            return daemon;
        }
    }
    if (nc_socket_path(path, sizeof path) < 0) {
        snprintf(why, why_size, "no place for the daemon's socket: %s",
                 strerror(errno));
        return -1;
    }
    *socket = nc_joined(path, "");
    return nc_reach_daemon(path, nc_joined(directory, "/noclobber"), patience,
                           why, why_size);
}
