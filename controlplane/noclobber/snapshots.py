"""The store of old content: what was replaced or deleted can come back.

A file here is named by the hash of what it holds, so the same bytes are kept
once, and what is damaged is never taken for what was kept. It gets its name
only when it is whole: whoever is killed amid his work leaves a file without a
name, or one that begins with a dot and is nobody's content. Mode, owner and
attributes of the user's file stand in the receipt.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat as modes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from noclobber import placing
from noclobber.files import version

COPY_LIMIT = 256 << 20  # bytes; copying more would keep a program waiting too long

_PIECE = 1 << 20  # bytes
_TRIES = 3  # at a file that somebody is writing
_FICLONE = 0x40049409  # linux/fs.h; Python has no name for it
_HASHED = re.compile(r"[0-9a-f]{64}")
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def named_by_hash(name: str) -> bool:
    """Whether a name in the store tells what the file holds."""
    return _HASHED.fullmatch(name) is not None


def hash_of(fd: int) -> str:
    """The name of what a file holds. Raises OSError."""
    digest = _new_hash()
    at = 0
    while piece := os.pread(fd, _PIECE, at):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()


def _new_hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=32)


@dataclass(frozen=True)
class Held:
    """How much is in the store. `oldest` is the time of the first, in ns, 0
    where there is none."""

    size: int  # bytes
    files: int
    oldest: int


class Store:
    """The directory at `place`; made when something is first kept."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.added = 0  # bytes since the last eviction

    def keep(self, fd: int) -> str:
        """Keeps what `fd` is open on (O_PATH or for writing, too), at most
        COPY_LIMIT bytes of it, and returns the content's name. Raises OSError;
        nothing half-made is left then."""
        with self._open() as folder:
            source = os.open(f"/proc/self/fd/{fd}", _READING)
            try:
                return self._copied(source, folder)
            finally:
                os.close(source)

    def link(self, fd: int, name: str) -> bool:
        """Gives the file that `fd` is open on one more name, in the store: for
        content that would take long to copy, of a file that is about to lose
        its only name. False where it cannot be (another file system, another
        user's file) or where somebody may still write to it. Raises OSError
        where the store cannot be used."""
        if not is_at_rest(fd):
            return False
        with self._open() as folder:
            try:
                placing.give_name(fd, name, folder)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
                    raise
                return False
            os.utime(name, dir_fd=folder)
        self.added += os.fstat(fd).st_size
        return True

    def clone(self, fd: int, name: str) -> bool:
        """Keeps content of any size by a clone, where the file system makes
        them. Raises OSError where the store cannot be used."""
        with self._open() as folder:
            source = os.open(f"/proc/self/fd/{fd}", _READING)
            try:
                with _unnamed(folder) as (new, aside):
                    if not _cloned(source, new):
                        return False
                    placing.appear(new, aside, name, folder)
            finally:
                os.close(source)
        self.added += os.fstat(fd).st_size
        return True

    def adopt(self, fd: int, path: Path, name: str = "") -> str:
        """Takes in the file at `path`, on the store's file system, that `fd` is
        open on: by the hash of what it holds, or by `name`. Returns the name,
        empty where others have the file open for writing or by other names.
        Raises OSError."""
        if os.fstat(fd).st_nlink != 1 or not is_at_rest(fd):
            return ""
        with self._open() as folder:
            name = name or hash_of(fd)
            os.fchmod(fd, 0o600)
            try:
                os.utime(name, dir_fd=folder)
            except FileNotFoundError:
                os.utime(path)
                # The name there goes when the receipt is written.
                os.link(path, name, dst_dir_fd=folder, follow_symlinks=False)
                self.added += os.fstat(fd).st_size
        return name

    def open(self, name: str) -> int:
        """A descriptor of the content, for reading. Raises OSError."""
        return os.open(self.place / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def held(self) -> Held:
        """What is there now. Raises OSError."""
        found = self._entries()
        return Held(
            sum(size for _, size, _ in found),
            len(found),
            min((time for time, _, _ in found), default=0),
        )

    def evict(self, limit: int, before: int, spared: int) -> None:
        """Lets go of what was kept before `before` (ns), and of the oldest
        while there are more than `limit` bytes; never of what was kept since
        `spared` (ns). Raises OSError."""
        self.added = 0
        if not self.place.is_dir():
            return
        with self._open(fcntl.LOCK_EX | fcntl.LOCK_NB) as folder:
            found = sorted(self._entries())
            total = sum(size for _, size, _ in found)
            for time, size, name in found:
                if time >= spared or (time >= before and total <= limit):
                    break
                os.unlink(name, dir_fd=folder)
                total -= size
            for name in os.listdir(folder):  # noqa: PTH208 (a descriptor)
                if name.startswith("."):  # nobody is at it: we have the lock
                    os.unlink(name, dir_fd=folder)

    def _entries(self) -> list[tuple[int, int, str]]:
        """Time of keeping in ns, bytes, name."""
        found = []
        try:
            with os.scandir(self.place) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        stat = entry.stat(follow_symlinks=False)
                        if modes.S_ISREG(stat.st_mode) and not entry.name.startswith("."):
                            found.append((stat.st_mtime_ns, stat.st_size, entry.name))
        except FileNotFoundError:
            return []
        return found

    @contextlib.contextmanager
    def _open(self, lock: int = fcntl.LOCK_SH) -> Iterator[int]:
        """The store's directory, in which nothing is let go of meanwhile."""
        with contextlib.suppress(FileExistsError):
            self.place.mkdir(mode=0o700)
        folder = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, lock)
            yield folder
        except OSError as error:
            if error.filename is None or "/fd/" in str(error.filename):
                raise OSError(error.errno, error.strerror, str(self.place)) from None
            raise
        finally:
            os.close(folder)

    def _copied(self, source: int, folder: int) -> str:
        for tries in range(1, _TRIES + 1):
            with _unnamed(folder) as (new, aside):
                before = version(os.fstat(source))
                cloned = _cloned(source, new)
                name = hash_of(new) if cloned else _copy(source, new, before.size)
                if tries < _TRIES and version(os.fstat(source)) != before:
                    continue
                self._take_in(new, aside, name, folder)
                return name
        raise AssertionError("the last try is always taken")

    def _take_in(self, new: int, aside: str, name: str, folder: int) -> None:
        size = os.fstat(new).st_size
        try:
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_size == size:
                os.utime(name, dir_fd=folder)  # kept a second time: as young as that
                return
        except FileNotFoundError:
            placing.appear(new, aside, name, folder)
            self.added += size
            return
        # What stands there was cut off by a crash of the machine.
        if not aside:
            aside = _aside()
            placing.give_name(new, aside, folder)
        os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _aside() -> str:
    return f".{secrets.token_hex(8)}"


