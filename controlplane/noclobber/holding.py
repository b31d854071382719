"""What a session holds: bytes that it wrote itself, by evidence alone.

A guard that asks about an agent's own files is switched off, and one that
takes what `git clone` brought, or what sed carried over from an unseen
version, for the agent's own loses it. So a byte is held when the last one to
write it was the agent's text or a program's output, and not

* made from an older content of the same file that the session did not hold,
* brought from elsewhere by a carrier or by git.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from noclobber import coverage
from noclobber.coverage import Coverage
from noclobber.ledger import SIZE_MTIME, Image, Key, Ledger, Stamp, Write, size_of, version_of
from noclobber.lineage import Lineage
from noclobber.settled import Depth, Settled
from noclobber.wire import C


class Origin(Enum):
    """Where the bytes that a program writes come from, by its command line."""

    MAKES = "it makes them"
    PASSES = "it passes on what it reads"
    COPIES = "it passes on files"
    BRINGS = "it brings them from elsewhere"


class Holding:
    """Works out, for one question, what the session held of any version.

    `origin` says what a program does; `reads_count` is true in a session of
    grade *read*, where a version read whole is known. What `command` printed
    itself made nothing known to it.
    """

    def __init__(
        self,
        facts: Ledger,
        origin: Callable[[Image, Write], Origin],
        reads_count: bool,
        command: bytes = b"",
    ) -> None:
        self._ledger = facts
        self._origin = origin
        self._reads_count = reads_count
        self._command = command
        depth = Depth()
        self._held: Settled[tuple[Key, Stamp], Coverage] = Settled(depth)
        self._own: Settled[int, bool] = Settled(depth)  # by the number of the write

    def held(self, key: Key, stamp: Stamp) -> Coverage:
        """The bytes of that version that the session wrote."""
        if key not in self._ledger.writes:
            return coverage.NOTHING
        # While it is being worked out: what a program reads of what it has just
        # written itself adds nothing to the answer.
        assumed = coverage.whole(size_of(stamp))
        return self._held.get((key, stamp), assumed, lambda: self._walk(key, stamp))

    def was_held(self, key: Key, stamp: Stamp) -> bool:
        """Whether the session held all of a version that differs from this one
        by its ctime alone: a change of mode, or bytes exchanged and the time
        put back. Nobody can tell which."""
        before = [
            write.stamp
            for write in self._ledger.authors(key, stamp)
            if write.stamp[:SIZE_MTIME] == stamp[:SIZE_MTIME]
        ]
        return bool(before) and coverage.covers(self.held(key, before[-1]), 0, size_of(stamp))

    def knew(self, key: Key, stamp: Stamp) -> bool:
        """Whether the session held or knew every byte of that version."""
        facts = self._ledger
        if facts.was_known(key, stamp, self._command):
            return True
        if key in facts.writes and self.was_held(key, stamp):
            return True
        found = self.held(key, stamp)
        if self._reads_count:
            found = coverage.union(found, facts.read_by(facts.readers, key, stamp))
        return coverage.covers(found, 0, size_of(stamp))

    def _walk(self, key: Key, stamp: Stamp) -> Coverage:
        """Replays the writes that made this version, oldest first."""
        held: Coverage = coverage.NOTHING
        spoken_for: Coverage = coverage.NOTHING  # whose writer has said so
        stamps: list[Stamp] = []
        authors = self._ledger.authors(key, stamp)
        if len(authors) == 1 and authors[0].begins and authors[0].stamp == stamp:
            # The usual one, made at one go: no need to replay anything.
            whole = coverage.whole(authors[0].size)
            return whole if self._is_own(authors[0], key) else coverage.NOTHING
        for place, write in enumerate(authors):
            size, start = write.size, write.start
            linked = any(s[:SIZE_MTIME] == write.opened[:SIZE_MTIME] for s in stamps)
            if write.begins:
                # Else it is the same opening, told of once more.
                if not linked and not (place and authors[place - 1].within(write)):
                    held = spoken_for = coverage.NOTHING
                whole = coverage.whole(size)
                stretch = coverage.subtract(whole, spoken_for) if spoken_for else whole
            else:
                if not linked:
                    was_known = self._ledger.was_known(key, write.opened, self._command)
                    held = coverage.whole(start) if was_known else coverage.NOTHING
                stretch = ((start, size),) if start < size else coverage.NOTHING
            if self._is_own(write, key):
                held = coverage.union(held, stretch)
            else:
                in_place = not write.flags & C.NC_APPEND and not write.begins
                keeps = held if not in_place or write.flags & C.NC_INHERIT else coverage.NOTHING
                held = coverage.subtract(keeps, stretch)
            spoken_for = coverage.union(spoken_for, stretch)
            if held and held[-1][1] > size:
                held = coverage.clip(held, 0, size)
            stamps += [write.opened, write.stamp]
        return held if self._ends_at(key, stamps[1::2], stamp) else coverage.NOTHING

    def _ends_at(self, key: Key, stamps: list[Stamp], stamp: Stamp) -> bool:
        return any(self._ledger.same(key, s, stamp) for s in stamps)

    def _is_own(self, write: Write, key: Key) -> bool:
        return self._own.get(write.seq, True, lambda: self._makes_it_own(write, key))

    def _makes_it_own(self, write: Write, key: Key) -> bool:
        if not self._makes(write.token, write):
            return False
        # What is appended takes nothing away: the old content is still there,
        # and has to be known on its own account.
        adds = bool(write.flags & C.NC_APPEND) and not write.begins
        return adds or not self._tainted(write, key)

    def _makes(self, token: int, write: Write, seen: frozenset[int] = frozenset()) -> bool:
        """Whether the bytes are the agent's text or a program's output."""
        facts = self._ledger
        image = facts.images.get(token)
        if image is None:
            return False
        origin = self._origin(image, write)
        if origin in (Origin.MAKES, Origin.BRINGS):
            return origin is Origin.MAKES
        for key in facts.keys_read(image):
            for read in facts.reads(key):
                if read.token == token and not self.knew(key, read.stamp):
                    return False
        sources = Lineage(facts, b"", 0).writers(image)
        return all(self._makes(t, write, seen | {token}) for t in sources if t not in seen)

    def _tainted(self, write: Write, key: Key) -> bool:
        """Whether it was made from an older content that was not known."""
        facts = self._ledger
        # Nearly always nobody read what was not known: no lineage is needed.
        stood = facts.pasts(key)
        if not any(map(facts.has_reads, stood)):
            return False
        unknown = {
            read.token
            for other in stood
            for read in facts.reads(other)
            if read.ranges
            # What came later went into no earlier writing.
            and version_of(other, read.stamp).ctime <= write.ctime
            and not self.knew(other, read.stamp)
        }
        return bool(unknown) and not unknown.isdisjoint(
            Lineage(facts, key, write.size).of([write.token])
        )
