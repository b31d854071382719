"""Which bytes of a file an agent was shown, judged by what was printed.

The harm prevented: `cat f | head -n 50`, `grep -c x f` and a test run all
read the whole of f, and an agent that "has read" f then replaces 4,950 lines
that it never saw. So reading is not asked about here. The file's present
bytes are held against the text that reached the agent, and a byte is seen
when it was printed. What an editor or a formatter changed since no longer
matches, and is unseen, without any clock.

No credit is given that was not printed:

1. Each printed line vouches for at most one line of the file. Of 5,000 equal
   lines of which 100 were printed, 100 are seen (`align`).
2. Runs are aligned as a diff aligns them: lines that the file has once, and
   lines printed with their number, are anchors; runs extend from them; what
   has no anchor goes where an unseen run equals it, then one for one.
3. A cut line vouches for the bytes that were printed of it: at the ends of
   pieces, beside runs, as a head of at least 32 bytes, and, in very long
   lines, by blocks of 64 bytes (`cut`). A masked value is not its value.
4. Gutters, diff marks, colours, carriage returns and byte order marks are
   taken off a printed line before it is compared (`gutters`); what is left
   must be the file's line, byte for byte.

Everything is a pure function of bytes; nothing raises on any input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noclobber import coverage
from noclobber.attest.align import Alignment, unbroken
from noclobber.attest.cut import Parts
from noclobber.attest.scan import Lines
from noclobber.attest.spool import Index, Piece
from noclobber.coverage import Coverage, Range

__all__ = ["VIEW_LINES", "VIEW_SHARE", "VIEW_WEIGHT", "Spool", "seen", "viewed"]

VIEW_LINES = 3
"""Lines of a file, printed one after the other, that make a view of it."""

VIEW_SHARE = 10
"""A view is also one part in so many of the file's bytes."""

VIEW_WEIGHT = 3
"""Letters and digits that the lines of a view hold together at the least:
three closing braces are in every file."""


class Spool:
    """What one session was shown, indexed once for many files."""

    def __init__(self, printed: Iterable[bytes] = ()) -> None:
        self._index = Index()
        for piece in printed:
            self.add(piece)

    def add(self, piece: bytes) -> None:
        """Takes in a contiguous piece of one command's output.

        Its first and last lines may be cut. Lines of two pieces are never
        taken for one line.
        """
        self._index.add(piece)

    def seen(self, content: bytes) -> list[Range]:
        """Half-open byte ranges of `content` that were printed: ascending, apart."""
        return list(_judge(content, self._index)[0])

    def viewed(self, content: bytes) -> bool:
        """Whether three lines running or a tenth of `content` was printed."""
        ranges, has_run = _judge(content, self._index)
        size = coverage.size(ranges)
        return has_run or (size > 0 and size * VIEW_SHARE >= len(content))


def _judge(content: bytes, index: Index) -> tuple[Coverage, bool]:
    """What of the content was printed, and whether three lines running were."""
    seen, placed, others = unbroken(content, index)
    has_run = any(_is_run(piece, content, start) for piece, start in placed)
    if not others or coverage.covers(seen, 0, len(content)):
        return seen, has_run
    lines = Lines(content, index)
    found = Alignment(lines, others, seen)
    whole = coverage.union(seen, _spans(lines, found.at))
    has_run = has_run or _has_run(lines, found)
    if not coverage.covers(whole, 0, len(content)):
        whole = Parts(lines, index, others, found, whole).collect()
    return whole, has_run


def _spans(lines: Lines, at: dict[int, int]) -> Coverage:
    """The bytes of those lines."""
    owned = set(at.values())
    firsts = sorted(line for line in owned if line - 1 not in owned)
    lasts = sorted(line for line in owned if line + 1 not in owned)
    return coverage.normal(
        (lines.span(first)[0], lines.span(last)[1])
        for first, last in zip(firsts, lasts, strict=True)
    )


def _is_run(piece: Piece, content: bytes, start: int) -> bool:
    """Whether a piece that stands in the file at `start` has the lines of a view."""
    first = 1 if start and content[start - 1] != 0x0A else 0
    lines = piece.lines[first : -1 if piece.is_cut else None]
    return len(lines) >= VIEW_LINES and _weighs(lines)


def _has_run(lines: Lines, found: Alignment) -> bool:
    run: list[bytes] = []
    last = (-1, -1)
    for slot, line in sorted(found.at.items()):
        if (slot - 1, line - 1) != last:
            run = []
        last = slot, line
        run.append(lines.key(line) or b"")
        if len(run) >= VIEW_LINES and _weighs(run):
            return True
    return False


def _weighs(lines: list[bytes]) -> bool:
    weight = 0
    for line in lines:
        weight += sum(map(_is_word, line))
        if weight >= VIEW_WEIGHT:
            return True
    return False


def _is_word(byte: int) -> bool:
    return byte >= 0x80 or chr(byte).isalnum()


def seen(content: bytes, printed: Sequence[bytes]) -> list[Range]:
    """Half-open byte ranges of `content` that the printed texts vouch for.

    Each item of `printed` is a contiguous piece of one command's output.
    """
    return Spool(printed).seen(content)


def viewed(content: bytes, printed: Sequence[bytes]) -> bool:
    """Whether the printed texts are a view of `content`: see `VIEW_LINES`."""
    return Spool(printed).viewed(content)
