"""A file's lines, as far as something printed speaks of them.

Most lines of most files were never printed: a file is taken in chunks, and a
chunk of which no line was printed costs one pass at the speed of C.
"""

from __future__ import annotations

from itertools import accumulate, compress

from noclobber.attest.gutters import BOM
from noclobber.attest.spool import HEAD, Index

_CHUNK = 1 << 16  # bytes; what stays in the processor's cache
WIDE = 512  # bytes from which a line is also looked for by blocks


class Lines:
    """The lines of `content` that stand in the index, by their number from 0.

    A line's key is its text without newline, carriage returns at its end, and
    byte order mark at the file's start.
    """

    def __init__(self, content: bytes, index: Index) -> None:
        self.content = content
        self.size = len(content)
        self.key_at: dict[int, bytes] = {}
        self.starts: dict[int, int] = {}
        self.spots: dict[bytes, list[int]] = {}
        self.headed: list[int] = []  # lines of which only a head was printed
        self.wide: list[tuple[int, int]] = []  # very long lines, as byte ranges
        self.count = 0
        self._mark = len(BOM) if content.startswith(BOM) else 0
        at = 0
        while at < self.size:
            cut = content.find(b"\n", min(at + _CHUNK, self.size) - 1)
            end = self.size if cut < 0 else cut + 1
            self._take(at, end, index)
            at = end

    def _take(self, at: int, end: int, index: Index) -> None:
        chunk = self.content[at:end]
        raw = chunk.split(b"\n")
        if not raw[-1]:
            raw.pop()
        lines = raw
        if b"\r" in chunk:
            lines = [line.rstrip(b"\r") for line in raw]
        if at == 0 and self._mark:
            lines = [lines[0][self._mark :], *lines[1:]]
        if len(raw) * WIDE < len(chunk) or max(map(len, raw)) >= WIDE:
            self._note_wide(raw, at)
        first = self.count
        self.count += len(lines)
        whole = [] if index.where.keys().isdisjoint(lines) else self._hits(lines, index.where)
        heads = [line[:HEAD] for line in lines]
        cut = [] if index.heads.keys().isdisjoint(heads) else self._hits(heads, index.heads)
        if not whole and not cut:
            return
        offsets = list(accumulate(map(len, raw), initial=at))
        for n in whole:
            self.key_at[first + n] = key = lines[n]
            self.starts[first + n] = offsets[n] + n
            if key in self.spots:
                self.spots[key].append(first + n)
            else:
                self.spots[key] = [first + n]
        for n in cut:
            if first + n not in self.key_at:
                self.starts[first + n] = offsets[n] + n
                self.headed.append(first + n)

    def _note_wide(self, raw: list[bytes], at: int) -> None:
        for line in raw:
            if len(line) >= WIDE:
                self.wide.append((at, at + len(line)))
            at += len(line) + 1

    @staticmethod
    def _hits(lines: list[bytes], known: dict[bytes, list[int]]) -> list[int]:
        return list(compress(range(len(lines)), map(known.__contains__, lines)))

    def start(self, line: int) -> int | None:
        """Offset of a line that is in the index, or beside one that is."""
        found = self.starts.get(line)
        if found is not None:
            return found
        if line < 0 or line >= self.count:
            return None
        before, behind = self.starts.get(line - 1), self.starts.get(line + 1)
        if before is not None:
            return self.content.index(b"\n", before) + 1
        if behind is not None:
            return self.content.rfind(b"\n", 0, behind - 1) + 1
        if line == 0:
            return 0
        return None

    def end(self, start: int) -> int:
        """Offset behind the line that starts there, its newline included."""
        cut = self.content.find(b"\n", start)
        return self.size if cut < 0 else cut + 1
