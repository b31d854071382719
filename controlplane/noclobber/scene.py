"""Whose event it is, and the file that it speaks of."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from noclobber.ledger import Image
from noclobber.session import Session
from noclobber.telling import Source, new_command
from noclobber.wire import C

KEPT = 32  # files that are being changed
KEPT_SIZE = 64 << 20  # bytes of them


class Handed(NamedTuple):
    """A file that the hook was asked for. `path` is canonical; `fd` is None
    where there is none."""

    path: bytes
    fd: int | None


Looking = Generator[bytes, Handed, str]
"""Asks the hook for files by their paths; what comes of it is a refusal, empty
where there is none."""


class Scene(NamedTuple):
    """An event's agent. Of a sub-agent `session` is its own, below `top`."""

    harness: bytes
    tool: bytes
    session: Session
    top: Session

    @property
    def followed(self) -> bool:
        """Whether the agent's own process is judged by what it does."""
        return bool(self.top.ledger.agents)

    @property
    def is_read_only(self) -> bool:
        """Whether it may change nothing under its roots."""
        return self.top.tier == C.NC_READ_ONLY or self.top.host.read_only

    def image(self, path: bytes) -> Image:
        """Its tool, in the place of a process."""
        return Image(0, 0, 0, 0, self.harness, (self.tool, path), b"", 0)

    def source(self, path: bytes = b"") -> Source:
        """A command that tells of it."""
        return Source(self.session.id, new_command(), (self.tool, path))


class Opened(NamedTuple):
    """A file before it is changed, and what was known of it then."""

    content: bytes
    known: tuple[tuple[int, int], ...]


class Changing:
    """Files between the event before a change and the one behind it."""

    def __init__(self) -> None:
        self._all: dict[tuple[bytes, bytes], Opened] = {}

    def begin(self, session: bytes, path: bytes, opened: Opened) -> None:
        """A file is about to be changed."""
        self._all.pop((session, path), None)
        self._all[session, path] = opened
        while len(self._all) > KEPT or self._size() > KEPT_SIZE:
            del self._all[next(iter(self._all))]

    def end(self, session: bytes, path: bytes) -> Opened | None:
        """What it was."""
        return self._all.pop((session, path), None)

    def _size(self) -> int:
        return sum(len(each.content) for each in self._all.values())
