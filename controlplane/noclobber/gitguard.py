"""Git stands behind a file: its present bytes are in HEAD or in the index.

What git holds can be had back, so a program may replace it. Only bytes that
are equal count (to the object's hash), or equal but for line ends where git
itself takes CRLF for LF. What a filter made of them (LFS) does not.
"""

import hashlib
import os
from collections.abc import Iterator

from noclobber.repository import Object, Repositories, Repository, Where

LIMIT = 256 << 20  # bytes; a larger file counts as not held, hashing would stall
TEXT_LIMIT = 16 << 20  # bytes; beyond this no line ends are looked at
_PIECE = 1 << 20


def git_holds(
    repositories: Repositories,
    path: bytes,
    content: bytes | int,
    places: tuple[Where, ...] = ("HEAD", "index"),
) -> bool:
    """Whether one of `places` of the repository that `path` lies in (absolute,
    canonical) has `content`: bytes, or a descriptor of the file (its offset is
    left alone; O_PATH will do). False too where git fails."""
    repository = repositories.at(path)
    if repository is None:
        return False
    relative = repository.relative(path)
    try:
        return _holds(repository, relative, _Content(content), places)
    except OSError:
        return False


def _holds(
    repository: Repository, path: bytes, content: "_Content", places: tuple[Where, ...]
) -> bool:
    if content.size > LIMIT:
        return False
    other: list[Object] = []
    for where in places:
        found = repository.object_at(where, path)
        if found is None or found.kind != b"blob":
            continue
        if found.size == content.size and content.hashes_to(found):
            return True
        if found.size < content.size <= TEXT_LIMIT:
            other.append(found)
    if not other:
        return False
    text = content.with_line_feeds()
    return any(
        found.size == text.size and text.hashes_to(found) for found in other
    ) and repository.converts_line_ends(path)


class _Content:
    """Bytes, or a descriptor that is read in pieces. Raises OSError."""

    def __init__(self, given: bytes | int) -> None:
        self._given = given
        self.size = os.fstat(given).st_size if isinstance(given, int) else len(given)
        self._hashes: dict[int, bytes] = {}

    def hashes_to(self, found: Object) -> bool:
        """Whether these bytes are the object. Its name's length tells the hash."""
        width = len(found.name)
        if width not in self._hashes:
            make = hashlib.sha1 if width == 40 else hashlib.sha256
            digest = make(b"blob %d\0" % self.size, usedforsecurity=False)
            for piece in self._pieces():
                digest.update(piece)
            self._hashes[width] = digest.hexdigest().encode()
        return self._hashes[width] == found.name

    def with_line_feeds(self) -> "_Content":
        """CRLF taken for LF, as git does it."""
        return _Content(b"".join(self._pieces()).replace(b"\r\n", b"\n"))

    def _pieces(self) -> Iterator[bytes]:
        if not isinstance(self._given, int):
            yield self._given
            return
        # The descriptor may be O_PATH or open for writing alone.
        fd = os.open(f"/proc/self/fd/{self._given}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            at = 0
            while piece := os.pread(fd, _PIECE, at):
                yield piece
                at += len(piece)
        finally:
            os.close(fd)
