"""Files that processes kept themselves before they deleted them.

Whoever deletes thousands of files does not wait for an answer for each: he
gives every one a second name in the store's folder `incoming`, tells of it and
goes on. What the rule says about each is worked out here, when nothing else is
to be done, or when somebody creates the name anew. What was nobody's loss goes
then; the rest gets its receipt and its place in the store.

Where no daemon was there to be told, what would have been said stands in a file
`incoming/TOKEN` of that process, and the next daemon reads it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from noclobber import rule, wire
from noclobber.deletions import outlives_git
from noclobber.facts import Gathered, Question
from noclobber.files import identity
from noclobber.ledger import Image, Key, Stamp
from noclobber.rule import Verdict
from noclobber.session import Session, Speaker
from noclobber.wire import C, WireError

if TYPE_CHECKING:
    from noclobber.guard import Guard

INCOMING = "incoming"  # processes look for it beside the socket
HASH_LIMIT = 64 << 20  # bytes; hashing more would keep questions waiting
SLICE = 0.005  # s of work before questions are looked for again

_NAME = re.compile(rb"[0-9a-f]{1,16}-[0-9a-f]{1,16}")
_NOTE = re.compile(rb"[0-9a-f]{1,16}")
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Gone(NamedTuple):
    """A deletion that nobody asked about."""

    speaker: Speaker
    session: Session
    image: Image
    key: Key
    stamp: Stamp
    path: bytes
    name: bytes  # in `incoming`


class Incoming:
    """The folder in `store`, to which a link in `runtime` leads."""

    def __init__(self, guard: Guard, store: Path, runtime: Path) -> None:
        self._guard = guard
        self._place = place = store / INCOMING
        door = runtime / INCOMING
        self._waiting: dict[bytes, Gone] = {}
        self._stuck: list[Gone] = []
        self._nameless = 0
        with contextlib.suppress(OSError):  # then everybody asks
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            door.unlink(missing_ok=True)
            door.symlink_to(place)
        # What a daemon that was killed did not come to; None: no need to look.
        self._left: set[bytes] | None = set()
        with contextlib.suppress(OSError):
            self._left = {os.fsencode(path.name) for path in place.iterdir()}

    @property
    def left(self) -> bool:
        """Whether an earlier daemon left something that the journal tells of."""
        return bool(self._left)

    def caught_up(self) -> None:
        """All that an earlier daemon had heard of was told again; what was
        written down since comes now."""
        left, self._left = self._left or (), None
        for name in filter(_NOTE.fullmatch, left):
            with contextlib.suppress(OSError):  # it is read by the next one
                self._read_note(self._place / os.fsdecode(name))
        self._nameless = sum(1 for name in left if _NAME.fullmatch(name)) - len(self._waiting)

    def _read_note(self, path: Path) -> None:
        chunk = path.read_bytes()
        found, end = wire.records(chunk, len(chunk))
        if found:
            with contextlib.suppress(WireError):  # as from a process
                self._guard.take(self._guard.speaker(0), chunk[:end], found)
            self._guard.commit()
        path.unlink(missing_ok=True)

    @property
    def trouble(self) -> str:
        """For people: what nobody can tell the name of; else empty."""
        if self._nameless <= 0:
            return ""
        return (
            f"{self._place} holds {self._nameless} deleted files whose names were lost "
            "with a daemon that was killed."
        )

    def kept(self, speaker: Speaker, key: Key, stamp: Stamp, path: bytes, name: bytes) -> None:
        """A process tells that it kept a file and deletes it now."""
        if not _NAME.fullmatch(name) or (self._left is not None and name not in self._left):
            return
        session, image = speaker.session, speaker.image
        assert session is not None and image is not None
        if not session.roots:  # nothing would be protected: it stays as it is
            return
        self._waiting[name] = Gone(speaker, session, image, key, stamp, path, name)
        session.ledger.waiting[path] = name

    @property
    def waits(self) -> bool:
        """Whether there is something to work out."""
        return bool(self._waiting)

    def work(self) -> None:
        """Works out some of it."""
        until = time.monotonic() + SLICE
        while self._waiting and time.monotonic() < until:
            self._settle(self._waiting.pop(next(iter(self._waiting))))

    def finish(self) -> int:
        """Somebody waits for all of it: works out some, and what could not be
        taken in before, too. Returns how much is left."""
        if not self._waiting:
            self.retry()
        self.work()
        return len(self._waiting)

    def settle(self, session: Session, path: bytes) -> None:
        """Works out what was last deleted at `path`: it is created anew."""
        name = session.ledger.waiting.get(path)
        if name is not None and name in self._waiting:
            self._settle(self._waiting.pop(name))

    def retry(self) -> None:
        """What could not be taken in may be now."""
        self._waiting.update((one.name, one) for one in self._stuck)
        self._stuck.clear()

    def forget(self, before: int) -> None:
        """Lets go of what nobody can tell the name of and was kept before that
        time (ns). Raises OSError."""
        known = {*self._waiting, *(one.name for one in self._stuck)}
        for path in self._place.iterdir():
            if os.fsencode(path.name) not in known and path.lstat().st_ctime_ns < before:
                path.unlink()

    def _settle(self, one: Gone) -> None:
        waiting = one.session.ledger.waiting
        entombs = waiting.get(one.path) == one.name  # its directory stands
        if entombs:
            del waiting[one.path]
        path = self._place / os.fsdecode(one.name)
        try:
            fd = os.open(path, _READING)
        except OSError:
            return  # the deletion failed, and who had asked for it took it out
        try:
            self._judge(one, fd, path, entombs)
        except OSError:
            self._stuck.append(one)
            return
        finally:
            os.close(fd)
        path.unlink(missing_ok=True)

    def _judge(self, one: Gone, fd: int, path: Path, entombs: bool) -> None:
        stat = os.fstat(fd)
        found = identity(stat)
        known = (one.key, one.stamp) if found[0] == one.key else found
        asked = Question(C.NC_OP_DELETE, one.path, b"", 0, stat.st_size, fd, None, one.image.pid)
        guard = self._guard
        facts = Gathered(asked, one.session, one.image, guard.guarded(one.session), known)
        ruling = rule.decide_deletion(facts)
        if ruling.verdict is not Verdict.ALLOW or (entombs and outlives_git(facts, ruling)):
            facts.settle()
            # A tombstone's inode stays: no new file may get its number.
            stays = entombs or stat.st_size > HASH_LIMIT
            ident = guard.new_id(time.time_ns()) if stays else ""
            kept = guard.keeper.take_in(fd, path, ident, guard.configs.of(None))
            guard.record(facts, ruling, kept)
            if entombs:
                guard.laid(one.speaker, facts, kept.name)
        if ruling.row >= 3:
            guard.replaced(one.speaker, facts, ruling)
