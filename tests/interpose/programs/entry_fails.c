/* Calls that fail anyway: the error must be the kernel's (or the library's)
 * own, also on a file of which half was read. Those that may be allowed or not
 * by who is asking (unshare, chroot, setns) are here too: no difference. */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>

#include "entry.h"

#define W (O_WRONLY | O_TRUNC)
#define HERE AT_FDCWD
#define BAD(type) ((type)(uintptr_t)16) /* no address of ours */
#define CALL(name, expression)                 \
    static long name(const char *t, long upto) \
    {                                          \
        (void)t, (void)upto;                   \
        return (long)(expression);             \
    }
#define STREAM(expression) ((expression) ? 0 : -1)
#pragma GCC diagnostic ignored "-Wnonnull"

static char *no_words[] = {"x", NULL};

static const char *
below(const char *t) /* as if the file were a folder */
{
    return strcat(strcpy(buffer, t), "/x");
}

static const char *
too_long(void)
{
    memset(buffer, 'n', 5000);
    buffer[5000] = 0;
    return buffer;
}

static const char *
folder(const char *t)
{
    const char *made = beside(t, "d");
    mkdir(made, 0755);
    return made;
}

static const char *
source(const char *t)
{
    put_file(beside(t, "src"), "new\n");
    return beside(t, "src");
}

static const char *
loop(const char *t)
{
    const char *made = beside(t, "loop");
    (void)!symlink(made, made);
    return made;
}

static const char *
soft(const char *t)
{
    const char *made = beside(t, "soft");
    (void)!symlink(t, made);
    return made;
}

static long
openat2_with(const char *t, uint64_t flags, uint64_t resolve, size_t size)
{
    struct open_how how[2] = {{.flags = flags, .resolve = resolve}};
    return syscall(SYS_openat2, HERE, t, how, size);
}

static long
spawn_failing(const char *program, const char *opened)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    if (opened)
        posix_spawn_file_actions_addopen(&actions, 1, opened, W, 0);
    return -posix_spawn(&child, program, &actions, NULL, no_words, no_words);
}

CALL(e_open_missing, open("missing/x", W))
CALL(e_open_folder, open(folder(t), W))
CALL(e_open_below, open(below(t), W))
CALL(e_open_excl, open(t, W | O_CREAT | O_EXCL, 0644))
CALL(e_open_loop, open(loop(t), W))
CALL(e_open_nofollow, open(soft(t), W | O_NOFOLLOW))
CALL(e_open_directory, open(t, W | O_DIRECTORY))
CALL(e_open_null, open(NULL, W))
CALL(e_open_bad, open(BAD(char *), W))
CALL(e_open_empty, open("", W | O_CREAT, 0644))
CALL(e_open_long, open(too_long(), W))
CALL(e_open_slash, open(strcat(strcpy(buffer, t), "/"), W))
CALL(e_open_busy, open("/proc/self/exe", W))
CALL(e_open_fd, open("/proc/self/fd/999", W))
CALL(e_openat_bad, openat(999, t, W))
CALL(e_openat_file, openat(plain_open(t, O_RDONLY), t, W))
CALL(e_openat_null, openat(HERE, NULL, W))
CALL(e_creat_folder, creat(folder(t), 0644))
CALL(e_creat_null, creat(NULL, 0644))
CALL(e_fopen_folder, STREAM(fopen(folder(t), "w")))
CALL(e_fopen_missing, STREAM(fopen("missing/x", "w")))
CALL(e_fopen_x, STREAM(fopen(t, "wx")))
CALL(e_fopen_null, STREAM(fopen(NULL, "w")))
CALL(e_fopen_bad, STREAM(fopen(BAD(char *), "w")))
CALL(e_fopen_mode, STREAM(fopen(t, "q")))
CALL(e_fdopen_bad, STREAM(fdopen(999, "w")))
CALL(e_freopen_missing, STREAM(freopen("missing/x", "w", stdin)))
CALL(e_freopen_folder, STREAM(freopen(folder(t), "w", stdin)))
CALL(e_mkstemp, mkstemp(strcpy(buffer, "no-template")))
CALL(e_mkostemps, mkostemps(strcpy(buffer, "XXXXXXab"), 9, 0))
CALL(e_truncate_minus, truncate(t, -1))
CALL(e_truncate_folder, truncate(folder(t), 0))
CALL(e_truncate_missing, truncate("missing", 0))
CALL(e_truncate_null, truncate(NULL, 0))
CALL(e_truncate_bad, truncate(BAD(char *), 0))
CALL(e_truncate_busy, truncate("/proc/self/exe", 0))
CALL(e_truncate_null_device, truncate("/dev/null", 0))
CALL(e_ftruncate_reader, ftruncate(plain_open(t, O_RDONLY), 0))
CALL(e_ftruncate_bad, ftruncate(999, 0))
CALL(e_ftruncate_minus, ftruncate(plain_open(t, O_RDWR), -1))
CALL(e_ftruncate_path, ftruncate(open(t, O_PATH), 0))
CALL(e_ftruncate_pipe, ftruncate(1, 0))
CALL(e_fallocate_reader, fallocate(plain_open(t, O_RDONLY),
                                   FALLOC_FL_ZERO_RANGE, 0, 1 << 20))
