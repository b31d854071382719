"""A file against what was printed, line by line (csrc/attest-align.c)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from noclobber import coverage
from noclobber.attest.spool import C, Index, Piece, ffi
from noclobber.coverage import Coverage, Range

BOM = b"\xef\xbb\xbf"
_SEARCHED = 1 << 22  # bytes of content gone through to find pieces as they are,
_PLACED = 4  # or as often as this


class Edge(NamedTuple):
    """A line of the file not printed whole beside a run of lines that were,
    and the printed line beside that run: after it (step 1) or before (-1)."""

    piece: Piece
    slot: int
    line: int
    step: int


class Placed(NamedTuple):
    """Pieces that stand in the file as they are, at one place only: their
    ranges, these pieces with their offsets, and the others."""

    ranges: Coverage
    pieces: list[tuple[Piece, int]]
    others: list[Piece]


def unbroken(content: bytes, index: Index, pieces: Sequence[Piece]) -> Placed:
    """Looks for the newest pieces as they are."""
    size = len(content)
    tried = max(_PLACED, _SEARCHED // max(size, 1))
    buffer = ffi.from_buffer("uint8_t[]", content)
    ranges: list[Range] = []
    placed: list[tuple[Piece, int]] = []
    others = list(pieces[:-tried])
    for piece in pieces[-tried:]:
        found = index.place(piece, buffer, size)
        if found is None:
            others.append(piece)
        else:
            ranges.append(_ends(content, found[0], found[1]))
            placed.append((piece, found[0]))
    return Placed(coverage.normal(ranges), placed, others)


def _ends(content: bytes, start: int, end: int) -> Range:
    """The range, with a byte order mark before it and a line's end behind it."""
    if start == len(BOM) and content.startswith(BOM):
        start = 0
    if end and content[end - 1] != 0x0A:
        for newline in (b"\n", b"\r\n"):
            if content.startswith(newline, end):
                end += len(newline)
    return start, end


class Alignment:
    """Which line of `content` each printed line of the pieces stands for.

    `seen` are bytes known before. Lines are numbered from 0. Raises MemoryError
    where there is none, or the file has 4 GiB.
    """

    def __init__(
        self, content: bytes, index: Index, pieces: Iterable[Piece], seen: Coverage
    ) -> None:
        self.content = content
        self.size = len(content)
        mask = bytearray(len(index.pieces))
        for piece in pieces:
            mask[piece.number] = 1
        self._mask = mask
        self._index = index
        self._buffer = ffi.from_buffer("uint8_t[]", content)
        known = ffi.new("struct nc_range[]", list(seen))
        self.native = ffi.gc(
            C.nc_judge(
                index.native,
                ffi.from_buffer("uint8_t[]", mask),
                self._buffer,
                self.size,
                known,
                len(seen),
            ),
            C.nc_judged_free,
            self.size,
        )
        if not self.native:
            raise MemoryError
        self.count: int = self.native.count
        self.has_run = bool(self.native.has_run)
        """Whether three lines running, with letters in them, were printed."""

    @property
    def ranges(self) -> Coverage:
        """The bytes of the lines that were printed."""
        return _pairs(self.native.ranges, self.native.range_count)

    @property
    def wide(self) -> Coverage:
        """The very long lines, without their newlines."""
        return _pairs(self.native.wide, self.native.wide_count)

    @property
    def headed(self) -> list[int]:
        """Offsets of lines of which a head may have been printed."""
        return [self.native.headed[n] for n in range(self.native.headed_count)]

    @property
    def edges(self) -> list[Edge]:
        """What stands beside runs, by slot."""
        pieces, edges = self._index.pieces, self.native.edges
        return [
            Edge(pieces[e.piece], e.slot, e.line, e.step)
            for e in (edges[n] for n in range(self.native.edge_count))
        ]

    def is_live(self, piece: Piece) -> bool:
        """Whether the piece is one of those that were aligned."""
        return bool(self._mask[piece.number])

    def is_used(self, slot: int) -> bool:
        """Whether the printed line stands for a line."""
        return bool(self.native.at[slot] >= 0)

    def is_owned(self, line: int) -> bool:
        """Whether the file's line was printed whole."""
        return bool(self.native.owned[line])

    def span(self, line: int) -> Range:
        """The bytes of a line that there is, its newline included."""
        starts = self.native.starts
        return starts[line], starts[line + 1]

    def end(self, start: int) -> int:
        """Offset behind the line that starts there, its newline included."""
        cut = self.content.find(b"\n", start)
        return self.size if cut < 0 else cut + 1


def _pairs(ranges: Any, count: int) -> Coverage:
    return tuple((ranges[n].start, ranges[n].end) for n in range(count))
