/* Calls that make a name, or change what is known of a file and not what it
 * holds: passed in the default tier, refused in the read-only one. And how each
 * of them fails by itself, which is the kernel's to say in both. */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <utime.h>

#include "entry.h"

#define HERE AT_FDCWD
#define NOTE "user.noclobber"
#define RUN(name) static long name(const char *t, long upto)
#define CALL(name, expression)     \
    RUN(name)                      \
    {                              \
        (void)upto;                \
        return (long)(expression); \
    }

NAMED(int, old_mknod, __xmknod, (int, const char *, mode_t, dev_t *));
NAMED(int, old_mknodat, __xmknodat, (int, int, const char *, mode_t, dev_t *));
NAMED(int, on_links, lchmod, (const char *, mode_t));

#define NEW beside(t, "new")
#define OPEN plain_open(t, O_RDONLY)

static const struct timespec stamps[2] = {{1000, 1}, {2000, 2}};
static const struct timespec kept[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
static const struct timespec wrong[2] = {{0, 1000000000}, {0, 0}};
static const struct timeval clocks[2] = {{1000, 1}, {2000, 2}};
static const struct timeval late[2] = {{1000, 1000000}, {0, 0}};
static const struct utimbuf old = {1000, 2000};

static long
bound(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    return bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&to,
                sizeof to);
}

static long
bound_by_number(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    return syscall(SYS_bind, socket(AF_UNIX, SOCK_STREAM, 0), &to, sizeof to);
}

static long
made_folder(const char *path)
{
    char name[300];
    snprintf(name, sizeof name, "%s.XXXXXX", path);
    return mkdtemp(name) ? rmdir(name) : -1;
}

static long
marked(int fd)
{
    int marks;
    if (ioctl(fd, FS_IOC_GETFLAGS, &marks))
        return 0; /* not here */
    return ioctl(fd, FS_IOC_SETFLAGS, &marks);
}

/* What is not there is noted first: in the read-only tier it stays away. */
static long
forgotten(const char *t, int (*call)(const char *, const char *))
{
    if (setxattr(t, NOTE, "x", 1, 0))
        return -1;
    return call(t, NOTE);
}

CALL(m_mkdir, mkdir(NEW, 0755))
CALL(m_mkdir_slash, mkdir(beside(t, "new/"), 0755))
CALL(m_mkdirat, mkdirat(HERE, NEW, 0755))
CALL(m_mkdtemp, made_folder(t))
CALL(m_mknod, mknod(NEW, S_IFREG | 0644, 0))
CALL(m_mknodat, mknodat(HERE, NEW, S_IFIFO | 0644, 0))
CALL(m_xmknod, old_mknod(0, NEW, S_IFREG | 0644, &(dev_t){0}))
CALL(m_xmknodat, old_mknodat(0, HERE, NEW, S_IFREG | 0644, &(dev_t){0}))
CALL(m_mkfifo, mkfifo(NEW, 0644))
CALL(m_mkfifoat, mkfifoat(HERE, NEW, 0644))
CALL(m_symlink, symlink("nowhere", NEW))
CALL(m_symlinkat, symlinkat("nowhere", HERE, NEW))
CALL(m_link, link(t, NEW))
CALL(m_linkat, linkat(HERE, t, HERE, NEW, 0))
CALL(m_bind, bound(NEW))
CALL(m_open_new, plain_open(NEW, O_RDWR | O_CREAT) < 0 ? -1 : 0)
CALL(m_open_excl, plain_open(NEW, O_WRONLY | O_CREAT | O_EXCL) < 0 ? -1 : 0)
CALL(m_open_append, plain_open(t, O_WRONLY | O_APPEND) < 0 ? -1 : 0)
CALL(m_open_update, plain_open(t, O_RDWR) < 0 ? -1 : 0)
CALL(m_open_read_new, plain_open(NEW, O_RDONLY | O_CREAT) < 0 ? -1 : 0)
CALL(m_fopen, fopen(t, "a") ? 0 : -1)
CALL(m_fopen_new, fopen(NEW, "w") ? 0 : -1)
CALL(m_fopen_plus, fopen(t, "r+") ? 0 : -1)
CALL(m_freopen, freopen(t, "a", stdin) ? 0 : -1)
CALL(m_mkstemp, mkstemp(strcpy(buffer, beside(t, "XXXXXX"))) < 0 ? -1 : 0)
CALL(m_unlink, unlink(t))
CALL(m_unlinkat, unlinkat(HERE, t, 0))
CALL(m_remove, remove(t))
CALL(m_rename, rename(t, NEW))
CALL(m_renameat2, renameat2(HERE, t, HERE, NEW, RENAME_NOREPLACE))
CALL(m_truncate, truncate(t, 1000000))
CALL(m_chmod, chmod(t, 0600))
CALL(m_fchmod, fchmod(OPEN, 0600))
CALL(m_fchmodat, fchmodat(HERE, t, 0600, 0))
CALL(m_lchmod, on_links(t, 0600))
CALL(m_chown, chown(t, (uid_t)-1, (gid_t)-1))
CALL(m_lchown, lchown(t, getuid(), (gid_t)-1))
CALL(m_fchown, fchown(OPEN, getuid(), (gid_t)-1))
CALL(m_fchownat, fchownat(HERE, t, getuid(), (gid_t)-1, AT_SYMLINK_NOFOLLOW))
CALL(m_fchownat_empty,
     fchownat(OPEN, "", getuid(), (gid_t)-1, AT_EMPTY_PATH))
