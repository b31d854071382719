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

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from noclobber import coverage
from noclobber.attest.align import Alignment, unbroken
from noclobber.attest.cut import Parts
from noclobber.attest.spool import C, Index, Piece
from noclobber.coverage import Coverage, Range

__all__ = ["VIEW_LINES", "VIEW_SHARE", "VIEW_WEIGHT", "Spool", "seen", "viewed"]

VIEW_LINES: int = C.NC_VIEW_LINES
"""Lines of a file, printed one after the other, that make a view of it."""

VIEW_SHARE = 10
"""A view is also one part in so many of the file's bytes."""

VIEW_WEIGHT: int = C.NC_VIEW_WEIGHT
"""Letters and digits that the lines of a view hold together at the least:
three closing braces are in every file."""


class Spool:
    """What was printed, indexed once for many files and many askers."""

    def __init__(self, printed: Iterable[bytes] = ()) -> None:
        self._index = Index()
        for piece in printed:
            self.add(piece)

    def add(self, piece: bytes) -> int:
        """Takes in a contiguous piece of one command's output: its number, -1
        where there is nothing in it.

        Its first and last lines may be cut. Lines of two pieces are never
        taken for one line.
        """
        return self._index.add(piece)

    def seen(self, content: bytes, of: Collection[int] | None = None) -> list[Range]:
        """Half-open byte ranges of `content` that were printed: ascending,
        apart. `of`: by the pieces of these numbers alone."""
        return list(_judge(content, self._index, self._pieces(of))[0])

    def viewed(self, content: bytes, of: Collection[int] | None = None) -> bool:
        """Whether three lines running or a tenth of `content` was printed."""
        ranges, has_run = _judge(content, self._index, self._pieces(of))
        size = coverage.size(ranges)
        return has_run or (size > 0 and size * VIEW_SHARE >= len(content))

    def _pieces(self, of: Collection[int] | None) -> list[Piece]:
        pieces = self._index.pieces
        return pieces if of is None else [pieces[number] for number in sorted(of)]


def _judge(content: bytes, index: Index, pieces: list[Piece]) -> tuple[Coverage, bool]:
    """What of the content was printed, and whether three lines running were."""
    placed = unbroken(content, index, pieces)
    seen = placed.ranges
    has_run = any(_is_run(piece, content, start) for piece, start in placed.pieces)
    if not placed.others or coverage.covers(seen, 0, len(content)):
        return seen, has_run
    found = Alignment(content, index, placed.others, seen)
    has_run = has_run or found.has_run
    whole = coverage.union(seen, found.ranges)
    if not coverage.covers(whole, 0, len(content)):
        whole = Parts(index, placed.others, found, whole).collect()
    return whole, has_run


def _is_run(piece: Piece, content: bytes, start: int) -> bool:
    """Whether a piece that stands in the file at `start` has the lines of a view."""
    first = piece.first + (1 if start and content[start - 1] != 0x0A else 0)
    behind = piece.last + (0 if piece.is_cut else 1)
    return behind - first >= VIEW_LINES and _weighs(map(piece.text, range(first, behind)))


def _weighs(lines: Iterable[bytes]) -> bool:
    words = (byte for line in lines for byte in line if _is_word(byte))
    return sum(1 for _ in islice(words, VIEW_WEIGHT)) == VIEW_WEIGHT


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
