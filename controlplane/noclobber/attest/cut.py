"""Lines of which a part was printed: it vouches for just that part.

`head -c` ends within a line and `tail -c` begins within one, `cat a b` glues
b to an `a` without a last newline, a harness cuts lines at 2,000 characters,
and a minified file is one line. A printed byte is spent once here too, and a
line that was changed or masked between two lines that stand is no cut line.
"""

from __future__ import annotations

import re

from noclobber import coverage
from noclobber.attest.align import Alignment
from noclobber.attest.scan import Lines
from noclobber.attest.spool import HEAD, LONG, Index
from noclobber.coverage import Range

BLOCK = 64  # bytes by which parts of very long lines are found
_TRIED = 64  # printed lines compared with one cut line, parts of one long line
_PROBES = 100_000  # blocks looked up for one file
_FRAGMENTS = 400  # ends of pieces, and holes, that are fitted to each other

_OMITTED = re.compile(rb" ?[\[(<{]?(?:\.\.\.|\xe2\x80\xa6|(?:line )?truncated)[^\n]{0,80}\Z", re.I)


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
    """Adds to `ranges` what was printed of lines that were not printed whole."""

    def __init__(self, lines: Lines, index: Index, found: Alignment) -> None:
        self.ranges: list[Range] = []
        self._lines = lines
        self._index = index
        self._found = found
        self._spent: dict[int, int] = {}  # bytes of a printed line that are used
        for slot, line in found.at.items():
            if found.owner[line] == slot or slot not in index.firsts | index.cuts:
                self._spent[slot] = 1 << 62

    def collect(self, whole: list[Range]) -> list[Range]:
        """Everything seen, given the whole lines that were."""
        self.ranges = list(whole)
        for slot, line in self._found.at.items():
            self._behind(slot + 1, line + 1)
            self._before(slot - 1, line - 1)
        self._heads()
        self._only_line()
        if self._lines.wide:
            self._wide()
        self._fit()
        return list(coverage.normal(self.ranges))

    def _room(self, slot: int) -> int:
        """Bytes of the printed line that vouch for nothing yet."""
        text = self._index.texts.get(slot)
        return 0 if text is None else max(0, len(text) - self._spent.get(slot, 0))

    def _give(self, slot: int, start: int, end: int, paid: int) -> None:
        self.ranges.append((start, end))
        self._spent[slot] = self._spent.get(slot, 0) + paid

    def _body(self, line: int) -> tuple[int, bytes, int] | None:
        """A line not seen whole: its start, its text, the end of its newline."""
        start = self._lines.start(line) if line not in self._found.owner else None
        if start is None:
            return None
        end = self._lines.end(start)
        return start, self._lines.content[start:end].rstrip(b"\r\n"), end

    def _behind(self, slot: int, line: int) -> None:
        """The line after a run may be the head of the file's next line."""
        if self._room(slot) == 0 or self._found.at.get(slot + 1) == line + 1:
            return
        body = self._body(line)
        if body is None:
            return
        start, text, end = body
        size = max(common(spoken, text) for spoken in self._index.spoken(slot))
        size = min(size, self._room(slot))
        if size < len(text):
            if size:
                self._give(slot, start, start + size, size)
        elif slot in self._index.cuts or start + len(text) == end:
            self._give(slot, start, end, size)

    def _before(self, slot: int, line: int) -> None:
        """The line before a run may be the tail of the line before in the file."""
        if slot not in self._index.texts or self._found.at.get(slot - 1) == line - 1:
            return
        if slot in self._spent and self._room(slot) == 0:
            return
        body = self._body(line)
        if body is None:
            return
        start, text, end = body
        printed = self._index.texts[slot]
        size = min(common_end(printed, text), self._room(slot))
        if size or slot in self._index.firsts:
            self._give(slot, start + len(text) - size, end, size)

    def _heads(self) -> None:
        """`cut -c1-80`, and a harness that cuts long lines."""
        heads = self._index.heads
        for line in self._lines.headed:
            body = self._body(line)
            if body is None:
                continue
            start, text, _ = body
            for slot in heads.get(text[:HEAD], [])[:_TRIED]:
                if self._spent.get(slot):
                    continue
                size = max(self._head(spoken, text) for spoken in self._index.spoken(slot))
                if size:
                    self._give(slot, start, start + size, len(self._index.texts[slot]))
                    break

    @staticmethod
    def _head(printed: bytes, text: bytes) -> int:
        size = common(printed, text)
        if size < HEAD or (size < len(printed) and not _OMITTED.match(printed, size)):
            return 0
        return size

    def _only_line(self) -> None:
        """A one-line file glued to what was printed before or after it."""
        if self._lines.count != 1 or self._lines.size >= 1 << 16:
            return
        body = self._body(0)
        if body is None or not body[1]:
            return
        _, text, end = body
        for slot in self._index.firsts if len(text) < 4 else self._index.texts:
            if self._room(slot) >= len(text):
                printed = self._index.texts[slot]
                if printed.startswith(text) or printed.endswith(text):
                    self._give(slot, 0, end, len(text))
                    return

    def _wide(self) -> None:
        """Parts of very long lines, found by blocks and verified byte for byte."""
        content = self._lines.content
        slots = [s for s in self._index.long if self._room(s) >= LONG]
        if not slots:
            return
        blocks: dict[bytes, list[int]] = {}
        for start, end in self._lines.wide:
            for at in range(start, end - BLOCK + 1, BLOCK):
                blocks.setdefault(content[at : at + BLOCK], []).append(at)
        probes = _PROBES
        for slot in slots:
            for text in self._index.spoken(slot):
                if self._room(slot) >= LONG and probes > 0:
                    probes -= self._part(slot, text, blocks)

    def _part(self, slot: int, text: bytes, blocks: dict[bytes, list[int]]) -> int:
        """Number of blocks looked up to find the parts of one printed line."""
        at = probes = done = parts = 0
        while at + BLOCK <= len(text) and probes < _PROBES and parts < _TRIED:
            probes += 1
            start = self._place(text, at, blocks, at == done)
            if start < 0:
                at += 1
                continue
            line, end = next((s, e) for s, e in self._lines.wide if s <= start < e)
            content = self._lines.content
            back = common_end(text[done:at], content[max(line, start - at + done) : start])
            size = common(text[at:], content[start:end])
            stop = start + size
            if stop == end:
                stop = self._lines.end(stop)
            self._give(slot, start - back, stop, back + size)
            parts += 1
            at = done = at + size
        return probes

    def _place(self, text: bytes, at: int, blocks: dict[bytes, list[int]], fresh: bool) -> int:
        """Offset in the file of the block at `at`: where a hole begins, or anywhere."""
        block = text[at : at + BLOCK]
        if fresh:
            for start, _ in self._holes():
                if self._lines.content.startswith(block, start) and self._is_wide(start):
                    return start
        places = blocks.get(block)
        if not places:
            return -1
        if len(places) == 1:
            return places[0]
        seen = coverage.normal(self.ranges)
        for place in places[:_TRIED]:
            if not coverage.covers(seen, place, place + BLOCK):
                return place
        return places[0]

    def _is_wide(self, start: int) -> bool:
        return any(s <= start < e for s, e in self._lines.wide)

    def _holes(self) -> list[Range]:
        seen = coverage.normal(self.ranges)
        return list(coverage.gaps(seen, 0, self._lines.size))[:_TRIED]

    def _fit(self) -> None:
        """Fits the ends of pieces into the holes that are left, longest first."""
        index, content = self._index, self._lines.content
        ends = [s for s in index.firsts | index.cuts if not self._spent.get(s)]
        if not ends or len(ends) > _FRAGMENTS:
            return
        for slot in sorted(ends, key=lambda s: (-len(index.texts[s]), s)):
            is_cut, text = slot in index.cuts, index.texts[slot]
            if not is_cut:
                text += b"\n"
            for start, end in coverage.gaps(coverage.normal(self.ranges), 0, self._lines.size):
                if len(text) > end - start:
                    continue
                sole = is_cut and slot in index.firsts
                if (sole or is_cut) and content.startswith(text, start):
                    at = start
                elif (sole or not is_cut) and content.endswith(text, 0, end):
                    at = end - len(text)
                elif sole and len(text) >= HEAD:
                    at = content.find(text, start, end)
                else:
                    at = -1
                if at >= 0:
                    self._give(slot, at, at + len(text), len(text))
                    break
