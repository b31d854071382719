"""A file's lines, as far as something printed speaks of them.

Most lines of most files were never printed: a file is taken in chunks, and a
chunk of which no line was printed costs one pass at the speed of C.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, compress

from noclobber.attest.gutters import BOM
from noclobber.attest.spool import HEAD, Index

_CHUNK = 1 << 16  # bytes; what stays in the processor's cache
_FOUND = 8  # heads up to which each is looked for by itself
_WINDOW = 256  # bytes; a very long line holds such an aligned window whole
WIDE = 512  # bytes from which a line is also looked for by blocks


class Lines:
    """The lines of `content` by their number from 0; `spots` has the printed ones.

    A line's key is its text without newline, carriage returns at its end, and
    byte order mark at the file's start. Where the file has a line more often
    than it can have been printed, `spots` need not have all its numbers.
    """

    def __init__(self, content: bytes, index: Index) -> None:
        self.content = content
        self.size = len(content)
        self.spots: dict[bytes, list[int]] = {}
        self.headed: list[int] = []  # offsets of lines of which a head was printed
        self.wide: list[tuple[int, int]] = []  # very long lines, as byte ranges
        self.count = 0
        self._firsts: list[int] = []
        self._offsets: list[int] = []
        self._known = index.known  # less the lines that are in `spots` often enough
        self._is_own = False
        self._open = (0, 0)  # first line of the chunk at hand, line behind it
        self._keys: list[bytes] = []
        self._starts: list[int] = []
        at = 0
        while at < self.size:
            cut = content.find(b"\n", min(at + _CHUNK, self.size) - 1)
            end = self.size if cut < 0 else cut + 1
            self._take(at, end, index)
            at = end
        self._offsets.append(self.size)
        if 0 < len(index.heads) <= _FOUND:
            self._find_heads(index)

    def _split(self, at: int, end: int) -> tuple[list[bytes], list[bytes]]:
        """The lines as they are, and their keys."""
        chunk = self.content[at:end]
        raw = chunk.split(b"\n")
        if not raw[-1]:
            raw.pop()
        keys = [line.rstrip(b"\r") for line in raw] if b"\r" in chunk else raw
        if at == 0 and keys[0].startswith(BOM):
            keys = [keys[0][len(BOM) :], *keys[1:]]
        return raw, keys

    def _take(self, at: int, end: int, index: Index) -> None:
        raw, keys = self._split(at, end)
        windows = range(at, end - _WINDOW + 1, _WINDOW)
        if any(self.content.find(b"\n", n, n + _WINDOW) < 0 for n in windows):
            self._note_wide(raw, at)
        first = self.count
        self.count += len(raw)
        self._firsts.append(first)
        self._offsets.append(at)
        if not self._known.keys().isdisjoint(keys):
            self._note_hits(keys, first)
        if len(index.heads) > _FOUND:
            self._note_heads(raw, keys, at, index)

    def _note_heads(self, raw: list[bytes], keys: list[bytes], at: int, index: Index) -> None:
        shortest = index.shortest
        heads = [line[:HEAD] for line in keys if len(line) > shortest]
        if index.heads.keys().isdisjoint(heads):
            return
        starts = list(accumulate(map(len, raw), initial=at))
        for n, line in enumerate(keys):
            if len(line) > shortest and line[:HEAD] in index.heads:
                self.headed.append(starts[n] + n)

    def _note_hits(self, keys: list[bytes], first: int) -> None:
        spots, known = self.spots, self._known
        for n in compress(range(len(keys)), map(known.__contains__, keys)):
            key = keys[n]
            if key not in spots:
                spots[key] = [first + n]
            elif key in self._known:
                found = spots[key]
                found.append(first + n)
                if len(found) > 2 * known[key] + 1:
                    if not self._is_own:
                        self._known, self._is_own = dict(known), True
                    del self._known[key]

    def _note_wide(self, raw: list[bytes], at: int) -> None:
        for line in raw:
            if len(line) >= WIDE:
                self.wide.append((at, at + len(line)))
            at += len(line) + 1

    def _find_heads(self, index: Index) -> None:
        mark = len(BOM) if self.content.startswith(BOM) else 0
        for head in index.heads:
            if self.content.startswith(head, mark):
                self.headed.append(0)
            at = self.content.find(b"\n" + head)
            while at >= 0:
                self.headed.append(at + 1)
                at = self.content.find(b"\n" + head, at + 1)

    def _enter(self, line: int) -> bool:
        """Makes the line's chunk the open one; false where there is no such line."""
        if line < 0 or line >= self.count:
            return False
        nth = bisect_right(self._firsts, line) - 1
        at, end = self._offsets[nth], self._offsets[nth + 1]
        raw, self._keys = self._split(at, end)
        self._starts = list(accumulate(map(len, raw), initial=at))
        first = self._firsts[nth]
        self._open = first, first + len(raw)
        return True

    def key(self, line: int) -> bytes | None:
        """The line's key; None where there is no such line."""
        first, behind = self._open
        if not first <= line < behind:
            if not self._enter(line):
                return None
            first = self._open[0]
        return self._keys[line - first]

    def span(self, line: int) -> tuple[int, int]:
        """The bytes of a line that there is, its newline included."""
        if not self._open[0] <= line < self._open[1]:
            self._enter(line)
        at = line - self._open[0]
        return self._starts[at] + at, min(self._starts[at + 1] + at + 1, self.size)

    def number(self, offset: int) -> int:
        """Number of the line that the offset is in."""
        nth = max(bisect_right(self._offsets, offset) - 1, 0)
        if nth >= len(self._firsts):
            return self.count
        return self._firsts[nth] + self.content.count(b"\n", self._offsets[nth], offset)

    def end(self, start: int) -> int:
        """Offset behind the line that starts there, its newline included."""
        cut = self.content.find(b"\n", start)
        return self.size if cut < 0 else cut + 1
