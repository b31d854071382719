"""What was printed, indexed by line while it comes in.

A session prints much and replaces little: each line is hashed once, when its
piece arrives, and judging a file then costs little more than the file does. A
printed line is known by its *slot*, a number; lines that follow each other in
one piece have slots that follow each other, and between two pieces lies a gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from noclobber.attest.gutters import BOM, Reading, readings, uncoloured

SKIPPED = 2
"""Printed lines that are in no file and yet do not end a run of lines: the
numbers of `sed =`, the `-` line of a diff, a line that a box was wrapped in."""

HEAD = 32
"""Bytes by which a cut line is found; a shorter one counts only beside a line
that was printed whole."""

_PROBE = 16  # bytes, at least, by which a piece is looked for

LONG = 127
"""Bytes from which a printed line may be a part of a very long one: a text
this long holds an aligned 64-byte block whatever its offset."""

OMITTED = re.compile(rb" ?[\[(<{]?(?:\.\.\.|\xe2\x80\xa6|(?:line )?truncated)[^\n]{0,80}\Z", re.I)
"""What a harness puts where it cut a line."""


@dataclass(frozen=True)
class Body:
    """A piece as one text, and the line in it that finds it in a file."""

    text: bytes
    probe: bytes
    offset: int


@dataclass
class Piece:
    """One contiguous piece of a command's output."""

    base: int
    lines: list[bytes]
    is_cut: bool
    """Whether its last line had no newline."""
    said: dict[int, list[Reading]]
    """What else a slot's line may say."""
    others: list[tuple[int, bytes]] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The slot of its last line."""
        return self.base + len(self.lines) - 1

    def text(self, slot: int) -> bytes | None:
        """The printed line, colours taken off."""
        at = slot - self.base
        return self.lines[at] if 0 <= at < len(self.lines) else None

    def bare(self, slot: int) -> bytes:
        """The printed line without its gutter, if it seems to have one."""
        found = self.said.get(slot)
        return self.lines[slot - self.base] if found is None else found[0][1]

    def spoken(self, slot: int) -> list[bytes]:
        """Everything that the printed line may say, itself first."""
        text = self.lines[slot - self.base]
        found = self.said.get(slot)
        return [text] if found is None else [text, *(t for _, t in found if t != text)]


class Index:
    """All pieces; `known` says how often each text may have been printed."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.known: dict[bytes, int] = {}
        self.heads: dict[bytes, list[tuple[Piece, int]]] = {}
        self.shortest = 1 << 30  # bytes of the shortest text in `heads`, or less
        self.long: list[tuple[Piece, int]] = []
        self._next = 0

    def add(self, text: bytes) -> None:
        """Takes in one contiguous piece of a command's output."""
        lines = uncoloured(text).split(b"\n")
        is_cut = bool(lines[-1])
        if not is_cut:
            lines.pop()
        if not lines:
            return
        if b"\r" in text:
            lines = [line.rstrip(b"\r") for line in lines]
        said = readings(lines)
        if b"\x1b" in text:
            _raw(text, lines, said)
        if BOM in text:
            _unmarked(lines, said)
        base = self._next
        self._next += len(lines) + SKIPPED + 2
        piece = Piece(base, lines, is_cut, {base + at: found for at, found in said.items()})
        self.pieces.append(piece)
        self._count(piece)
        self._note_heads(piece)
        piece.bodies = _bodies(piece)

    def _count(self, piece: Piece) -> None:
        known = self.known
        for line in piece.lines:
            known[line] = known.get(line, 0) + 1
        for slot, found in piece.said.items():
            line = piece.lines[slot - piece.base]
            # The longest first: the less was taken off, the more was compared.
            for text in sorted(dict.fromkeys(text for _, text in found), key=len, reverse=True):
                if text != line:
                    known[text] = known.get(text, 0) + 1
                    piece.others.append((slot, text))

    def _note_heads(self, piece: Piece) -> None:
        """Lines that look cut: the longest of their piece, very long, or marked."""
        widest = bare = max(map(len, piece.lines))
        if widest < HEAD:
            return
        if piece.said:
            bare = max(len(piece.bare(slot)) for slot in range(piece.base, piece.last + 1))
        for slot, line in enumerate(piece.lines, piece.base):
            size = len(line)
            if size < HEAD:
                continue
            if size >= LONG:
                self.long.append((piece, slot))
            elif size != widest and len(piece.bare(slot)) != bare:
                if not _is_marked(line):
                    continue
                self.shortest = HEAD  # what the mark stands for may be shorter than it
            for text in piece.spoken(slot):
                if len(text) >= HEAD:
                    self.shortest = min(self.shortest, len(text))
                    self.heads.setdefault(text[:HEAD], []).append((piece, slot))


def _is_marked(line: bytes) -> bool:
    return line[-1:] in (b".", b"]", b")", b">", b"}", b"\xa6") and bool(OMITTED.search(line))


def _bodies(piece: Piece) -> list[Body]:
    """The piece as text, and as text without its gutter where it has one."""
    made = [_body(piece.lines, piece.is_cut)]
    if len(piece.said) == len(piece.lines):
        stripped = [found[0][1] for found in piece.said.values()]
        made.append(_body(stripped, piece.is_cut))
    return [body for body in made if body is not None]


def _body(lines: list[bytes], is_cut: bool) -> Body | None:
    text = b"\n".join(lines) + (b"" if is_cut else b"\n")
    probe = max(lines, key=len)
    if len(probe) >= _PROBE:
        nth = lines.index(probe)
        return Body(text, probe, sum(map(len, lines[:nth])) + nth)
    offset = max(0, len(text) // 2 - _PROBE)  # short lines: some of them together
    probe = text[offset : offset + 2 * _PROBE]
    return Body(text, probe, offset) if len(probe) >= _PROBE else None


def _raw(piece: bytes, lines: list[bytes], said: dict[int, list[Reading]]) -> None:
    """The escapes may be the file's own."""
    raw = piece.split(b"\n")
    if len(raw) - (not raw[-1]) != len(lines):
        return
    for at, line in enumerate(lines):
        if b"\x1b" in raw[at]:
            text = raw[at].rstrip(b"\r")
            if text != line:
                said.setdefault(at, []).append((0, text))


def _unmarked(lines: list[bytes], said: dict[int, list[Reading]]) -> None:
    """A byte order mark is no part of the first line's text."""
    for at, line in enumerate(lines):
        found = said.get(at, [])
        more = [(n, t[3:]) for n, t in [*found, (0, line)] if t.startswith(BOM)]
        if more:
            said[at] = found + more
