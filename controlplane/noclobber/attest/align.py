"""Which line of the file each printed line stands for.

Every printed line stands for at most one line of the file. Where the file has
the same line many times, its neighbours decide: lines that the file has once,
and lines printed with their number, are anchors; from them runs extend both
ways for as long as printed and present lines stay equal. What lies between
two anchors of one run can only be that part of the file, however often it was
printed. All other lines count as often as they were printed.
"""

from __future__ import annotations

from array import array

from noclobber.attest.scan import Lines
from noclobber.attest.spool import SKIPPED, Index

_STRETCHES = 200  # unanchored stretches looked for in one file: bounds the work


class Alignment:
    """`at` says for slots which line they stand for, `owner` the reverse.

    Slots that repeat what another slot has vouched for are in `at` alone.
    """

    def __init__(self, lines: Lines, index: Index) -> None:
        self.at: dict[int, int] = {}
        self.owner: dict[int, int] = {}
        self._lines = lines
        self._index = index
        self._first: dict[int, bytes] = {}
        self._more: dict[int, list[bytes]] = {}
        for key in lines.spots:
            for slot in index.where[key]:
                if self._first.setdefault(slot, key) is not key:
                    self._more.setdefault(slot, []).append(key)
        self._slots = sorted(self._first)
        anchors = self._anchors()
        before = self._extend(anchors, 1)
        behind = self._extend(anchors, -1)
        self._assign(anchors, before, behind)

    def keys(self, slot: int) -> list[bytes]:
        """The keys of the file that the printed line equals in some reading."""
        return [self._first[slot], *self._more.get(slot, ())]

    def _says(self, slot: int, line: int) -> bool:
        key = self._lines.key_at.get(line)
        if key is None:
            return False
        return self._first[slot] == key or key in self._more.get(slot, ())

    def _anchors(self) -> dict[int, int]:
        found: dict[int, int] = {}
        index, spots = self._index, self._lines.spots
        for key, lines in spots.items():
            if len(lines) == 1:
                for slot in index.where[key]:
                    if slot not in found or self._says_number(slot, lines[0]):
                        found[slot] = lines[0]
        self._number(found)
        return found

    def _says_number(self, slot: int, line: int) -> bool:
        key = self._lines.key_at.get(line)
        return any(n == line + 1 and t == key for n, t in self._index.said.get(slot, ()))

    def _number(self, found: dict[int, int]) -> None:
        """Adds lines printed with their numbers, where the numbers are the file's.

        Those of `tail f | cat -n` are not: the lines that the file has once
        show it, or else the majority.
        """
        said = self._index.said
        votes: dict[int, int] = {}
        agreed: dict[int, list[tuple[int, int]]] = {}
        starts = sorted(self._index.firsts)
        piece, nth = -1, 0
        for slot in self._slots:
            if slot not in said:
                continue
            while nth < len(starts) and starts[nth] <= slot:
                piece, nth = starts[nth], nth + 1
            keys = self.keys(slot)
            spoken = [n - 1 for n, text in said[slot] if n and text in keys]
            if not spoken:
                continue
            right = next((n for n in spoken if self._says_number(slot, n)), None)
            weight = 1000 if slot in found else 1
            votes[piece] = votes.get(piece, 0) + (weight if right is not None else -weight)
            if right is not None:
                agreed.setdefault(piece, []).append((slot, right))
        for piece, pairs in agreed.items():
            if votes[piece] >= 0:
                found.update(pairs)

    def _extend(self, anchors: dict[int, int], step: int) -> dict[int, int]:
        """Follows each run away from its anchors, down (1) or up (-1)."""
        found: dict[int, int] = {}
        last, expected = None, 0
        for slot in self._slots if step > 0 else reversed(self._slots):
            line = anchors.get(slot)
            if line is None and last is not None and abs(slot - last) <= 1 + SKIPPED:
                line = expected if self._says(slot, expected) else None
            if line is None:
                last = None
            else:
                found[slot] = line
                last, expected = slot, line + step
        return found

    def _take(self, slot: int, line: int) -> bool:
        """Whether the line was still free; it is the slot's now."""
        if self.owner.setdefault(line, slot) != slot:
            return False
        self.at[slot] = line
        return True

    def _assign(
        self, anchors: dict[int, int], before: dict[int, int], behind: dict[int, int]
    ) -> None:
        """Certain places first, then likely ones, then any.

        The first and the last line of a piece may be parts of longer lines
        that happen to equal a whole one, so others go before them.
        """
        edges = self._index.firsts | self._index.cuts
        likely, late = [], []
        for slot in self._slots:
            line = before.get(slot)
            if slot in self._index.cuts and self._is_head(slot, before):
                continue
            if slot in edges and slot in anchors:
                late.append(slot)
            elif line is not None and line == behind.get(slot):
                self.owner.setdefault(line, slot)
                self.at[slot] = line
            else:
                likely.append(slot)
        for slot in late:
            self.owner.setdefault(anchors[slot], slot)
            self.at[slot] = anchors[slot]
        loose = [s for s in likely if not self._settle(s, before.get(s), behind.get(s))]
        self._stretch(loose)
        self._leftover([s for s in loose if s not in self.at])

    def _is_head(self, slot: int, before: dict[int, int]) -> bool:
        """Whether a line without a newline is the head of the run's next line."""
        if slot - 1 not in before:
            return False
        line = before[slot - 1] + 1
        start = self._lines.start(line)
        if start is None or line == before.get(slot):
            return False
        return self._lines.content.startswith(self._index.texts[slot], start)

    def _settle(self, slot: int, *lines: int | None) -> bool:
        return any(line is not None and self._take(slot, line) for line in lines)

    def _stretch(self, loose: list[int]) -> None:
        """Puts runs without an anchor where the file has them and no one was yet."""
        if len(loose) < 2 or self._lines.count > 1 << 20:
            return
        numbers = {key: n for n, key in enumerate(self._lines.spots, 1)}
        codes = array("L", bytes(self._lines.count * array("L").itemsize))
        for line, key in self._lines.key_at.items():
            codes[line] = numbers[key]
        for line in self.owner:
            codes[line] = 0
        hay, tried, nth = codes.tobytes(), 0, 0
        while nth < len(loose) and tried < _STRETCHES:
            end = nth + 1
            while end < len(loose) and loose[end] == loose[end - 1] + 1:
                end += 1
            if end - nth > 1:
                run = array("L", [numbers[self._first[s]] for s in loose[nth:end]])
                line = _find(hay, run.tobytes(), run.itemsize)
                tried += 1
                if line >= 0:
                    for slot, place in zip(loose[nth:end], range(line, self._lines.count)):
                        self._take(slot, place)
                    at, width = line * run.itemsize, (end - nth) * run.itemsize
                    hay = hay[:at] + bytes(width) + hay[at + width :]
            nth = end

    def _leftover(self, loose: list[int]) -> None:
        """Each further printed line stands for any one line that equals it."""
        free = {}
        for slot in loose:
            for key in self.keys(slot):
                if key not in free:
                    spots = self._lines.spots[key]
                    free[key] = [line for line in reversed(spots) if line not in self.owner]
                if free[key]:
                    self._take(slot, free[key].pop())
                    break


def _find(hay: bytes, run: bytes, width: int) -> int:
    """Number of the element at which the run begins; -1 where it does not."""
    at = hay.find(run)
    while at >= 0 and at % width:
        at = hay.find(run, at + 1)
    return at // width if at >= 0 else -1
