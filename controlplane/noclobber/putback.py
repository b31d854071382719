"""Puts kept content back into a file of the user's.

Bringing back must not be one more loss: what stands there is kept first, with
a receipt; no name on the way may be a link; and at every moment the file holds
the old or the new content, whole. A file with several names is written in
place, for its other names mean it, too; where that fails half way the old
content goes back in.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat as modes
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from noclobber.files import version
from noclobber.placing import (
    PIECE,
    appear,
    attributes_of,
    dress,
    exactly,
    fill,
    give_name,
    new,
    sync,
    whole,
)
from noclobber.receipts import Receipt, Receipts, timestamp
from noclobber.restore import RestoreError, Snapshot
from noclobber.snapshots import Store, hash_of, named_by_hash

_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Who:
    """Whose restore it is: a session's, or a person's where it is empty."""

    session: str
    command: str
    user: str
    argv: tuple[str, ...]


@dataclass
class Opened:
    """A snapshot's content and the file it is for, open. `parent` and
    `content` are descriptors, `present` one of the file or -1 where nothing
    stands there."""

    snapshot: Snapshot
    parent: int
    content: int
    present: int
    stat: os.stat_result | None = field(default=None)

    @property
    def name(self) -> str:
        """The file's name in `parent`."""
        return os.path.basename(self.snapshot.path)  # noqa: PTH119

    def is_present(self) -> bool:
        """Whether the file holds the content already."""
        if self.present < 0 or os.fstat(self.content).st_size != os.fstat(self.present).st_size:
            return False
        at = 0
        while piece := os.pread(self.content, PIECE, at):
            if exactly(self.present, len(piece), at) != piece:
                return False
            at += len(piece)
        return True

    def texts(self) -> tuple[bytes, bytes]:
        """What the file holds, and the kept content."""
        return whole(self.present) if self.present >= 0 else b"", whole(self.content)


