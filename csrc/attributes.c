/* Extended attributes, for the read-only tier. */
#include <sys/xattr.h>

#include "shim.h"

/* `found`: what asking for the attribute's size came to. */
static int
sets_attribute(long found, int flags)
{
    if (found < 0 && errno != ENODATA)
        return 0; /* no such thing here */
    if (flags == NC_REMOVES)
        return found >= 0;
    return !(flags & ~(XATTR_CREATE | XATTR_REPLACE)) &&
           !(found >= 0 && (flags & XATTR_CREATE)) &&
           !(found < 0 && (flags & XATTR_REPLACE));
}

int
nc_may_set(const char *path, const char *name, int flags, int follow)
{
    int kept = errno;
    long found = follow ? nc_raw(getxattr, path, name, NULL, 0)
                        : nc_raw(lgetxattr, path, name, NULL, 0);
    int sets = sets_attribute(found, flags);
    errno = kept;
    return sets &&
           nc_may_change(AT_FDCWD, path, follow ? 0 : AT_SYMLINK_NOFOLLOW,
                         NC_RIGHT_WRITE);
}

int
nc_may_set_of(int fd, const char *name, int flags)
{
    int kept = errno;
    int sets = sets_attribute(nc_raw(fgetxattr, fd, name, NULL, 0), flags);
    errno = kept;
    return sets && nc_may_change_fd(fd, NC_RIGHT_WRITE);
}

NC_EXPORT int
setxattr(const char *path, const char *name, const void *value, size_t size,
         int flags)
{
    NC_GUARDED(nc_may_set(path, name, flags, 1),
               REAL(setxattr)(path, name, value, size, flags));
}

NC_EXPORT int
lsetxattr(const char *path, const char *name, const void *value, size_t size,
          int flags)
{
    NC_GUARDED(nc_may_set(path, name, flags, 0),
               REAL(lsetxattr)(path, name, value, size, flags));
}

NC_EXPORT int
fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    NC_GUARDED(nc_may_set_of(fd, name, flags),
               REAL(fsetxattr)(fd, name, value, size, flags));
}

NC_EXPORT int
removexattr(const char *path, const char *name)
{
    NC_GUARDED(nc_may_set(path, name, NC_REMOVES, 1),
               REAL(removexattr)(path, name));
}

NC_EXPORT int
lremovexattr(const char *path, const char *name)
{
    NC_GUARDED(nc_may_set(path, name, NC_REMOVES, 0),
               REAL(lremovexattr)(path, name));
}

NC_EXPORT int
fremovexattr(int fd, const char *name)
{
    NC_GUARDED(nc_may_set_of(fd, name, NC_REMOVES),
               REAL(fremovexattr)(fd, name));
}
