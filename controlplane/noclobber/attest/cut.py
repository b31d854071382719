"""Lines of which a part was printed: it vouches for just that part.

`head -c` ends within a line and `tail -c` begins within one, `cat a b` glues
b to an `a` without a last newline, a harness cuts lines at 2,000 characters,
and a minified file is one line. A printed byte is spent once here too, and a
line that was changed or masked between two lines that stand is no cut line.
"""

from __future__ import annotations

from dataclasses import dataclass

from noclobber import coverage
from noclobber.attest.align import BOM, Alignment, Edge
from noclobber.attest.spool import HEAD, LONG, OMITTED, C, Index, Piece, ffi
from noclobber.coverage import Coverage, Range

_LOOSE = 16  # bytes of a part that may stand anywhere in a hole
_TRIED = 64  # printed lines compared with one cut line, parts of one long line
_COMPARED = 20_000  # and with all cut lines of one file
_FRAGMENTS = 400  # ends of pieces that are fitted into holes: the newest
_HOLES = 64  # and the holes: the first
_FITTED = 1 << 25  # bytes compared and gone through for that
_COMPARING = 500  # bytes that could be gone through while one end is held against a hole
_ONE_LINE = 1 << 16  # bytes of a file of one line that is looked for in other lines
_GLUED = 4  # bytes of such a line that stand for it anywhere in a piece
_SOUGHT = 1 << 23  # bytes of long printed lines that are gone through: the newest


def common(one: bytes, other: bytes) -> int:
    """Length of what both begin with."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low + 1 < high:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_end(one: bytes, other: bytes) -> int:
    """Length of what both end with."""
    return common(one[::-1], other[::-1])


class Parts:
    """Collects what was printed of lines that were not printed whole."""

    def __init__(
        self, index: Index, pieces: list[Piece], found: Alignment, whole: Coverage
    ) -> None:
        self._index = index
        self._pieces = pieces
        self._found = found
        self._content = found.content
        self._ranges: list[Range] = list(whole)
        self._whole = whole
        self._spent: dict[int, int] = {}  # bytes of a printed line that are used
        self._effort = _FITTED

    def collect(self) -> Coverage:
        """Everything seen: `whole` and the parts."""
        for edge in self._found.edges:
            if edge.step > 0:
                self._behind(edge)
            else:
                self._before(edge)
        self._heads()
        self._only_line()
        self._wide()
        self._fit()
        return coverage.normal(self._ranges)

    def _room(self, piece: Piece, slot: int) -> int:
        """Bytes of the printed line that vouch for nothing yet."""
        if self._found.is_used(slot) or not self._found.is_live(piece):
            return 0
        return max(0, piece.size(slot) - self._spent.get(slot, 0))

    def _give(self, slot: int, start: int, end: int, paid: int) -> None:
        self._ranges.append((start, end))
        self._spent[slot] = self._spent.get(slot, 0) + paid

    def _body(self, line: int) -> tuple[int, bytes, int]:
        """A line's start, its text, the end of its newline."""
        start, end = self._found.span(line)
        return start, self._content[start:end].rstrip(b"\r\n"), end

    def _behind(self, edge: Edge) -> None:
        """The line after a run may be the head of the file's next line."""
        piece, slot = edge.piece, edge.slot
        room = self._room(piece, slot)
        if not room:
            return
        start, text, end = self._body(edge.line)
        size = min(max(common(spoken, text) for spoken in piece.spoken(slot)), room)
        if size == len(text) and piece.is_cut and slot == piece.last:
            self._give(slot, start, end, size)
        elif text[:size].strip():  # indentation alone is anybody's
            self._give(slot, start, start + size, size)

    def _before(self, edge: Edge) -> None:
        """The line before a run may be the tail of the line before in the file."""
        piece, slot = edge.piece, edge.slot
        start, text, end = self._body(edge.line)
        printed = piece.text(slot)
        size = min(common_end(printed, text), self._room(piece, slot))
        if size or (slot == piece.first and not printed):
            self._give(slot, start + len(text) - size, end, size)

    def _heads(self) -> None:
        """`cut -c1-80`, and a harness that cuts long lines."""
        mark = len(BOM) if self._content.startswith(BOM) else 0
        waiting: dict[bytes, list[tuple[Piece, int]]] = {}
        left = _COMPARED
        for start in self._found.headed:
            if left <= 0:
                return
            if coverage.covers(self._whole, start, start + mark + 1):
                continue
            start += mark if start == 0 else 0
            text = self._content[start : self._found.end(start)].rstrip(b"\r\n")
            head = text[:HEAD]
            if head not in waiting:
                known = self._index.heads.get(head, [])
                left -= len(known)
                waiting[head] = [(p, s) for p, s in known if self._is_whole(p, s)]
            for nth, (piece, slot) in enumerate(waiting[head][:_TRIED]):
                left -= 1
                size = max(self._head(spoken, text) for spoken in piece.spoken(slot))
                if size:
                    self._give(slot, start, start + size, size)
                    del waiting[head][nth]
                    break

    def _is_whole(self, piece: Piece, slot: int) -> bool:
        return slot not in self._spent and self._room(piece, slot) > 0

    @staticmethod
    def _head(printed: bytes, text: bytes) -> int:
        size = common(printed, text)
        if size < HEAD or (size < len(printed) and not OMITTED.match(printed, size)):
            return 0
        return size

    def _only_line(self) -> None:
        """A one-line file glued to what was printed before or after it."""
        if self._found.count != 1 or self._found.size > _ONE_LINE or self._found.is_owned(0):
            return
        start, text, end = self._body(0)
        if not text.strip():
            return
        is_short = len(text) < _GLUED
        is_end = is_short and start + len(text) < end  # nothing follows on its line
        for piece in self._pieces:
            behind = piece.first + 1 if is_short else piece.last + 1
            slot = self._index.glued(piece.first, behind, text, is_end)
            while slot >= 0:
                if self._room(piece, slot) >= len(text):
                    self._give(slot, 0, end, len(text))
                    return
                slot = self._index.glued(slot + 1, behind, text, is_end)

    def _wide(self) -> None:
        """Parts of very long lines, found by blocks (csrc/attest-blocks.c)."""
        if not self._found.native.wide_count:
            return
        sought = _SOUGHT
        long: list[tuple[Piece, int]] = []
        for piece, slot in reversed(self._index.long):
            if self._room(piece, slot) >= LONG:
                sought -= piece.size(slot)
                if sought < 0:
                    break
                long.append((piece, slot))
        if not long:
            return
        seen = coverage.normal(self._ranges)
        known = ffi.new("struct nc_range[]", list(seen))
        blocks = ffi.gc(C.nc_blocks_new(self._found.native, known, len(seen)), C.nc_blocks_free)
        parts = ffi.new("struct nc_part[]", _TRIED)
        for piece, slot in reversed(long) if blocks else ():
            for text in piece.spoken(slot):
                if self._room(piece, slot) >= LONG:
                    count = C.nc_blocks_find(blocks, text, len(text), parts, _TRIED)
                    for part in parts[0:count]:
                        self._give(slot, part.start, part.end, part.paid)

    def _fit(self) -> None:
        """Fits the ends of pieces into the holes that are left, longest first."""
        holes = list(coverage.gaps(coverage.normal(self._ranges), 0, self._found.size))[:_HOLES]
        newest: list[_End] = []
        for piece in reversed(self._pieces):
            if not holes or len(newest) >= _FRAGMENTS:
                break
            newest += [end for end in _ends(piece) if self._is_free(end)]
        left = sorted(newest, key=lambda end: -len(end.text))
        while left and self._effort > 0:
            rest = [end for end in left if self._is_free(end) and not self._fill(holes, end)]
            if len(rest) == len(left):
                return
            left = rest

    def _is_free(self, end: _End) -> bool:
        if not end.text.strip(b" \t"):  # indentation alone is anybody's
            return False
        return not any(s in self._spent or self._found.is_used(s) for s in end.slots)

    def _fill(self, holes: list[Range], end: _End) -> bool:
        """Whether the end of a piece fits into one of the holes, which shrinks."""
        for nth, (start, behind) in enumerate(holes):
            self._effort -= behind - start if end.is_loose else _COMPARING
            if self._effort < 0:
                break
            at = end.fits(self._content, start, behind)
            if at < 0:
                continue
            for slot in end.slots:
                self._give(slot, at, at + len(end.text), len(end.text))
            parts = (start, at), (at + len(end.text), behind)
            holes[nth : nth + 1] = [hole for hole in parts if hole[0] < hole[1]]
            return True
        return False


