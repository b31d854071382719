"""What the commands of a session printed, held against a file's bytes.

attest does the matching; here is which text counts for whom. What a command
prints cannot have informed the text that the same command was given with
`-c`; in an interactive shell it can. And a view of a file is only what a
command printed one of whose processes read that file: a licence header that
another file shares is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from noclobber import voice, voice_lists
from noclobber.attest import VIEW_LINES, VIEW_SHARE, Spool
from noclobber.cmdline import given
from noclobber.config import Shown, even
from noclobber.coverage import Coverage
from noclobber.ledger import Command, Key, Ledger, Stamp, printed_as, size_of

FEW = 3  # files; of what a command printed that read more, nobody can tell whose it was


KEPT = 1 << 25
"""Bytes of text that are indexed at one time: the newest. What was printed
before them is far out of any agent's sight, and counts as unseen."""


@dataclass(frozen=True)
class _Indexed:
    """What of a command's text is in the spool."""

    reports: int
    ended: bool
    pieces: list[int] = field(default_factory=list)


class Evidence:
    """What one session was shown, indexed as its commands print it."""

    def __init__(self, ledger: Ledger, shown: Shown) -> None:
        self._ledger = ledger
        self._limits = shown
        self._start()

    def _start(self) -> None:
        self._spool = Spool()
        self._size = 0  # bytes that were given to it
        self._indexed: dict[bytes, _Indexed] = {}
        self._forgot = self._ledger.forgot

    def shown(self, content: bytes, but: frozenset[bytes] = frozenset()) -> Coverage:
        """The ranges of `content` that were printed, by any command but those."""
        self.take_in()
        return tuple(self._spool.seen(content, self._pieces(self._indexed.keys() - but)))

    def viewed(self, content: bytes, commands: Iterable[bytes]) -> bool:
        """Whether these commands printed a view of `content`."""
        self.take_in()
        pieces = self._pieces(commands)
        return bool(pieces) and self._spool.viewed(content, pieces)

    def take_in(self) -> None:
        """Indexes what was printed since the last time: when a command ends
        rather than when somebody waits for an answer."""
        if self._forgot != self._ledger.forgot:
            self._start()
        commands = self._ledger.commands.values()
        new = [c for c in commands if self._is_new(c)]
        size = sum(c.size for c in new)
        if self._size + size > 2 * KEPT:
            self._start()
            new, size = [], 0
            for command in sorted(commands, key=lambda c: c.time, reverse=True):
                if command.text and (size := size + command.size) <= KEPT:
                    new.append(command)
                else:
                    self._indexed[command.id] = _Indexed(len(command.text), command.ended)
            new.reverse()
        for command in new:
            self._index(command)

    def _is_new(self, command: Command) -> bool:
        known = self._indexed.get(command.id)
        if known is None:
            return bool(command.text)
        fell = command.failed and not known.ended  # less of it was shown
        return len(command.text) > known.reports or fell

    def _index(self, command: Command) -> None:
        known = self._indexed.get(command.id)
        since, pieces = 0, []
        if known and known.ended:  # a child of it prints on: that is apart
            since, pieces = known.reports, known.pieces
        for text in self._shown(command, since):
            self._size += len(text)
            number = self._spool.add(text)
            if number >= 0:
                pieces.append(number)
        self._indexed[command.id] = _Indexed(len(command.text), command.ended, pieces)

    def _shown(self, command: Command, since: int = 0) -> list[bytes]:
        """What of its output the harness passed on, in unbroken pieces. While it
        printed, more was told than the ends that are left of it."""
        printed = command.printed(since)
        if not printed or not command.attested:
            return [text for _, text in printed]
        start, stop = printed[0][0], max(at + len(text) for at, text in printed)
        marks = [start, *sorted(at for at in command.turns if start < at < stop), stop]
        kept = [part for turn in pairwise(marks) for part in self._ends(command, *turn)]
        return [
            text[max(start - at, 0) : stop - at]
            for at, text in printed
            for start, stop in kept
            if start < at + len(text) and stop > at
        ]

    def _ends(self, command: Command, start: int, stop: int) -> list[tuple[int, int]]:
        """What is passed on of the output `[start, stop)`."""
        limits, own = self._limits, command.limit
        if (own and own != limits.whole) or is_interactive(command.argv):
            limits = even(own or limits.whole)
        head, tail = limits.parts(stop - start, command.failed)
        if head + tail >= stop - start:
            return [(start, stop)]
        return [(start, start + head), (stop - tail, stop)]

    def _pieces(self, commands: Iterable[bytes]) -> list[int]:
        known = (self._indexed.get(ident) for ident in commands)
        return [number for one in known if one for number in one.pieces]

    def readers(self, keys: Iterable[Key]) -> set[bytes]:
        """The commands one of whose processes read one of these files."""
        images = self._ledger.images
        return {
            ident
            for key in keys
            for read in self._ledger.reads(key)
            if read.ranges and read.token in images
            for ident in printed_as(images[read.token].command)
        }

    def saw_other_version(self, keys: Iterable[Key], key: Key, stamp: Stamp) -> bool:
        """Whether a command read and printed what the file was before. Those
        bytes are gone: that it printed lines enough has to do."""
        images = self._ledger.images
        for other in keys:
            for read in self._ledger.reads(other):
                if read.token not in images or not read.ranges:
                    continue
                if other == key and self._ledger.same(key, read.stamp, stamp):
                    continue
                if self._printed_much(images[read.token].command, size_of(read.stamp)):
                    return True
        return False

    def _printed_much(self, ident: bytes, size: int) -> bool:
        printed = b"".join(piece for way in printed_as(ident) for piece in self._printed(way))
        if not printed or len(self._files_of(ident)) > FEW:
            return False
        return printed.count(b"\n") >= VIEW_LINES or len(printed) * VIEW_SHARE >= size

    def _files_of(self, ident: bytes) -> set[Key]:
        found: set[Key] = set()
        for image in self._ledger.images.values():
            if image.command == ident:
                found.update(self._ledger.keys_read(image))
        return found

    def _printed(self, ident: bytes) -> list[bytes]:
        command = self._ledger.commands.get(ident)
        return self._shown(command) if command else []


def is_interactive(argv: Iterable[bytes]) -> bool:
    """Whether the words start a shell that is told what to do as it goes."""
    words = [os.fsdecode(word) for word in argv]
    if not words:
        return False
    name = voice.program_name(voice.Program(0, "", tuple(words)))
    syntax = voice_lists.SHELLS.get(name)
    return syntax is not None and given(words, syntax).kind == "stdin"
