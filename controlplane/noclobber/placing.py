"""Files written so that no other is harmed: a new one that appears whole under
its name, a present one filled anew. Everything by descriptors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
from base64 import b64decode, b64encode
from typing import Any

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
            write(target, piece, at)
        at += moved


def put_back(kept: int, fd: int, mtime: int) -> None:
    """Writes what `kept` is open on into the file that `fd` is open on (O_PATH,
    too), and gives it that time (ns). Raises OSError."""
    target = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        fill(kept, target)
        os.utime(target, ns=(mtime, mtime))
    finally:
        os.close(target)


def write(fd: int, data: bytes, at: int) -> None:
    """All of `data` at that offset."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done


def attributes_of(fd: int) -> dict[str, Any]:
    """What a file is besides its content, as JSON can say it: `mode`, `uid`,
    `gid`, and `xattrs` in base64 where there are any. `fd` may be O_PATH."""
    stat = os.fstat(fd)
    found: dict[str, Any] = {
        "mode": modes.S_IMODE(stat.st_mode),
        "uid": stat.st_uid,
        "gid": stat.st_gid,
    }
    path = f"/proc/self/fd/{fd}"
    with contextlib.suppress(OSError):  # the file system has none
        named = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        if named:
            found["xattrs"] = {name: b64encode(value).decode() for name, value in named.items()}
    return found


def dress(target: int, wanted: dict[str, Any]) -> None:
    """Gives `target` these attributes, owner and extended ones as far as we
    may; where `wanted` is empty it stays as it is."""
    if "mode" not in wanted:
        return
    mode, uid, gid = wanted["mode"], wanted["uid"], wanted["gid"]
    mine = os.fstat(target)
    if (mine.st_uid, mine.st_gid) != (uid, gid):
        try:
            os.fchown(target, uid, gid)
        except OSError:
            mode &= ~(modes.S_ISUID | modes.S_ISGID)  # never for another user
            with contextlib.suppress(OSError):
                os.fchown(target, -1, gid)
    named = wanted.get("xattrs", {})
    with contextlib.suppress(OSError):
        if _ACL not in named and _ACL in os.listxattr(target):
            os.removexattr(target, _ACL)
    for name, value in named.items():
        with contextlib.suppress(OSError):
            os.setxattr(target, name, b64decode(value))
    os.fchmod(target, mode)


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
