"""The oracle of test_model.py: what a session surely knows of a file's bytes,
and what it cannot know.

It is told what was printed to the session, byte for byte, and what the session
wrote, and works by counting lines: nothing of it is shared with attest.py. Two
bounds, and the ground between them is left open:

* `knows`: printed whole, at its place, in content that still stands there; or
  written by the session in a file that nobody else has touched since. Then a
  refusal is a false alarm.
* `may_know`: every line was printed or written as often as the file has it,
  wherever that was, cut lines by their parts. If not even that holds, letting
  a replacement through is a loss.

What lies between (lines credited by equality after another's edit, the edited
line of a file known in part, cut lines of a few bytes) DESIGN leaves to the
matching.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

LIMIT = 30_000  # bytes of a command's output that reach the agent: half head, half tail
GRAM = 8  # bytes in a row that count as printed wherever they stand
SHORT = 32  # bytes; of a shorter cut line that stands alone nothing is promised
VIEW_LINES = 3
VIEW_SHARE = 10
_GUTTER = re.compile(rb"(?: *\d+\t|\d+:)")

Range = tuple[int, int]


@dataclass(frozen=True)
class Chunk:
    """A part of a command's output: `text`, which is [at, at + len) of
    `content`, or words of the program's own (gutters) where `at` is None."""

    text: bytes
    content: bytes = b""
    at: int | None = None


@dataclass(frozen=True)
class Seen:
    """Ranges of `content` that were printed, cut to what surely counts."""

    content: bytes
    ranges: tuple[Range, ...]
    place: str