@dataclass(frozen=True)
class _End:
    """What may be a part of a line or two: an end of a piece, or a small piece."""

    text: bytes
    is_head: bool
    is_tail: bool
    slots: tuple[int, ...]

    @property
    def is_loose(self) -> bool:
        """Whether it may stand anywhere in a hole."""
        return self.is_head and self.is_tail and len(self.text) >= _LOOSE

    def fits(self, content: bytes, start: int, end: int) -> int:
        """Where in a hole it stands; -1: nowhere.

        The head of a line begins a hole, the tail of one ends it, and a piece
        may do either or, if it is long enough, neither.
        """
        if len(self.text) > end - start:
            return -1
        if self.is_head and content.startswith(self.text, start):
            return start
        if self.is_tail and content.endswith(self.text, start, end):
            return end - len(self.text)
        if self.is_loose:
            return content.find(self.text, start, end)
        return -1


def _ends(piece: Piece) -> list[_End]:
    first, last = piece.text(piece.first), piece.text(piece.last)
    made = []
    if piece.count <= 2:  # no line of it need be whole
        slots = tuple(range(piece.first, piece.last + 1))
        text = b"\n".join(map(piece.text, slots)) + (b"" if piece.is_cut else b"\n")
        made.append(_End(text, True, True, slots))
    made.append(_End(first + b"\n", False, True, (piece.first,)))
    if piece.is_cut:
        made.append(_End(last, True, False, (piece.last,)))
    return made if piece.count > 1 or not piece.is_cut else made[:1]
