"""Files written so that no other is harmed: a new one that appears whole under
its name, a present one filled anew. Everything by descriptors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes

PIECE = 1 << 20  # bytes

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_ACL = "system.posix_acl_access"  # a new file may have it from its directory


def new(aside: str, parent: int) -> tuple[int, bool]:
    """A new file, and whether it has the name already."""
    try:
        flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
        return os.open(".", flags, 0o600, dir_fd=parent), False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(aside, flags, 0o600, dir_fd=parent), True


def give_name(fd: int, name: str, parent: int) -> None:
    """Names a nameless file; fails where the name is taken."""
    # With a directory's descriptor Python calls linkat(2), which alone follows
    # the link in /proc.
    os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=parent, dst_dir_fd=parent)


def appear(fd: int, aside: str, name: str, parent: int) -> None:
    """Names the new file where nothing stood; fails where something does by
    now, for that is not kept."""
    if not aside:
        give_name(fd, name, parent)
        return
    try:
        os.link(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # A file system without links: as near to it as can be.
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=parent, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
        os.replace(aside, name, src_dir_fd=parent, dst_dir_fd=parent)


def fill(source: int, target: int) -> None:
    """Makes `target` hold what `source` does."""
    size = os.fstat(source).st_size
    if size > os.fstat(target).st_size:
        try:
            os.posix_fallocate(target, 0, size)  # a full disk says so now
        except OSError as error:
            if error.errno in _FULL:
                raise
    _copy(source, target)
    os.ftruncate(target, size)
    os.fsync(target)


def _copy(source: int, target: int) -> None:
    """All of `source` to the start of `target`."""
    at, size = 0, os.fstat(source).st_size
    while at < size:
        try:
            moved = os.copy_file_range(source, target, min(size - at, 1 << 30), at, at)
        except OSError as error:
            if error.errno in _FULL:
                raise
            moved = 0
        if not moved:
            piece = os.pread(source, PIECE, at)
            if not piece:
                raise OSError(errno.EIO, "the kept content ended early")
            moved = len(piece)
            _write(target, piece, at)
        at += moved


def _write(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done


def like(source: int, target: int) -> None:
    """Gives `target` owner, mode and extended attributes of `source`, the
    first and the last as far as we may."""
    is_as = os.fstat(source)
    mode = modes.S_IMODE(is_as.st_mode)
    mine = os.fstat(target)
    if (mine.st_uid, mine.st_gid) != (is_as.st_uid, is_as.st_gid):
        try:
            os.fchown(target, is_as.st_uid, is_as.st_gid)
        except OSError:
            mode &= ~(modes.S_ISUID | modes.S_ISGID)  # never for another user
            with contextlib.suppress(OSError):
                os.fchown(target, -1, is_as.st_gid)
    wanted = _attributes(source)
    if _ACL in _attributes(target) and _ACL not in wanted:
        os.removexattr(target, _ACL)
    for name in wanted:
        with contextlib.suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))
    os.fchmod(target, mode)


def _attributes(fd: int) -> list[str]:
    try:
        return os.listxattr(fd)
    except OSError:
        return []  # the file system has none


def whole(fd: int) -> bytes:
    """All that a file holds."""
    return exactly(fd, os.fstat(fd).st_size, 0)


def exactly(fd: int, size: int, at: int) -> bytes:
    """That many bytes, fewer only at the end."""
    pieces = []
    while size > 0 and (piece := os.pread(fd, size, at)):
        pieces.append(piece)
        size, at = size - len(piece), at + len(piece)
    return b"".join(pieces)


def sync(directory: int) -> None:
    """Brings a directory's names to the disk, where that can be."""
    with contextlib.suppress(OSError):  # a directory that may not be listed
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