CALL(e_fallocate_alone, fallocate(plain_open(t, O_RDWR),
                                  FALLOC_FL_PUNCH_HOLE, 0, 1 << 20))
CALL(e_fallocate_odd, fallocate(plain_open(t, O_RDWR),
                                FALLOC_FL_COLLAPSE_RANGE, 3, 7))
CALL(e_fallocate_all, fallocate(plain_open(t, O_RDWR),
                                FALLOC_FL_COLLAPSE_RANGE, 0, 1 << 20))
CALL(e_fallocate_mix, fallocate(plain_open(t, O_RDWR), 0xff, 0, 1 << 20))
CALL(e_fallocate_none, fallocate(plain_open(t, O_RDWR),
                                 FALLOC_FL_ZERO_RANGE, 0, 0))
CALL(e_ficlone_bad, ioctl(plain_open(t, O_RDWR), FICLONE, 999))
CALL(e_ficlone_reader, ioctl(plain_open(t, O_RDONLY), FICLONE,
                             plain_open(source(t), O_RDONLY)))
CALL(e_ficlone_device, ioctl(plain_open(t, O_RDWR), FICLONE,
                             plain_open("/dev/null", O_RDONLY)))
CALL(e_rename_missing, rename("missing", t))
CALL(e_rename_folder, rename(folder(t), t))
CALL(e_rename_on_folder, rename(source(t), folder(t)))
CALL(e_rename_in_missing, rename(source(t), "missing/x"))
CALL(e_rename_below, rename(source(t), below(t)))
CALL(e_rename_null, rename(NULL, t))
CALL(e_rename_on_null, rename(source(t), NULL))
CALL(e_rename_bad, rename(BAD(char *), t))
CALL(e_rename_on_bad, rename(source(t), BAD(char *)))
CALL(e_rename_empty, rename("", t))
CALL(e_rename_on_empty, rename(source(t), ""))
CALL(e_rename_device, rename("/proc/self/status", t))
CALL(e_rename_slash, rename(source(t), strcat(strcpy(buffer, t), "/")))
CALL(e_rename_dot, rename(source(t), "."))
CALL(e_noreplace, renameat2(HERE, source(t), HERE, t, RENAME_NOREPLACE))
CALL(e_exchange_missing, renameat2(HERE, "missing", HERE, t,
                                   RENAME_EXCHANGE))
CALL(e_rename_flags, renameat2(HERE, source(t), HERE, t, 999))
CALL(e_rename_both, renameat2(HERE, source(t), HERE, t,
                              RENAME_NOREPLACE | RENAME_EXCHANGE))
CALL(e_renameat_bad, renameat(999, "x", HERE, t))
CALL(e_renameat_on_bad, renameat(HERE, source(t), 999, t))
CALL(e_unlink_missing, unlink("missing"))
CALL(e_unlink_folder, unlink(folder(t)))
CALL(e_unlink_null, unlink(NULL))
CALL(e_unlink_bad, unlink(BAD(char *)))
CALL(e_unlink_empty, unlink(""))
CALL(e_unlink_below, unlink(below(t)))
CALL(e_unlinkat_flags, unlinkat(HERE, t, 0x4000))
CALL(e_unlinkat_file, unlinkat(HERE, t, AT_REMOVEDIR))
CALL(e_rmdir_full, (mkdir(beside(t, "d"), 0755),
                    put_file(beside(t, "d/x"), ""), rmdir(beside(t, "d"))))