CALL(m_utime, utime(t, &old))
CALL(m_utimes, utimes(t, clocks))
CALL(m_lutimes, lutimes(t, clocks))
CALL(m_futimes, futimes(OPEN, clocks))
CALL(m_futimesat, futimesat(HERE, t, clocks))
CALL(m_utimensat, utimensat(HERE, t, stamps, 0))
CALL(m_utimensat_now, utimensat(HERE, t, NULL, AT_SYMLINK_NOFOLLOW))
CALL(m_futimens, futimens(OPEN, stamps))
CALL(m_setxattr, setxattr(t, NOTE, "x", 1, 0))
CALL(m_lsetxattr, lsetxattr(t, NOTE, "x", 1, XATTR_CREATE))
CALL(m_fsetxattr, fsetxattr(OPEN, NOTE, "x", 1, 0))
CALL(m_removexattr, forgotten(t, removexattr))
CALL(m_lremovexattr, forgotten(t, lremovexattr))
CALL(m_fremovexattr,
     setxattr(t, NOTE, "x", 1, 0) ? -1 : fremovexattr(OPEN, NOTE))
CALL(m_ioctl, marked(OPEN))
CALL(m_n_mkdir, syscall(SYS_mkdirat, HERE, NEW, 0755))
CALL(m_n_mknod, syscall(SYS_mknodat, HERE, NEW, S_IFREG | 0644, 0))
CALL(m_n_symlink, syscall(SYS_symlinkat, "nowhere", HERE, NEW))
CALL(m_n_fchmod, syscall(SYS_fchmod, OPEN, 0600))
CALL(m_n_fchmodat, syscall(SYS_fchmodat, HERE, t, 0600))
CALL(m_n_fchown, syscall(SYS_fchown, OPEN, getuid(), -1))
CALL(m_n_fchownat, syscall(SYS_fchownat, HERE, t, getuid(), -1, 0))
CALL(m_n_utimensat, syscall(SYS_utimensat, HERE, t, stamps, 0))
CALL(m_n_utimensat_fd, syscall(SYS_utimensat, OPEN, NULL, stamps, 0))
CALL(m_n_setxattr, syscall(SYS_setxattr, t, NOTE, "x", 1, 0))
CALL(m_n_fsetxattr, syscall(SYS_fsetxattr, OPEN, NOTE, "x", 1, 0))
CALL(m_n_bind, bound_by_number(NEW))
CALL(m_n_open, syscall(SYS_openat, HERE, NEW, O_WRONLY | O_CREAT, 0644) < 0
                   ? -1 : 0)

