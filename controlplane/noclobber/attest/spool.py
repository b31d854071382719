"""What was printed, indexed by line while it comes in (csrc/attest-index.c).

A session prints much and replaces little: each line is hashed once, when its
piece arrives, and judging a file then costs little more than the file does. A
printed line is known by its *slot*, a number; lines that follow each other in
one piece have slots that follow each other, and between two pieces lies a gap.
"""

from __future__ import annotations

import re
from typing import Any

from noclobber import _native
from noclobber.attest.gutters import uncoloured

ffi: Any = _native.ffi
C: Any = _native.lib

HEAD: int = C.NC_HEAD
"""Bytes by which a cut line is found; a shorter one counts only beside a line
that was printed whole."""

LONG: int = C.NC_LONG
"""Bytes from which a printed line may be a part of a very long one."""

CUT_MOST = 8192
"""Lines of one piece that are taken for cut ones: the first."""

OMITTED = re.compile(rb" ?[\[(<{]?(?:\.\.\.|\xe2\x80\xa6|(?:line )?truncated)[^\n]{0,80}\Z", re.I)
"""What a harness puts where it cut a line."""


class Piece:
    """One contiguous piece of a command's output."""

    __slots__ = ("_index", "count", "first", "is_cut", "number")

    def __init__(self, index: Any, number: int) -> None:
        known = index.pieces[number]
        self._index = index
        self.number = number
        self.first: int = known.first
        self.count: int = known.count
        self.is_cut = bool(known.is_cut)
        """Whether its last line had no newline."""

    @property
    def last(self) -> int:
        """The slot of its last line."""
        return self.first + self.count - 1

    def size(self, slot: int) -> int:
        """Bytes of the printed line, colours taken off."""
        size: int = self._index.lines[slot].size
        return size

    def text(self, slot: int) -> bytes:
        """The printed line, colours taken off."""
        line = self._index.lines[slot]
        return self._bytes(line.start, line.size)

    def spoken(self, slot: int) -> list[bytes]:
        """Everything that the printed line may say, itself first."""
        lines, readings = self._index.lines, self._index.readings
        found = [self.text(slot)]
        for nth in range(lines[slot].readings, lines[slot + 1].readings):
            text = self._bytes(readings[nth].start, readings[nth].size)
            if text not in found:
                found.append(text)
        return found

    def _bytes(self, start: int, size: int) -> bytes:
        made: bytes = ffi.buffer(self._index.pool + start, size)[:]
        return made


class Index:
    """All pieces. Raises MemoryError where there is none to begin with."""

    def __init__(self) -> None:
        self.native = ffi.gc(C.nc_index_new(), C.nc_index_free)
        if not self.native:
            raise MemoryError
        self.pieces: list[Piece] = []
        self.heads: dict[bytes, list[tuple[Piece, int]]] = {}
        self.long: list[tuple[Piece, int]] = []
        self._cut = ffi.new("uint32_t[]", CUT_MOST)

    def add(self, text: bytes) -> int:
        """Takes in one contiguous piece of a command's output. Its number; -1
        where there is nothing in it, or no room for it."""
        plain = uncoloured(text)
        raw = (ffi.NULL, 0) if plain is text else (text, len(text))
        number: int = C.nc_index_add(self.native, plain, len(plain), *raw)
        if number >= 0:
            piece = Piece(self.native, number)
            self.pieces.append(piece)
            self._note_heads(piece)
        return number

    def place(self, piece: Piece, content: Any, size: int) -> tuple[int, int] | None:
        """Where the piece stands in the file as it is, at one place only."""
        which = ffi.new("uint32_t *")
        start: int = C.nc_index_place(self.native, piece.number, content, size, which)
        if start < 0:
            return None
        body = self.native.pieces[piece.number].bodies[which[0]]
        return start, start + body.size

    def glued(self, first: int, behind: int, text: bytes, is_end: bool) -> int:
        """The first of these slots whose line begins or ends with the text
        (`is_end`: ends with it); -1."""
        slot: int = C.nc_index_glued(self.native, first, behind, text, len(text), is_end)
        return slot

    def _note_heads(self, piece: Piece) -> None:
        """Lines that look cut: the longest of their piece, very long, or marked."""
        count = C.nc_index_cut(self.native, piece.number, self._cut, CUT_MOST)
        for slot in self._cut[0:count]:
            if piece.size(slot) >= LONG:
                self.long.append((piece, slot))
            for text in piece.spoken(slot):
                if len(text) >= HEAD:
                    self.heads.setdefault(text[:HEAD], []).append((piece, slot))