CALL(e_rmdir_file, rmdir(t))
CALL(e_rmdir_null, rmdir(NULL))
CALL(e_remove_null, remove(NULL))
CALL(e_remove_missing, remove("missing"))
CALL(e_link_exists, link(source(t), t))
CALL(e_link_null, link(NULL, t))
CALL(e_linkat_bad, linkat(HERE, source(t), HERE, BAD(char *), 0))
CALL(e_symlink, symlink(source(t), t))
CALL(e_mkdir, mkdir(t, 0755))
CALL(e_read_bad, read(plain_open(t, O_RDONLY), BAD(void *), 10))
CALL(e_read_closed, read(999, buffer, 10))
CALL(e_read_writer, read(plain_open(t, O_WRONLY), buffer, 10))
CALL(e_read_folder, read(plain_open(folder(t), O_RDONLY), buffer, 10))
CALL(e_pread_minus, pread(plain_open(t, O_RDONLY), buffer, 10, -1))
CALL(e_readv_bad, readv(plain_open(t, O_RDONLY), BAD(struct iovec *), 2))
CALL(e_preadv2_flags, preadv2(plain_open(t, O_RDONLY),
                              &(struct iovec){buffer, 9}, 1, 0, 1 << 30))
CALL(e_lseek_minus, lseek(plain_open(t, O_RDONLY), -9, SEEK_SET))
CALL(e_lseek_pipe, lseek(1, 0, SEEK_CUR))
CALL(e_sendfile_bad, sendfile(1, plain_open(t, O_RDONLY), BAD(off_t *), 9))
CALL(e_splice_files, splice(plain_open(t, O_RDONLY), NULL,
                            plain_open(t, O_RDONLY), NULL, 9, 0))
CALL(e_copy_bad, copy_file_range(plain_open(t, O_RDONLY), BAD(off64_t *),
                                 plain_open(source(t), O_RDWR), NULL, 9, 0))
CALL(e_mmap_bad, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 999, 0) ==
                     MAP_FAILED ? -1 : 0)
CALL(e_mmap_zero, mmap(NULL, 0, PROT_READ, MAP_PRIVATE,
                       plain_open(t, O_RDONLY), 0) == MAP_FAILED ? -1 : 0)
CALL(e_munmap_odd, munmap(buffer + 1, 10))
CALL(e_close, close(999))
CALL(e_close_range, close_range(9, 3, 0))
CALL(e_close_range_flags, close_range(900, 901, 1 << 20))
CALL(e_dup, dup(999))
CALL(e_dup2, dup2(999, 5))
CALL(e_dup2_minus, dup2(0, -1))
CALL(e_dup3_same, dup3(0, 0, 0))
CALL(e_fcntl, fcntl(999, F_GETFD))
CALL(e_fcntl_command, fcntl(0, 999))
CALL(e_fcntl_bad, fcntl(plain_open(t, O_RDWR), F_SETLK, BAD(void *)))
CALL(e_sendmsg_bad, sendmsg(999, BAD(struct msghdr *), 0))
CALL(e_sendmsg_null, sendmsg(socket(AF_UNIX, SOCK_STREAM, 0), NULL, 0))
CALL(e_chdir, chdir(t))
CALL(e_chdir_null, chdir(NULL))
CALL(e_fchdir, fchdir(plain_open(t, O_RDONLY)))
CALL(e_chroot, chroot(t))
CALL(e_chroot_null, chroot(NULL))
CALL(e_unshare, unshare(1))
CALL(e_setns, setns(plain_open(t, O_RDONLY), 0))
CALL(e_execve, execve("missing", no_words, no_words))
CALL(e_execve_null, execve(NULL, no_words, no_words))
CALL(e_execve_text, execve(t, no_words, no_words))
CALL(e_execve_folder, execve(".", no_words, no_words))
CALL(e_execve_words, execve(self, BAD(char **), no_words))
CALL(e_execve_environment, execve(self, no_words, BAD(char **)))
CALL(e_execvp, execvp("no-such-program", no_words))
CALL(e_fexecve, fexecve(999, no_words, no_words))
CALL(e_spawn, spawn_failing("missing", NULL))
CALL(e_spawn_action, spawn_failing("/bin/true", "missing/x"))
CALL(e_spawn_folder, spawn_failing("/bin/true", "."))
CALL(e_popen, STREAM(popen("true", "q")))
CALL(e_openat2_bad, syscall(SYS_openat2, HERE, t, BAD(void *), 24L))
CALL(e_openat2_null, syscall(SYS_openat2, HERE, t, NULL, 24L))
CALL(e_openat2_small, openat2_with(t, W, 0, 8))
CALL(e_openat2_flags, openat2_with(t, W | (1ULL << 40), 0, 24))
CALL(e_openat2_resolve, openat2_with(t, W, 1 << 20, 24))
CALL(e_openat2_link, openat2_with(soft(t), W, RESOLVE_NO_SYMLINKS, 24))
CALL(e_openat2_mode, syscall(SYS_openat2, HERE, t,
                             &(struct open_how){.flags = W, .mode = 0644},
                             24L))