CALL(e_mkdir_there, mkdir(t, 0755))
CALL(e_mkdir_nowhere, mkdir(beside(t, "no/where"), 0755))
CALL(e_mkdir_below, mkdir("/dev/null/x", 0755))
CALL(e_mkdir_null, mkdir(NULL, 0755))
CALL(e_mkdir_empty, mkdir("", 0755))
CALL(e_mkdir_root, mkdir("/", 0755))
CALL(e_mkdirat_fd, mkdirat(999, "x", 0755))
CALL(e_mkdtemp, mkdtemp(strcpy(buffer, "short.XXX")) ? 0 : -1)
CALL(e_mkstemp, mkstemp(strcpy(buffer, "no/where.XXXXXX")))
CALL(e_mknod_there, mknod(t, S_IFREG, 0))
CALL(e_mknod_slash, mknod(beside(t, "new/"), S_IFREG, 0))
CALL(e_mkfifo_there, mkfifo(t, 0644))
CALL(e_symlink_there, symlink("nowhere", t))
CALL(e_symlink_empty, symlink("", NEW))
CALL(e_symlink_null, symlink(NULL, NEW))
CALL(e_link_there, link(t, t))
CALL(e_link_nothing, link(NEW, beside(t, "newer")))
CALL(e_link_folder, link(".", NEW))
CALL(e_link_device, link(t, "/proc/x"))
CALL(e_bind_there, bound(t))
CALL(e_bind_nowhere, bound("no/where"))
CALL(e_bind_fd, bind(999, NULL, 0))
CALL(e_open_folder, plain_open(".", O_WRONLY))
CALL(e_open_nowhere, plain_open("no/where", O_WRONLY | O_CREAT))
CALL(e_open_nothing, plain_open(NEW, O_WRONLY))
CALL(e_open_excl, plain_open(t, O_WRONLY | O_CREAT | O_EXCL))
CALL(e_open_slash, plain_open(beside(t, "new/"), O_WRONLY | O_CREAT))
CALL(e_fopen_mode, fopen(t, "z") ? 0 : -1)
CALL(e_fopen_excl, fopen(t, "wx") ? 0 : -1)
CALL(e_unlink_nothing, unlink(NEW))
CALL(e_unlink_slash, unlink(beside(t, "/")))
CALL(e_rmdir_file, rmdir(t))
CALL(e_rmdir_full, rmdir("../tree"))
CALL(e_rmdir_dot, rmdir("."))
CALL(e_rename_nothing, rename(NEW, t))
CALL(e_rename_folder, rename(t, "."))
CALL(e_rename_device, rename(t, "/proc/x"))
CALL(e_rename_there, renameat2(HERE, t, HERE, t, RENAME_NOREPLACE))
CALL(e_rename_swap, renameat2(HERE, t, HERE, NEW, RENAME_EXCHANGE))
CALL(e_truncate, truncate(t, -1))
CALL(e_truncate_folder, truncate(".", 0))
CALL(e_chmod_nothing, chmod(NEW, 0600))
CALL(e_chmod_null, chmod(NULL, 0600))
CALL(e_fchmod_fd, fchmod(999, 0600))
CALL(e_fchmod_path, fchmod(plain_open(t, O_PATH), 0600))
CALL(e_fchmodat_flags, fchmodat(HERE, t, 0600, 0x4000))
CALL(e_lchown_nothing, lchown(NEW, 0, 0))
CALL(e_fchown_fd, fchown(999, 0, 0))
CALL(e_fchownat_flags, fchownat(HERE, t, 0, 0, 0x4000))
CALL(e_utime_nothing, utime(NEW, NULL))
CALL(e_utimes_late, utimes(t, late))
CALL(e_utimensat_wrong, utimensat(HERE, t, wrong, 0))
CALL(e_utimensat_kept, utimensat(HERE, t, kept, 0))
CALL(e_futimens_fd, futimens(999, NULL))
CALL(e_setxattr_nothing, setxattr(NEW, NOTE, "x", 1, 0))
CALL(e_setxattr_missing, setxattr(t, NOTE, "x", 1, XATTR_REPLACE))
CALL(e_setxattr_flags, setxattr(t, NOTE, "x", 1, 77))
CALL(e_setxattr_name, setxattr(t, "unknown.kind", "x", 1, 0))
CALL(e_removexattr_missing, removexattr(t, NOTE))
CALL(e_fremovexattr_fd, fremovexattr(999, NOTE))

#define M(name, run) {name, m_##run, CHANGES}
#define E(name, run) {name, e_##run, BADLY}

