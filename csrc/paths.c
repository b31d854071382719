/* The launcher and the daemon must agree on one socket without talking to
 * each other, so the rule for its path stands here alone: C calls it, Python
 * calls the same function through cffi. */
#include "paths.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOCKET_NAME "daemon.sock"

/* The XDG specification: a relative path is invalid and to be ignored. */
static const char *
absolute(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] == '/' ? value : NULL;
}

static const char *
home(void)
{
    const char *value = absolute("HOME");
    if (value)
        return value;
    const struct passwd *user = getpwuid(getuid());
    return user && user->pw_dir && user->pw_dir[0] == '/' ? user->pw_dir : NULL;
}

__attribute__((format(printf, 3, 4))) static int
print(char *out, size_t size, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(out, size, format, values);
    va_end(values);
    if (length >= 0 && (size_t)length < size)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

int
nc_socket_path(char *out, size_t size)
{
    const char *directory = absolute("XDG_RUNTIME_DIR");
    if (directory)
        return print(out, size, "%s/noclobber/" SOCKET_NAME, directory);

    /* A login without a session manager (ssh, cron, su) has no variable but
     * may have the directory. Another user's is never taken. */
    char ours[sizeof "/run/user/" + 3 * sizeof(uid_t)];
    struct stat status;
    print(ours, sizeof ours, "/run/user/%lu", (unsigned long)getuid());
    if (lstat(ours, &status) == 0 && S_ISDIR(status.st_mode) &&
        status.st_uid == getuid())
        return print(out, size, "%s/noclobber/" SOCKET_NAME, ours);

    directory = absolute("XDG_STATE_HOME");
    if (directory)
        return print(out, size, "%s/noclobber/run/" SOCKET_NAME, directory);
    directory = home();
    if (directory)
        return print(out, size, "%s/.local/state/noclobber/run/" SOCKET_NAME,
                     directory);
    errno = ENOENT;
    return -1;
}