@contextlib.contextmanager
def _unnamed(folder: int) -> Iterator[tuple[int, str]]:
    """A new file, and the name that it has for the time being, if any."""
    aside = _aside()
    fd, named = placing.new(aside, folder)
    try:
        yield fd, aside if named else ""
    finally:
        os.close(fd)
        if named:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=folder)


def is_at_rest(fd: int) -> bool:
    """Whether nobody has the file open for writing, by the kernel's word: a
    lease for reading is given then alone. Who opens it in that moment waits
    until it is given back, and we are sent SIGIO, which the daemon ignores."""
    try:
        source = os.open(f"/proc/self/fd/{fd}", _READING)
    except OSError:
        return False
    try:
        fcntl.fcntl(source, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(source, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(source)
    return True


def clones_in(directory: Path) -> bool:
    """Whether a file in that directory can share its blocks with another."""
    with (directory / "from").open("w+b") as source, (directory / "to").open("w+b") as target:
        source.write(b"shared")
        source.flush()
        return _cloned(source.fileno(), target.fileno())


def _cloned(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _copy(source: int, target: int, size: int) -> str:
    """Copies that much of it, or what there is. Returns the content's name."""
    digest = _new_hash()
    at = 0
    while piece := os.pread(source, min(_PIECE, size - at), at):
        digest.update(piece)
        placing.write(target, piece, at)
        at += len(piece)
    return digest.hexdigest()