@dataclass
class Knowledge:
    """What one session was shown and wrote."""

    seen: list[Seen] = field(default_factory=list)
    written: dict[str, tuple[Range, ...]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    _lines: Counter[bytes] = field(default_factory=Counter)
    _text: list[bytes] = field(default_factory=list)
    _pieces: list[bytes] = field(default_factory=list)
    _blob: bytes | None = None

    # What it learns.

    def was_printed(self, output: bytes) -> None:
        """The command's whole output, as it came."""
        pieces = [output] if len(output) <= LIMIT else [output[: LIMIT // 2], output[-LIMIT // 2 :]]
        for piece in pieces:
            self._pieces.append(piece)
            self._text.append(piece)
            for line in piece.split(b"\n"):
                bare = line.rstrip(b"\r")
                self._lines[bare] += 1
                if gutter := _GUTTER.match(line):
                    self._lines[bare[gutter.end() :]] += 1
        self._blob = None

    def was_shown(self, chunks: list[Chunk], places: list[str]) -> None:
        """The same output as the parts that it should be made of."""
        output = b"".join(chunk.text for chunk in chunks)
        kept = [(0, len(output))]
        if len(output) > LIMIT:
            kept = [(0, LIMIT // 2), (len(output) - LIMIT // 2, len(output))]
        start = 0
        for chunk, place in zip(chunks, places, strict=True):
            end = start + len(chunk.text)
            if chunk.at is not None:
                ranges = [_sure(chunk, start, output, piece) for piece in kept]
                found = tuple(r for r in ranges if r)
                if found:
                    self.seen.append(Seen(chunk.content, found, place))
            start = end

    def wrote(self, text: bytes) -> None:
        """Bytes that the session itself put into some file."""
        for line in text.split(b"\n"):
            self._lines[line.rstrip(b"\r")] += 1
        self._text.append(text)
        self._pieces.append(text)
        self._blob = None

    # What it knows.

    def knows(self, place: str, content: bytes, start: int = 0) -> bool:
        """Whether it surely knows [start, size) of what stands at `place`."""
        known = list(self.written.get(place, ()))
        for seen in self.seen:
            if seen.content == content or (
                seen.content.endswith(b"\n") and content.startswith(seen.content)
            ):
                known += seen.ranges
        return covers(known, start, len(content))

    def may_know(self, content: bytes, start: int = 0) -> bool:
        """Whether it can know [start, size) of that content at all."""
        lines = content[start:].split(b"\n")
        if start and content[start - 1 : start] != b"\n" and len(lines[0]) < GRAM:
            del lines[0]  # a cut line of a few bytes: nothing is claimed
        wanted = Counter(line.rstrip(b"\r") for line in lines)
        del wanted[b""]
        return all(
            count <= self._lines[line] or self._may_know_line(line, count)
            for line, count in wanted.items()
        )

    def met(self, content: bytes) -> bool:
        """Whether it can have met any line of that content anywhere."""
        return any(self._lines[line.rstrip(b"\r")] for line in content.split(b"\n"))

    def viewed(self, place: str, content: bytes) -> bool:
        """Whether it surely viewed that content at that place."""
        for seen in self.seen:
            if seen.content != content or seen.place != place:
                continue
            for start, end in seen.ranges:
                lines = content[start:end].split(b"\n")
                whole = [line for line in lines[1:-1] if sum(map(_is_word, line)) >= VIEW_LINES]
                if len(whole) == len(lines) - 2 >= VIEW_LINES:
                    return True
        return False

    def _may_know_line(self, line: bytes, count: int) -> bool:
        ends = sum(_ends_within(piece, line) for piece in self._pieces)
        if len(line) < GRAM:
            return count <= self._lines[line] + ends + 1
        if self._blob is None:
            self._blob = b"\0".join(self._text)
        within = self._blob.count(line)
        if within:
            return within + ends >= count
        head = max((_prefix(piece, line) for piece in self._pieces), default=0)
        tail = max((_suffix(piece, line) for piece in self._pieces), default=0)
        return _is_made_of(line, self._blob, head, len(line) - tail)


def _is_made_of(line: bytes, blob: bytes, known: int, until: int) -> bool:
    """Whether each byte of line[known:until] stands in `blob` with GRAM - 1
    of its neighbours or more."""
    at = 0
    while known < until:
        size = 1 << 12
        while size > GRAM and line[at : at + size] not in blob:
            size //= 2
        if at + size <= len(line) and line[at : at + size] in blob:
            known = max(known, at + size)
            at += size - GRAM + 1
        elif at + GRAM <= len(line) and line[at : at + GRAM] in blob:
            known = max(known, at + GRAM)
            at += 1
        elif at >= min(known, len(line) - GRAM):
            return False
        else:
            at += 1
    return True


def covers(ranges: Iterable[Range], start: int, end: int) -> bool:
    """Whether the ranges together hold [start, end)."""
    for first, behind in sorted(ranges):
        if first > start:
            break
        start = max(start, behind)
    return start >= end


def _sure(chunk: Chunk, start: int, output: bytes, piece: Range) -> Range | None:
    """The part of `chunk`, which begins at output[start], that lies in this
    piece of the output and is whole lines, or is cut at the piece's ends."""
    assert chunk.at is not None
    content = chunk.content
    first, behind = max(start, piece[0]), min(start + len(chunk.text), piece[1])
    if first >= behind:
        return None
    a, b = chunk.at + first - start, chunk.at + behind - start
    at_line = a == 0 or content[a - 1 : a] == b"\n"
    glued = first > piece[0] and output[first - 1 : first] not in b"\n\t:"
    if (at_line and glued) or (not at_line and first > piece[0]):
        a = content.find(b"\n", a, b) + 1 or b
    ends_line = b == len(content) or content[b - 1 : b] == b"\n"
    open_end = content[b - 1 : b] != b"\n" and output[behind : behind + 1] != b"\n"
    if behind < piece[1] and (open_end or not ends_line):
        b = content.rfind(b"\n", a, b) + 1 or a
    if not at_line and first == piece[0]:
        a = _without(content, a, b, head=True)
    if not ends_line and behind == piece[1]:
        b = _without(content, a, b, head=False)
    return (a, b) if a < b else None


def _without(content: bytes, a: int, b: int, *, head: bool) -> int:
    """Where the range begins or ends without a cut line that is too short."""
    if head:
        cut = content.find(b"\n", a, b)
        return cut + 1 if 0 <= cut - a < SHORT else a
    cut = content.rfind(b"\n", a, b)
    start = cut + 1 if cut >= 0 else a
    return start if b - start < SHORT else b


def _is_word(byte: int) -> bool:
    return chr(byte).isalnum()


def _ends_within(piece: bytes, line: bytes) -> int:
    """How often the piece begins or ends with a part of that line."""
    first = piece.split(b"\n", 1)[0].rstrip(b"\r")
    last = piece[piece.rfind(b"\n") + 1 :]
    begins = bool(first) and line.endswith(first)
    ends = bool(last) and line.startswith(last)
    return max(begins, bool(_suffix(piece, line))) + max(ends, bool(_prefix(piece, line)))


def _prefix(piece: bytes, line: bytes) -> int:
    """Bytes of the line's beginning, fewer than GRAM, that the piece ends with."""
    return next((n for n in range(GRAM - 1, 0, -1) if piece.endswith(line[:n])), 0)


def _suffix(piece: bytes, line: bytes) -> int:
    """Bytes of the line's end, fewer than GRAM, that the piece begins with."""
    first = piece[:GRAM].split(b"\n")[0].rstrip(b"\r")
    return len(first) if 0 < len(first) < GRAM and line.endswith(first) else 0
