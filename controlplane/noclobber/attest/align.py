"""Which line of the file each printed line stands for.

Every printed line stands for at most one line of the file. Where the file has
the same line many times, its neighbours decide: lines that the file has once,
and lines printed with their number, are anchors; from them runs extend both
ways for as long as printed and present lines stay equal. A line of one run is
that line of the file, however often it was printed; one that two runs claim,
or none, counts as often as it was printed.
"""

from __future__ import annotations

from array import array
from itertools import compress

from noclobber import coverage
from noclobber.attest.gutters import BOM
from noclobber.attest.scan import Lines
from noclobber.attest.spool import SKIPPED, Index, Piece
from noclobber.coverage import Coverage, Range

_STRETCHES = 200  # unanchored stretches looked for in one file: bounds the work
_CODED = 1 << 22  # bytes of codes gone through for them
_SEARCHED = 1 << 25  # bytes of content gone through to find pieces as they are


def unbroken(content: bytes, index: Index) -> tuple[Coverage, list[tuple[Piece, int]], list[Piece]]:
    """Pieces that stand in the file as they are, at one place only.

    Returns their byte ranges, these pieces with their offsets, and the others.
    """
    if len(content) * len(index.pieces) > _SEARCHED:
        return coverage.NOTHING, [], index.pieces
    ranges: list[Range] = []
    placed: list[tuple[Piece, int]] = []
    others: list[Piece] = []
    for piece in index.pieces:
        for body in piece.bodies:
            at = content.find(body.probe)
            start = at - body.offset
            if at < 0 or start < 0 or content.find(body.probe, at + 1) >= 0:
                continue
            if content.startswith(body.text, start):
                ranges.append(_ends(content, start, start + len(body.text)))
                placed.append((piece, start))
                break
        else:
            others.append(piece)
    return coverage.normal(ranges), placed, others


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
    """`at` says for slots which line they stand for; `owned` are all such lines.

    `seen` are bytes known before, and `pieces` what is still to be aligned.
    """

    def __init__(self, lines: Lines, pieces: list[Piece], seen: Coverage) -> None:
        self.at: dict[int, int] = {}
        self.owned: set[int] = set()
        self.firm: set[int] = set()  # slots of anchored runs
        self.pieces: list[Piece] = []  # those with a line of the file
        self._lines = lines
        self._first: dict[int, bytes] = {}
        self._more: dict[int, list[bytes]] = {}
        for start, end in seen:
            self._own(start, end)
        for piece in pieces:
            self._enter(piece)
        self._slots = sorted(self._first)
        anchors = self._anchors()
        before = self._extend(anchors, 1)
        behind = self._extend(anchors, -1)
        self._assign(anchors, before, behind)

    def _own(self, start: int, end: int) -> None:
        """Lines that lie in a range of bytes as a whole."""
        lines = self._lines
        first = lines.number(start)
        if lines.span(first)[0] < start:
            first += 1
        behind = lines.count if end >= lines.size else lines.number(end)
        self.owned.update(range(first, behind))

    def _enter(self, piece: Piece) -> None:
        """Notes which of the piece's lines the file has, in which reading."""
        spots = self._lines.spots
        hits = list(
            compress(enumerate(piece.lines, piece.base), map(spots.__contains__, piece.lines))
        )
        self._first.update(hits)
        others = [(slot, text) for slot, text in piece.others if text in spots]
        for slot, text in others:
            if self._first.setdefault(slot, text) is not text:
                self._more.setdefault(slot, []).append(text)
        if hits or others:
            self.pieces.append(piece)

    def _keys_of(self, slot: int) -> list[bytes]:
        return [self._first[slot], *self._more.get(slot, ())]

    def _says(self, slot: int, line: int) -> bool:
        key = self._lines.key(line)
        return self._first[slot] == key or (slot in self._more and key in self._more[slot])

    def _anchors(self) -> dict[int, int]:
        spots = self._lines.spots
        found = {s: spots[key][0] for s, key in self._first.items() if len(spots[key]) == 1}
        for piece in self.pieces:
            if piece.said:
                self._number(piece, found)
        return found

    def _number(self, piece: Piece, found: dict[int, int]) -> None:
        """Adds lines printed with their numbers, where the numbers are the file's.

        Those of `tail f | cat -n` are not: the lines that the file has once
        show it, or else the majority.
        """
        agreed: dict[int, int] = {}
        votes = 0
        for slot, said in piece.said.items():
            if slot not in self._first:
                continue
            keys = self._keys_of(slot)
            spoken = [(n - 1, text) for n, text in said if n and text in keys]
            if not spoken:
                continue
            line = next((n for n, text in spoken if self._lines.key(n) == text), -1)
            weight = 1000 if slot in found else 1
            votes += weight if line >= 0 else -weight
            if line >= 0:
                agreed[slot] = line
        if votes >= 0:
            found.update(agreed)

    def _extend(self, anchors: dict[int, int], step: int) -> dict[int, int]:
        """Follows each run away from its anchors, down (1) or up (-1)."""
        found: dict[int, int] = {}
        last, expected = -1, 0
        for slot in self._slots if step > 0 else reversed(self._slots):
            line = anchors.get(slot, -1)
            if line < 0:
                near = last >= 0 and abs(slot - last) <= 1 + SKIPPED
                if not near or not self._says(slot, expected):
                    last = -1
                    continue
                line = expected
            found[slot] = line
            last, expected = slot, line + step
        return found

    def _take(self, slot: int, line: int) -> bool:
        """Whether the line was still free; it is the slot's now."""
        if line in self.owned:
            return False
        self.owned.add(line)
        self.at[slot] = line
        return True

    def _assign(
        self, anchors: dict[int, int], before: dict[int, int], behind: dict[int, int]
    ) -> None:
        """Certain places first, then likely ones, then any.

        The first and the last line of a piece may be parts of longer lines
        that happen to equal a whole one, so others go before them.
        """
        ends = {p.last: p.lines[-1] for p in self.pieces if p.is_cut}
        begins = {p.base: p.lines[0] for p in self.pieces}
        edges = begins.keys() | ends.keys()
        likely, late = [], []
        for slot in self._slots:
            line = before.get(slot, behind.get(slot))
            if slot in ends and self._is_head(slot, ends[slot], before):
                continue
            if slot in begins and self._is_tail(slot, begins[slot], behind):
                continue
            if slot in edges and slot in anchors:
                late.append(slot)
            elif line is not None and line == behind.get(slot, line):
                self.at[slot] = line
            else:
                likely.append(slot)
        self.owned.update(self.at.values())
        self.firm.update(self.at)
        for slot in late:
            if self._take(slot, anchors[slot]):
                self.firm.add(slot)
        loose = [s for s in likely if not self._settle(s, before.get(s), behind.get(s))]
        self._stretch(loose)
        self._leftover([s for s in loose if s not in self.at])

    def _is_head(self, slot: int, text: bytes, before: dict[int, int]) -> bool:
        """Whether a line without a newline is the head of the run's next line."""
        if slot - 1 not in before:
            return False
        key = self._lines.key(before[slot - 1] + 1)
        return key is not None and len(key) > len(text) and key.startswith(text)

    def _is_tail(self, slot: int, text: bytes, behind: dict[int, int]) -> bool:
        """Whether a piece's first line is the tail of the line before the run."""
        if slot + 1 not in behind or not text:
            return False
        key = self._lines.key(behind[slot + 1] - 1)
        return key is not None and len(key) > len(text) and key.endswith(text)

    def _settle(self, slot: int, *lines: int | None) -> bool:
        return any(line is not None and self._take(slot, line) for line in lines)

    def _stretch(self, loose: list[int]) -> None:
        """Puts runs without an anchor where the file has them and no one was yet."""
        if len(loose) < 2:
            return
        codes = self._codes(loose)
        numbers = codes.numbers
        tried = nth = 0
        while nth < len(loose) and tried < min(_STRETCHES, codes.tries):
            end = nth + 1
            while end < len(loose) and loose[end] == loose[end - 1] + 1:
                end += 1
            if end - nth > 1:
                tried += 1
                line = codes.find([numbers[self._first[s]] for s in loose[nth:end]])
                if line >= 0:
                    for place, slot in enumerate(loose[nth:end], line):
                        self._take(slot, place)
            nth = end

    def _codes(self, loose: list[int]) -> _Codes:
        """The file's lines that are free and that a loose slot may stand for."""
        keys = dict.fromkeys(key for slot in loose for key in self._keys_of(slot))
        numbers = {key: n for n, key in enumerate(keys, 1)}
        codes = _Codes(numbers, self._lines.count)
        for key, number in numbers.items():
            for line in self._lines.spots[key]:
                if line not in self.owned:
                    codes.hay[line] = number
        return codes

    def _leftover(self, loose: list[int]) -> None:
        """Each further printed line stands for any one line that equals it."""
        free: dict[bytes, list[int]] = {}
        for slot in sorted(loose, key=self._more.__contains__):
            for key in self._keys_of(slot):
                if key not in free:
                    spots = self._lines.spots[key]
                    free[key] = [line for line in reversed(spots) if line not in self.owned]
                if free[key]:
                    self._take(slot, free[key].pop())
                    break


class _Codes:
    """A file's lines as one number each, so that runs are found as substrings."""

    def __init__(self, numbers: dict[bytes, int], count: int) -> None:
        self.numbers = numbers
        self.hay = array("B" if len(numbers) < 256 else "I", [0]) * count
        self.tries = max(8, _CODED // max(1, count * self.hay.itemsize))

    def find(self, run: list[int]) -> int:
        """Number of the line where the run begins, taken out; -1: nowhere."""
        needle, hay = array(self.hay.typecode, run).tobytes(), self.hay.tobytes()
        at = hay.find(needle)
        while at >= 0 and at % self.hay.itemsize:
            at = hay.find(needle, at + 1)
        if at < 0:
            return -1
        line = at // self.hay.itemsize
        self.hay[line : line + len(run)] = array(self.hay.typecode, [0]) * len(run)
        return line