const struct entry changes[] = {
    M("mkdir", mkdir), M("mkdir:slash", mkdir_slash), M("mkdirat", mkdirat),
    M("mkdtemp", mkdtemp), M("mknod", mknod), M("mknodat", mknodat),
    M("__xmknod", xmknod), M("__xmknodat", xmknodat), M("mkfifo", mkfifo),
    M("mkfifoat", mkfifoat), M("symlink", symlink), M("symlinkat", symlinkat),
    M("link:new", link), M("linkat:new", linkat), M("bind", bind),
    M("open:new", open_new), M("open:excl-new", open_excl),
    M("open:append-to", open_append), M("open:update", open_update),
    M("open:read-new", open_read_new), M("fopen:append-to", fopen),
    M("fopen:new", fopen_new), M("fopen:plus", fopen_plus),
    M("freopen:append-to", freopen), M("mkstemp:new", mkstemp),
    M("unlink:file", unlink), M("unlinkat:file", unlinkat),
    M("remove:file", remove), M("rename:file", rename),
    M("renameat2:file", renameat2), M("truncate:grow", truncate),
    M("chmod", chmod), M("fchmod", fchmod), M("fchmodat", fchmodat),
    M("lchmod", lchmod), M("chown", chown), M("lchown", lchown),
    M("fchown", fchown), M("fchownat", fchownat),
    M("fchownat:empty", fchownat_empty), M("utime", utime),
    M("utimes", utimes), M("lutimes", lutimes), M("futimes", futimes),
    M("futimesat", futimesat), M("utimensat", utimensat),
    M("utimensat:now", utimensat_now), M("futimens", futimens),
    M("setxattr", setxattr), M("lsetxattr", lsetxattr),
    M("fsetxattr", fsetxattr), M("removexattr", removexattr),
    M("lremovexattr", lremovexattr), M("fremovexattr", fremovexattr),
    M("ioctl:marks", ioctl), M("syscall:mkdir", n_mkdir),
    M("syscall:mknod", n_mknod), M("syscall:symlink", n_symlink),
    M("syscall:fchmod", n_fchmod), M("syscall:fchmodat", n_fchmodat),
    M("syscall:fchown", n_fchown), M("syscall:fchownat", n_fchownat),
    M("syscall:utimensat", n_utimensat),
    M("syscall:utimensat-fd", n_utimensat_fd),
    M("syscall:setxattr", n_setxattr), M("syscall:fsetxattr", n_fsetxattr),
    M("syscall:bind", n_bind), M("syscall:openat", n_open),
    {NULL, NULL, CHANGES},
};

const struct entry change_fails[] = {
    E("mkdir:there", mkdir_there), E("mkdir:nowhere", mkdir_nowhere),
    E("mkdir:below", mkdir_below), E("mkdir:null", mkdir_null),
    E("mkdir:empty", mkdir_empty), E("mkdir:root", mkdir_root),
    E("mkdirat:fd", mkdirat_fd), E("mkdtemp:short", mkdtemp),
    E("mkstemp:nowhere", mkstemp), E("mknod:there", mknod_there),
    E("mknod:slash", mknod_slash), E("mkfifo:there", mkfifo_there),
    E("symlink:there", symlink_there), E("symlink:empty", symlink_empty),
    E("symlink:null", symlink_null), E("link:there", link_there),
    E("link:nothing", link_nothing), E("link:folder", link_folder),
    E("link:device", link_device), E("bind:there", bind_there),
    E("bind:nowhere", bind_nowhere), E("bind:fd", bind_fd),
    E("open:folder", open_folder), E("open:nowhere", open_nowhere),
    E("open:nothing", open_nothing), E("open:excl-there", open_excl),
    E("open:slash", open_slash), E("fopen:mode", fopen_mode),
    E("fopen:excl", fopen_excl), E("unlink:nothing", unlink_nothing),
    E("unlink:slash", unlink_slash), E("rmdir:file", rmdir_file),
    E("rmdir:full", rmdir_full), E("rmdir:dot", rmdir_dot),
    E("rename:nothing", rename_nothing), E("rename:to-folder", rename_folder),
    E("rename:device", rename_device), E("renameat2:there", rename_there),
    E("renameat2:swap", rename_swap), E("truncate:negative", truncate),
    E("truncate:folder", truncate_folder), E("chmod:nothing", chmod_nothing),
    E("chmod:null", chmod_null), E("fchmod:fd", fchmod_fd),
    E("fchmod:path", fchmod_path), E("fchmodat:flags", fchmodat_flags),
    E("lchown:nothing", lchown_nothing), E("fchown:fd", fchown_fd),
    E("fchownat:flags", fchownat_flags), E("utime:nothing", utime_nothing),
    E("utimes:late", utimes_late), E("utimensat:wrong", utimensat_wrong),
    E("utimensat:kept", utimensat_kept), E("futimens:fd", futimens_fd),
    E("setxattr:nothing", setxattr_nothing),
    E("setxattr:missing", setxattr_missing),
    E("setxattr:flags", setxattr_flags), E("setxattr:name", setxattr_name),
    E("removexattr:missing", removexattr_missing),
    E("fremovexattr:fd", fremovexattr_fd), {NULL, NULL, BADLY},
};