CALL(e_openat2_large, openat2_with(t, W, 0, 4096 * 2))
CALL(e_number, syscall(9999))

#define ROW(name, run) {name, run, FAILS}
const struct entry fails[] = {
    ROW("open:missing", e_open_missing), ROW("open:folder", e_open_folder),
    ROW("open:below", e_open_below), ROW("open:excl", e_open_excl),
    ROW("open:loop", e_open_loop), ROW("open:nofollow", e_open_nofollow),
    ROW("open:directory", e_open_directory), ROW("open:null", e_open_null),
    ROW("open:bad", e_open_bad), ROW("open:empty", e_open_empty),
    ROW("open:long", e_open_long), ROW("open:slash", e_open_slash),
    ROW("open:busy", e_open_busy), ROW("open:no-fd", e_open_fd),
    ROW("openat:bad", e_openat_bad), ROW("openat:file", e_openat_file),
    ROW("openat:null", e_openat_null), ROW("creat:folder", e_creat_folder),
    ROW("creat:null", e_creat_null), ROW("fopen:folder", e_fopen_folder),
    ROW("fopen:missing", e_fopen_missing), ROW("fopen:x", e_fopen_x),
    ROW("fopen:null", e_fopen_null), ROW("fopen:bad", e_fopen_bad),
    ROW("fopen:mode", e_fopen_mode), ROW("fdopen:bad", e_fdopen_bad),
    ROW("freopen:missing", e_freopen_missing),
    ROW("freopen:folder", e_freopen_folder), ROW("mkstemp:bad", e_mkstemp),
    ROW("mkostemps:bad", e_mkostemps),
    ROW("truncate:minus", e_truncate_minus),
    ROW("truncate:folder", e_truncate_folder),
    ROW("truncate:missing", e_truncate_missing),
    ROW("truncate:null", e_truncate_null),
    ROW("truncate:bad", e_truncate_bad),
    ROW("truncate:busy", e_truncate_busy),
    ROW("truncate:device", e_truncate_null_device),
    ROW("ftruncate:reader", e_ftruncate_reader),
    ROW("ftruncate:bad", e_ftruncate_bad),
    ROW("ftruncate:minus", e_ftruncate_minus),
    ROW("ftruncate:path", e_ftruncate_path),
    ROW("ftruncate:pipe", e_ftruncate_pipe),
    ROW("fallocate:reader", e_fallocate_reader),
    ROW("fallocate:alone", e_fallocate_alone),
    ROW("fallocate:odd", e_fallocate_odd),
    ROW("fallocate:all", e_fallocate_all),
    ROW("fallocate:mix", e_fallocate_mix),
    ROW("fallocate:none", e_fallocate_none),
    ROW("ioctl:ficlone-bad", e_ficlone_bad),
    ROW("ioctl:ficlone-reader", e_ficlone_reader),
    ROW("ioctl:ficlone-device", e_ficlone_device),
    ROW("rename:missing", e_rename_missing),
    ROW("rename:folder", e_rename_folder),
    ROW("rename:on-folder", e_rename_on_folder),
    ROW("rename:in-missing", e_rename_in_missing),
    ROW("rename:below", e_rename_below), ROW("rename:null", e_rename_null),
    ROW("rename:on-null", e_rename_on_null),
    ROW("rename:bad", e_rename_bad), ROW("rename:on-bad", e_rename_on_bad),
    ROW("rename:empty", e_rename_empty),
    ROW("rename:on-empty", e_rename_on_empty),
    ROW("rename:device", e_rename_device),
    ROW("rename:slash", e_rename_slash), ROW("rename:dot", e_rename_dot),
    ROW("renameat2:noreplace", e_noreplace),
    ROW("renameat2:exchange-missing", e_exchange_missing),
    ROW("renameat2:flags", e_rename_flags),
    ROW("renameat2:both", e_rename_both),
    ROW("renameat:bad", e_renameat_bad),
    ROW("renameat:on-bad", e_renameat_on_bad),
    ROW("unlink:missing", e_unlink_missing),
    ROW("unlink:folder", e_unlink_folder), ROW("unlink:null", e_unlink_null),
    ROW("unlink:bad", e_unlink_bad), ROW("unlink:empty", e_unlink_empty),
    ROW("unlink:below", e_unlink_below),
    ROW("unlinkat:flags", e_unlinkat_flags),
    ROW("unlinkat:file", e_unlinkat_file),
    ROW("rmdir:full", e_rmdir_full), ROW("rmdir:file", e_rmdir_file),
    ROW("rmdir:null", e_rmdir_null),
    ROW("remove:null", e_remove_null),
    ROW("remove:missing", e_remove_missing),
    ROW("link:exists", e_link_exists), ROW("link:null", e_link_null),
    ROW("linkat:bad", e_linkat_bad), ROW("symlink:exists", e_symlink),
    ROW("mkdir:exists", e_mkdir), ROW("read:bad", e_read_bad),
    ROW("read:closed", e_read_closed), ROW("read:writer", e_read_writer),
    ROW("read:folder", e_read_folder), ROW("pread:minus", e_pread_minus),
    ROW("readv:bad", e_readv_bad), ROW("preadv2:flags", e_preadv2_flags),
    ROW("lseek:minus", e_lseek_minus), ROW("lseek:pipe", e_lseek_pipe),
    ROW("sendfile:bad", e_sendfile_bad),
    ROW("splice:files", e_splice_files), ROW("copy_file_range", e_copy_bad),
    ROW("mmap:bad", e_mmap_bad), ROW("mmap:zero", e_mmap_zero),
    ROW("munmap:odd", e_munmap_odd), ROW("close:bad", e_close),
    ROW("close_range:order", e_close_range),
    ROW("close_range:flags", e_close_range_flags), ROW("dup:bad", e_dup),
    ROW("dup2:bad", e_dup2), ROW("dup2:minus", e_dup2_minus),
    ROW("dup3:same", e_dup3_same), ROW("fcntl:bad-fd", e_fcntl),
    ROW("fcntl:command", e_fcntl_command), ROW("fcntl:bad", e_fcntl_bad),
    ROW("sendmsg:bad", e_sendmsg_bad), ROW("sendmsg:null", e_sendmsg_null),
    ROW("chdir:file", e_chdir), ROW("chdir:null", e_chdir_null),
    ROW("fchdir:file", e_fchdir), ROW("chroot", e_chroot),
    ROW("chroot:null", e_chroot_null), ROW("unshare", e_unshare),
    ROW("setns", e_setns), ROW("execve:missing", e_execve),
    ROW("execve:null", e_execve_null), ROW("execve:text", e_execve_text),
    ROW("execve:folder", e_execve_folder),
    ROW("execve:words", e_execve_words),
    ROW("execve:environment", e_execve_environment),
    ROW("execvp:missing", e_execvp), ROW("fexecve:bad", e_fexecve),
    ROW("posix_spawn:missing", e_spawn),
    ROW("posix_spawn:action", e_spawn_action),
    ROW("posix_spawn:folder", e_spawn_folder), ROW("popen:mode", e_popen),
    ROW("syscall:openat2-bad", e_openat2_bad),
    ROW("syscall:openat2-null", e_openat2_null),
    ROW("syscall:openat2-small", e_openat2_small),
    ROW("syscall:openat2-flags", e_openat2_flags),
    ROW("syscall:openat2-resolve", e_openat2_resolve),
    ROW("syscall:openat2-link", e_openat2_link),
    ROW("syscall:openat2-mode", e_openat2_mode),
    ROW("syscall:openat2-large", e_openat2_large),
    ROW("syscall:unknown", e_number), {NULL, NULL, FAILS},
};