@contextlib.contextmanager
def opened(store: Path, snapshot: Snapshot) -> Iterator[Opened]:
    """Everything that a restore needs, looked at and found fit. Raises
    RestoreError, OSError."""
    with contextlib.ExitStack() as stack:
        content = _kept(store, snapshot)
        stack.callback(os.close, content)
        parent = _parent(snapshot.path)
        stack.callback(os.close, parent)
        found = Opened(snapshot, parent, content, -1)
        try:
            found.stat = os.stat(found.name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            yield found
            return
        if modes.S_ISLNK(found.stat.st_mode):
            raise RestoreError(
                f"{snapshot.path} is a symbolic link now; nothing is restored through a link"
            )
        if not modes.S_ISREG(found.stat.st_mode):
            raise RestoreError(f"{snapshot.path} is no regular file now; move it away first")
        with _naming(snapshot.path):
            found.present = os.open(found.name, _LOOK, dir_fd=parent)
        stack.callback(os.close, found.present)
        found.stat = os.fstat(found.present)
        yield found


def _kept(store: Path, snapshot: Snapshot) -> int:
    """The content in the store, found to be what was kept. What is named by
    the receipt may be longer than it says: a deleted file may have been
    written on."""
    path = store / snapshot.name
    try:
        fd = os.open(path, _LOOK)
    except OSError as error:
        gone = error.errno == errno.ENOENT
        why = "is not there any more" if gone else f"cannot be read ({error.strerror})"
        raise RestoreError(f"the kept content {path} {why}") from None
    why = _damage(fd, snapshot)
    if why:
        os.close(fd)
        raise RestoreError(f"the kept content {path} is damaged: {why}")
    return fd


def _damage(fd: int, snapshot: Snapshot) -> str:
    stat = os.fstat(fd)
    if not modes.S_ISREG(stat.st_mode) or stat.st_size < snapshot.size:
        return f"it has {stat.st_size} bytes, and {snapshot.size} were kept"
    if named_by_hash(snapshot.name) and hash_of(fd) != snapshot.name:
        return "it is not what its name says"
    return ""


def _parent(path: str) -> int:
    """The directory, reached over no link."""
    way = Path(path).parent
    fd = os.open("/", _WAY)
    for number, name in enumerate(way.parts[1:], 2):
        here = Path(*way.parts[:number])
        try:
            below = os.open(name, _WAY, dir_fd=fd)
        except FileNotFoundError:
            raise RestoreError(
                f"the directory {way} is gone; make it first: mkdir -p {way}"
            ) from None
        except NotADirectoryError:
            is_link = modes.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
            what = "a symbolic link" if is_link else "no directory"
            raise RestoreError(
                f"{here} is {what} now; nothing is restored through it: "
                "put the directory back first"
            ) from None
        finally:
            os.close(fd)
        fd = below
    return fd


def put(found: Opened, store: Path, receipts: Path, who: Who) -> str:
    """Gives the file the kept content. Returns the id of the receipt, under
    which the content until now is kept. Raises RestoreError, OSError: the file
    is as it was then."""
    shared = found.stat is not None and found.stat.st_nlink > 1
    with _naming(found.snapshot.path), (_over if shared else _beside)(found) as place:
        ident, kept = _keep(found, store, receipts, who)
        place(kept)
    return ident


# Keeping what is there.


def _keep(found: Opened, store: Path, receipts: Path, who: Who) -> tuple[str, Path]:
    """Keeps the present content and writes the receipt. Returns its id, and
    the content's place; what is left in the store by a failure is whole."""
    now = time.time_ns()
    ident = f"{now:x}-r{os.getpid()}"
    name, size = "", 0
    if found.present >= 0:
        with _naming(str(store)):
            name = Store(store).keep(found.present)
        size = _settle(found, store / name)
    with _naming(str(receipts)):
        _tell(receipts, _receipt(found, who, ident, now, size, name))
    return ident, store / name


def _settle(found: Opened, kept: Path) -> int:
    """Brings what was just kept to the disk. Raises RestoreError where it is
    not what the file holds: somebody is writing it."""
    fd = os.open(kept, _LOOK)
    try:
        size = os.fstat(fd).st_size
        _check(found)
        if size != os.fstat(found.present).st_size:
            raise _changing(found)
        os.fsync(fd)
    finally:
        os.close(fd)
    store = os.open(kept.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(store)
    finally:
        os.close(store)
    return size


def _check(found: Opened) -> None:
    """Raises RestoreError where the name does not lead to what was looked at,
    as it was then."""
    try:
        now = os.stat(found.name, dir_fd=found.parent, follow_symlinks=False)
    except FileNotFoundError:
        raise _changing(found) from None
    if found.stat is None or version(now) != version(found.stat):
        raise _changing(found)


def _changing(found: Opened) -> RestoreError:
    return RestoreError(
        f"{found.snapshot.path} is being changed by somebody else; try again when that is done"
    )


def _receipt(found: Opened, who: Who, ident: str, now: int, size: int, name: str) -> Receipt:
    kept = found.present >= 0
    one = found.snapshot
    reason = f"{who.user} restored what it held before {timestamp(_ns(one))} (receipt {one.id})"
    return Receipt(
        time=timestamp(now),
        session=who.session,
        command=who.command,
        pid=os.getpid(),
        exe=os.path.realpath("/proc/self/exe"),
        argv=list(who.argv),
        op="restore",
        path=one.path,
        verdict="snapshot" if kept else "allow",
        row=0,
        grade="",
        seen_bytes=0,
        total_bytes=size,
        seen_lines=0,
        total_lines=0,
        unseen=[],
        reason=reason + ("; what it held until then was kept" if kept else "; nothing was there"),
        id=ident,
        snapshot=name,
        attributes=attributes_of(found.present) if kept else {},
    )


def _ns(one: Snapshot) -> int:
    return int(one.time.timestamp()) * 1_000_000_000 + one.time.microsecond * 1000


def _tell(path: Path, receipt: Receipt) -> None:
    receipts = Receipts(path)
    try:
        receipts.add(receipt)
        receipts.sync()  # before what it speaks of is done
    finally:
        receipts.close()


# Putting the other in its place.


@contextlib.contextmanager
def _beside(found: Opened) -> Iterator[Callable[[Path], None]]:
    """A new file with the content, on the disk, which takes the old one's place
    when the function is called. It is nameless until then where the file
    system can do that; nothing is left of it afterwards."""
    aside = f".noclobber-{secrets.token_hex(8)}"
    here = found.parent
    fd, named = new(aside, here)

    def place(_: Path) -> None:
        if found.stat is None:
            appear(fd, aside if named else "", found.name, here)
        else:
            if not named:
                give_name(fd, aside, here)
            _check(found)
            os.replace(aside, found.name, src_dir_fd=here, dst_dir_fd=here)
        sync(here)

    try:
        fill(found.content, fd)
        before = found.snapshot.attributes
        dress(fd, before if found.stat is None else attributes_of(found.present))
        os.fsync(fd)  # owner and mode, too
        yield place
    finally:
        os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=here)


@contextlib.contextmanager
def _over(found: Opened) -> Iterator[Callable[[Path], None]]:
    """The very file, open to be written over when the function is called; what
    was kept of it goes back in where that fails."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(found.name, flags, dir_fd=found.parent)

    def place(kept: Path) -> None:
        _check(found)
        before = os.fstat(fd)
        if (before.st_dev, before.st_ino) != _identity(found):
            raise _changing(found)
        try:
            fill(found.content, fd)
        except BaseException:
            old = os.open(kept, _LOOK)
            try:
                fill(old, fd)
            finally:
                os.close(old)
            raise
        finally:
            os.fchmod(fd, modes.S_IMODE(before.st_mode))  # writing takes set-ID bits

    try:
        yield place
    finally:
        os.close(fd)


def _identity(found: Opened) -> tuple[int, int]:
    stat = os.fstat(found.present)
    return stat.st_dev, stat.st_ino


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors name a file that they are about, and not a descriptor or a name
    that nobody has seen."""
    try:
        yield
    except OSError as error:
        said = error.filename
        if not (isinstance(said, str) and said.startswith("/") and "/fd/" not in said):
            raise OSError(error.errno, error.strerror, path) from None
        raise
