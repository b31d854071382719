"""Whether a file's present bytes stand in another file as well.

After `cp .env.example .env` nobody need look at .env before it is rewritten,
and after `cp f f.bak` f may go: the old bytes are there. What the session was
told proves nothing (a copy may have been edited or deleted since), so the
candidate is opened and compared, byte for byte.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable, Iterator

from noclobber.ledger import (
    STAMP_SIZE,
    Image,
    Key,
    Ledger,
    Stamp,
    identify,
    size_of,
    version_of,
)
from noclobber.lineage import Lineage
from noclobber.wire import Version

CANDIDATES = 64  # files that are compared at the most
_PIECE = 1 << 20


class Copies:
    """Looks for copies of one version of a file, of `content`."""

    def __init__(
        self,
        ledger: Ledger,
        key: Key,
        stamp: Stamp,
        path: bytes,
        counts: Callable[[bytes], bool],
    ) -> None:
        self._ledger = ledger
        self._key = key
        self._stamp = stamp
        self._path = path
        self._counts = counts  # not in a temp directory

    def stand(self, content: bytes) -> bool:
        """Whether a plain copy that the session made, from the file or to it,
        holds `content` now."""
        left = CANDIDATES
        for key, path in self._candidates():
            if path == self._path or not self._counts(path):
                continue
            left -= 1
            if left < 0:
                return False
            if _holds(path, key, content):
                return True
        return False

    def linked(self) -> bool:
        """Whether another name of the file stands that the session gave it."""
        names = {name for pair in self._ledger.links.get(self._key, ()) for name in pair}
        return any(_is(name, self._key) for name in names - {self._path, b""} if self._counts(name))

    def _candidates(self) -> Iterator[tuple[Key, bytes]]:
        yield from self._made_from_it()
        yield from self._sources_of_it()

    def _made_from_it(self) -> Iterator[tuple[Key, bytes]]:
        ledger = self._ledger
        readers = {read.token for read in ledger.reads(self._key) if read.ranges}
        if not readers:
            return
        size = size_of(self._stamp)
        lineage = Lineage(ledger, self._key, size)
        for key, writes in ledger.writes.items():
            if key == self._key or writes[-1].size != size:
                continue
            if readers & lineage.of(write.token for write in writes):
                yield from ((key, path) for path in ledger.paths(key))

    def _sources_of_it(self) -> Iterator[tuple[Key, bytes]]:
        """The files that its author read, by name: a report of a read has none,
        so those that its command line and its directory offer are tried."""
        ledger = self._ledger
        for write in ledger.authors(self._key, self._stamp):
            image = ledger.images.get(write.token)
            if image is None:
                continue
            wanted = ledger.keys_read(image) - {self._key}
            if not wanted:
                continue
            for path in self._names(image):
                found = _identity(path)
                if found in wanted:
                    yield found, path

    def _names(self, image: Image) -> Iterator[bytes]:
        command = self._ledger.command_of(image)
        home = os.path.dirname(self._path)  # noqa: PTH120 (bytes)
        places = [command.cwd] if command and command.cwd else []
        for word in image.argv[1:]:
            for place in (*places, home):
                yield os.path.normpath(os.path.join(place, word))  # noqa: PTH118
        inodes = {version_of(key, bytes(STAMP_SIZE)).ino for key in self._ledger.keys_read(image)}
        try:
            with os.scandir(home) as entries:
                yield from (entry.path for entry in entries if entry.inode() in inodes)
        except OSError:
            return


def _identity(path: bytes) -> Key | None:
    try:
        stat = os.lstat(path)
    except (OSError, ValueError):
        return None
    return identify(Version(stat.st_dev, stat.st_ino, 0, 0, 0))[0]


def _is(path: bytes, key: Key) -> bool:
    return _identity(path) == key


def _holds(path: bytes, key: Key, content: bytes) -> bool:
    """Whether that file, and no other that took its name, has these bytes."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags)
    except (OSError, ValueError):
        return False
    try:
        stat = os.fstat(fd)
        same = identify(Version(stat.st_dev, stat.st_ino, 0, 0, 0))[0] == key
        if not same or not modes.S_ISREG(stat.st_mode) or stat.st_size != len(content):
            return False
        at = 0
        while at < len(content):
            piece = os.pread(fd, _PIECE, at)
            if not piece or content[at : at + len(piece)] != piece:
                return False
            at += len(piece)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
