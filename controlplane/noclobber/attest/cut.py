"""Lines of which a part was printed: it vouches for just that part.

`head -c` ends within a line and `tail -c` begins within one, `cat a b` glues
b to an `a` without a last newline, a harness cuts lines at 2,000 characters,
and a minified file is one line. A printed byte is spent once here too, and a
line that was changed or masked between two lines that stand is no cut line.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from noclobber import coverage
from noclobber.attest.align import Alignment
from noclobber.attest.gutters import BOM
from noclobber.attest.scan import Lines
from noclobber.attest.spool import HEAD, LONG, OMITTED, Index, Piece
from noclobber.coverage import Coverage, Range

_CHANGED = 9  # printed lines within which a run that was changed goes on
_LOOSE = 16  # bytes of a part that may stand anywhere in a hole
BLOCK = 64  # bytes by which parts of very long lines are found
_TRIED = 64  # printed lines compared with one cut line, parts of one long line
_PROBES = 100_000  # blocks looked up for one file
_FRAGMENTS = 400  # ends of pieces that are fitted into holes: the newest
_HOLES = 64  # and the holes: the first
_SEARCHES = 16  # and how often then
_ONE_LINE = 1 << 16  # bytes of a file of one line that is looked for in other lines
_GLUED = 4  # bytes of such a line that stand for it anywhere in a piece
_LARGE = 1 << 21  # bytes of very long lines in which a block is searched, not looked up


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
        self, lines: Lines, index: Index, pieces: list[Piece], found: Alignment, whole: Coverage
    ) -> None:
        self._lines = lines
        self._index = index
        self._pieces = pieces
        self._found = found
        self._ranges: list[Range] = list(whole)
        self._whole = whole
        self._live = {piece.base for piece in pieces}
        self._spent: dict[int, int] = {}  # bytes of a printed line that are used

    def collect(self) -> Coverage:
        """Everything seen: `whole` and the parts."""
        self._beside_runs()
        self._heads()
        self._only_line()
        if self._lines.wide:
            self._wide()
        self._fit()
        return coverage.normal(self._ranges)

    def _room(self, piece: Piece, slot: int) -> int:
        """Bytes of the printed line that vouch for nothing yet."""
        text = piece.text(slot)
        if not text or slot in self._found.at or piece.base not in self._live:
            return 0
        return max(0, len(text) - self._spent.get(slot, 0))

    def _give(self, slot: int, start: int, end: int, paid: int) -> None:
        self._ranges.append((start, end))
        self._spent[slot] = self._spent.get(slot, 0) + paid

    def _body(self, line: int) -> tuple[int, bytes, int] | None:
        """A line not seen whole: its start, its text, the end of its newline."""
        if line in self._found.owned or not 0 <= line < self._lines.count:
            return None
        start, end = self._lines.span(line)
        return start, self._lines.content[start:end].rstrip(b"\r\n"), end

    def _beside_runs(self) -> None:
        """Beside anchored runs, and at the ends of pieces beside any line."""
        at, firm, pieces = self._found.at, self._found.firm, self._found.pieces
        bases = [piece.base for piece in pieces]
        for slot in sorted(s for s in at if s + 1 not in at or s - 1 not in at):
            line, piece = at[slot], pieces[bisect_right(bases, slot) - 1]
            behind, before = slot + 1, slot - 1
            is_near = slot in firm or (piece.is_cut and behind == piece.last)
            if is_near and behind <= piece.last and not self._resumes(slot, line, 1):
                self._behind(piece, behind, line + 1)
            is_near = slot in firm or before == piece.base
            if is_near and before >= piece.base and not self._resumes(slot, line, -1):
                self._before(piece, before, line - 1)

    def _resumes(self, slot: int, line: int, step: int) -> bool:
        """Whether the run goes on soon after: then lines were changed, not cut."""
        at = self._found.at
        next_ = (at.get(slot + step * n) for n in range(2, _CHANGED))
        return any(n is not None and 1 < (n - line) * step < 2 * _CHANGED for n in next_)

    def _behind(self, piece: Piece, slot: int, line: int) -> None:
        """The line after a run may be the head of the file's next line."""
        body = self._body(line)
        if body is None or not self._room(piece, slot):
            return
        start, text, end = body
        size = max(common(spoken, text) for spoken in piece.spoken(slot))
        size = min(size, self._room(piece, slot))
        if size == len(text) and piece.is_cut and slot == piece.last:
            self._give(slot, start, end, size)
        elif text[:size].strip():  # indentation alone is anybody's
            self._give(slot, start, start + size, size)

    def _before(self, piece: Piece, slot: int, line: int) -> None:
        """The line before a run may be the tail of the line before in the file."""
        body = self._body(line)
        printed = piece.text(slot)
        if body is None or printed is None:
            return
        start, text, end = body
        if slot in self._found.at:
            return
        size = min(common_end(printed, text), self._room(piece, slot))
        if size or (slot == piece.base and not printed):
            self._give(slot, start + len(text) - size, end, size)

    def _heads(self) -> None:
        """`cut -c1-80`, and a harness that cuts long lines."""
        mark = len(BOM) if self._lines.content.startswith(BOM) else 0
        for start in self._lines.headed:
            if coverage.covers(self._whole, start, start + mark + 1):
                continue
            start += mark if start == 0 else 0
            text = self._lines.content[start : self._lines.end(start)].rstrip(b"\r\n")
            for piece, slot in self._index.heads.get(text[:HEAD], [])[:_TRIED]:
                if self._spent.get(slot) or not self._room(piece, slot):
                    continue
                size = max(self._head(spoken, text) for spoken in piece.spoken(slot))
                if size:
                    self._give(slot, start, start + size, size)
                    break

    @staticmethod
    def _head(printed: bytes, text: bytes) -> int:
        size = common(printed, text)
        if size < HEAD or (size < len(printed) and not OMITTED.match(printed, size)):
            return 0
        return size

    def _only_line(self) -> None:
        """A one-line file glued to what was printed before or after it."""
        if self._lines.count != 1 or self._lines.size > _ONE_LINE:
            return
        body = self._body(0)
        if body is None or not body[1]:
            return
        _, text, end = body
        for piece in self._pieces:
            slots = range(piece.base, (piece.base if len(text) < _GLUED else piece.last) + 1)
            for slot in slots:
                printed = piece.lines[slot - piece.base]
                is_glued = printed.startswith(text) or printed.endswith(text)
                if is_glued and self._room(piece, slot) >= len(text):
                    self._give(slot, 0, end, len(text))
                    return

    def _wide(self) -> None:
        """Parts of very long lines, found by blocks and verified byte for byte."""
        content = self._lines.content
        long = [(p, s) for p, s in self._index.long if self._room(p, s) >= LONG]
        if not long:
            return
        blocks: dict[bytes, list[int]] | None = None
        if sum(end - start for start, end in self._lines.wide) <= _LARGE:
            blocks = {}
            for start, end in self._lines.wide:
                for at in range(start, end - BLOCK + 1, BLOCK):
                    blocks.setdefault(content[at : at + BLOCK], []).append(at)
        probes = _PROBES if blocks is not None else _SEARCHES
        for piece, slot in long:
            for text in piece.spoken(slot):
                if self._room(piece, slot) >= LONG and probes > 0:
                    probes -= self._part(slot, text, blocks, probes)

    def _part(
        self, slot: int, text: bytes, blocks: dict[bytes, list[int]] | None, limit: int
    ) -> int:
        """Number of blocks looked up to find the parts of one printed line."""
        content = self._lines.content
        at = probes = done = parts = 0
        while at + BLOCK <= len(text) and probes < limit and parts < _TRIED:
            probes += 1
            start = self._place(text[at : at + BLOCK], blocks, at == done)
            if start < 0:
                at += 1 if blocks is not None else max(BLOCK, (len(text) - BLOCK) // 2)
                continue
            line, end = self._wide_at(start)
            back = common_end(text[done:at], content[max(line, start - at + done) : start])
            size = common(text[at:], content[start:end])
            stop = self._lines.end(end) if start + size == end else start + size
            self._give(slot, start - back, stop, back + size)
            parts += 1
            at = done = at + size
        return probes

    def _place(self, block: bytes, blocks: dict[bytes, list[int]] | None, fresh: bool) -> int:
        """Offset in a very long line: where a hole begins, or anywhere; -1: nowhere."""
        content = self._lines.content
        seen = coverage.normal(self._ranges)
        if fresh:
            for start, end in coverage.gaps(seen, 0, self._lines.size)[:_HOLES]:
                if end - start < BLOCK or self._wide_at(start)[1] < start + BLOCK:
                    continue
                if content.startswith(block, start):
                    return start
        if blocks is None:
            start = content.find(block)
            return start if start >= 0 and self._wide_at(start)[1] else -1
        places = blocks.get(block, [])[:_TRIED]
        for place in places:
            if not coverage.covers(seen, place, place + BLOCK):
                return place
        return places[0] if places else -1

    def _wide_at(self, start: int) -> Range:
        """The very long line around an offset; empty where there is none."""
        nth = bisect_right(self._lines.wide, (start, 1 << 62)) - 1
        found = self._lines.wide[nth] if nth >= 0 else (0, 0)
        return found if start < found[1] else (0, 0)

    def _fit(self) -> None:
        """Fits the ends of pieces into the holes that are left, longest first."""
        holes = list(coverage.gaps(coverage.normal(self._ranges), 0, self._lines.size))[:_HOLES]
        left = [end for p in self._pieces for end in _ends(p) if self._is_free(end)]
        left = sorted(left[-_FRAGMENTS:], key=lambda end: -len(end.text))
        while left:
            rest = [end for end in left if self._is_free(end) and not self._fill(holes, end)]
            if len(rest) == len(left):
                return
            left = rest

    def _is_free(self, end: _End) -> bool:
        return not any(s in self._spent or s in self._found.at for s in end.slots)

    def _fill(self, holes: list[Range], end: _End) -> bool:
        """Whether the end of a piece fits into one of the holes, which shrinks."""
        for nth, (start, behind) in enumerate(holes):
            at = end.fits(self._lines.content, start, behind)
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
        if self.is_head and self.is_tail and len(self.text) >= _LOOSE:
            return content.find(self.text, start, end)
        return -1


def _ends(piece: Piece) -> list[_End]:
    first, last = piece.lines[0], piece.lines[-1]
    made = []
    if len(piece.lines) <= 2:  # no line of it need be whole
        text = b"\n".join(piece.lines) + (b"" if piece.is_cut else b"\n")
        made.append(_End(text, True, True, tuple(range(piece.base, piece.last + 1))))
    made.append(_End(first + b"\n", False, True, (piece.base,)))
    if piece.is_cut:
        made.append(_End(last, True, False, (piece.last,)))
    return made if len(piece.lines) > 1 or not piece.is_cut else made[:1]
