"""What a harness tells, as records of the wire: as a command's own would, a
command for each. So it is journalled and replayed as those are, and there is
one way from what was shown to what is known.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from noclobber import wire
from noclobber.coverage import Coverage
from noclobber.wire import C, Version

if TYPE_CHECKING:
    from noclobber.guard import Guard

PIECE = 512 << 10  # bytes of one report
_RANGES = 16 << 10  # of one report
_UNCUT = (1 << 32) - 1  # bytes that are shown: the harness says what was


class Source(NamedTuple):
    """Who says it: a command of the session `session`."""

    session: bytes
    command: bytes
    argv: tuple[bytes, ...]


class Telling:
    """Takes in, for `guard`, what harnesses say."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def open(self, session: bytes, roots: Iterable[bytes]) -> None:
        """A session begins, or goes on."""
        source = Source(session, new_command(), ())
        self.say(self.command(source, roots=roots), ended(source))

    def command(
        self, source: Source, *, pid: int = 0, flags: int = 0, roots: Iterable[bytes] = ()
    ) -> bytes:
        """The record that a command of the session begins. What it shows is
        told: of whoever speaks for a harness that is so."""
        name = source.session
        known = name in self._guard.sessions.all or name in self._guard.asleep()
        tier = self._guard.sessions.get(name, 0).tier if known else C.NC_WORKSPACE_WRITE
        words = name, source.command, b"", _listed(source.argv), _listed(roots)
        return wire.record(
            C.NC_COMMAND, wire.COMMAND, pid, tier, time.time_ns(), *map(len, words),
            0 if flags & C.NC_AGENT else _UNCUT, flags=flags | C.NC_ATTESTED, tail=b"".join(words),
        )  # fmt: skip

    def whole(self, source: Source, *records: bytes) -> None:
        """A command that says that and ends."""
        self.say(self.command(source), *records, ended(source))

    def say(self, *records: bytes) -> None:
        """Takes them in as from a process. They are on disk when it returns."""
        chunk = b"".join(records)
        found, _ = wire.records(chunk, len(chunk))
        self._guard.take(self._guard.speaker(0), chunk, found)
        self._guard.commit()


def hello(source: Source, exe: bytes = b"") -> bytes:
    """The record that a process begins, which is none."""
    who = source.session, source.command, exe, _listed(source.argv)
    token = secrets.randbits(63) | 1
    return wire.record(C.NC_HELLO, wire.HELLO, token, 0, 0, 0, *map(len, who), tail=b"".join(who))


def read(held: Version, ranges: Coverage) -> Iterator[bytes]:
    """Records that it took in bytes of that version."""
    for at in range(0, len(ranges), _RANGES):
        part = ranges[at : at + _RANGES]
        tail = b"".join(wire.RANGE.pack(*each) for each in part)
        yield wire.record(C.NC_READ, wire.READ, *held, len(part), 0, tail=tail)


def wrote(held: Version, path: bytes) -> bytes:
    """The record that it made that version from nothing."""
    empty = held._replace(size=0)
    return wire.record(
        C.NC_WROTE, wire.WROTE, *held, *empty, len(path), 0, flags=C.NC_TRUNCATED, tail=path
    )


def shown(source: Source, text: bytes, offset: int = 0) -> Iterator[bytes]:
    """Records that a text reached the agent, at that offset of what the
    command showed; where texts do not follow each other there is a gap."""
    for at in range(0, len(text), PIECE):
        words = source.session, source.command, text[at : at + PIECE]
        yield wire.record(
            C.NC_SHOWN, wire.SHOWN, offset + at, *map(len, words), tail=b"".join(words)
        )


def ended(source: Source) -> bytes:
    """The record that the command ends."""
    words = source.session, source.command, b"", b"", b""
    return wire.record(
        C.NC_COMMAND, wire.COMMAND, 0, 0, 0, *map(len, words), 0,
        flags=C.NC_ENDED, tail=b"".join(words),
    )  # fmt: skip


def new_command() -> bytes:
    """The name of a command that a harness speaks by."""
    return f"api-{time.time_ns():x}-{secrets.token_hex(4)}".encode()


def _listed(words: Iterable[bytes]) -> bytes:
    return b"".join(word + b"\0" for word in words)
