"""What was printed, indexed by line while it comes in.

A session prints much and replaces little: each line is hashed once, when its
piece arrives, and judging a file then costs what the file costs. A printed
line is known by its *slot*, a number; lines that follow each other in one
piece have slots that follow each other, and between two pieces lies a gap.
"""

from __future__ import annotations

from noclobber.attest.gutters import BOM, Reading, readings, uncoloured

SKIPPED = 2
"""Printed lines that are in no file and yet do not end a run of lines: the
numbers of `sed =`, the `-` line of a diff, a line that a box was wrapped in."""

HEAD = 16
"""Bytes by which a cut line is found; a shorter one counts only beside a line
that was printed whole."""

LONG = 127
"""Bytes from which a printed line may be a part of a very long one: a text
this long holds an aligned 64-byte block whatever its offset."""


class Index:
    """Printed lines by their text, by the text behind a gutter, and by head."""

    def __init__(self) -> None:
        self.texts: dict[int, bytes] = {}
        self.said: dict[int, list[Reading]] = {}
        self.where: dict[bytes, list[int]] = {}
        self.heads: dict[bytes, list[int]] = {}
        self.long: list[int] = []
        self.firsts: set[int] = set()
        self.cuts: set[int] = set()  # last lines without a newline
        self._next = 0

    def add(self, piece: bytes) -> None:
        """Takes in one contiguous piece of a command's output."""
        if not piece:
            return
        coloured = b"\x1b" in piece
        lines = uncoloured(piece).split(b"\n")
        is_cut = bool(lines[-1])
        if not is_cut:
            lines.pop()
        if not lines:
            return
        carried = b"\r" in piece
        if carried:
            lines = [line.rstrip(b"\r") for line in lines]
        base = self._next
        self._next += len(lines) + SKIPPED + 2
        self.firsts.add(base)
        if is_cut:
            self.cuts.add(base + len(lines) - 1)
        said = readings(lines)
        if coloured:
            _raw(piece, lines, said)
        if BOM in piece:
            _unmarked(lines, said)
        self._enter(base, lines, said)

    def _enter(self, base: int, lines: list[bytes], said: dict[int, list[Reading]]) -> None:
        where, heads = self.where, self.heads
        for slot, line in enumerate(lines, base):
            if line in where:
                where[line].append(slot)
            else:
                where[line] = [slot]
            if len(line) >= HEAD:
                heads.setdefault(line[:HEAD], []).append(slot)
                if len(line) >= LONG:
                    self.long.append(slot)
        self.texts.update(enumerate(lines, base))
        for at, found in said.items():
            slot = base + at
            self.said[slot] = found
            for text in {text for _, text in found}:
                if text == lines[at]:
                    continue
                where.setdefault(text, []).append(slot)
                if len(text) >= HEAD and text[:HEAD] != lines[at][:HEAD]:
                    heads.setdefault(text[:HEAD], []).append(slot)

    def spoken(self, slot: int) -> list[bytes]:
        """Everything that the printed line may say, itself first."""
        text = self.texts[slot]
        found = self.said.get(slot)
        return [text] if found is None else [text, *(t for _, t in found if t != text)]


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
