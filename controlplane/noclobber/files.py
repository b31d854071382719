"""Files as the daemon meets them: by descriptors that others passed, never by
a path of its own."""

from __future__ import annotations

import os
import stat as modes

from noclobber import wire
from noclobber.ledger import KEY_SIZE
from noclobber.wire import Version

CONTENT_LIMIT = 64 << 20  # bytes; of a larger file no content is looked at


def version(stat: os.stat_result) -> Version:
    """The version that a stat result tells of."""
    return Version(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def identity(stat: os.stat_result) -> tuple[bytes, bytes]:
    """The same as the ledger keeps it: key and stamp."""
    raw = wire.VERSION.pack(
        stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    )
    return raw[:KEY_SIZE], raw[KEY_SIZE:]


def content_of(fd: int, size: int) -> bytes | None:
    """The file's bytes, or None where it is too large or cannot be read. The
    descriptor may be O_PATH, or for writing alone."""
    if size > CONTENT_LIMIT:
        return None
    try:
        readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        pieces = []
        at = 0
        while at < size:
            piece = os.pread(readable, size - at, at)
            if not piece:
                break
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(readable)


def open_files(pid: int) -> list[tuple[str, os.stat_result]]:
    """The regular files that a process has open: their names in /proc."""
    found = []
    try:
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 (names are wanted)
    except OSError:
        return []
    for name in names:
        try:
            stat = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
        except OSError:
            continue
        if modes.S_ISREG(stat.st_mode):
            found.append((f"/proc/{pid}/fdinfo/{name}", stat))
    return found


def reads_through(fdinfo: str) -> bool:
    """Whether a descriptor is open for reading."""
    return _access(fdinfo) in (os.O_RDONLY, os.O_RDWR)


def writes_through(fdinfo: str) -> bool:
    """Whether a descriptor is open for writing."""
    return _access(fdinfo) in (os.O_WRONLY, os.O_RDWR)


def _access(fdinfo: str) -> int:
    """O_RDONLY and its like; -1 where the descriptor is gone."""
    try:
        with open(fdinfo) as file:  # noqa: PTH123
            for line in file:
                if line.startswith("flags:"):
                    return int(line.split()[1], 8) & os.O_ACCMODE
    except (OSError, ValueError, IndexError):
        pass
    return -1
