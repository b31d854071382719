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
   pieces, beside runs, as a head of at least 16 bytes, and, in very long
   lines, by blocks of 64 bytes (`cut`). A masked value is not its value.
4. Gutters, diff marks, colours, carriage returns and byte order marks are
   taken off a printed line before it is compared (`gutters`); what is left
   must be the file's line, byte for byte.

Everything is a pure function of bytes; nothing raises on any input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noclobber import coverage
from noclobber.attest.align import Alignment
from noclobber.attest.cut import Parts
from noclobber.attest.scan import Lines
from noclobber.attest.spool import Index
from noclobber.coverage import Range

__all__ = ["VIEW_LINES", "VIEW_SHARE", "VIEW_WEIGHT", "Spool", "seen", "viewed"]

VIEW_LINES = 3
"""Lines of a file, printed one after the other, that make a view of it."""

VIEW_SHARE = 10
"""A view is also one part in so many of the file's bytes."""

VIEW_WEIGHT = 8
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
        lines, found = self._align(content)
        return self._ranges(lines, found)

    def viewed(self, content: bytes) -> bool:
        """Whether three lines running or a tenth of `content` was printed."""
        lines, found = self._align(content)
        if _has_run(lines, found):
            return True
        size = coverage.size(tuple(self._ranges(lines, found)))
        return size > 0 and size * VIEW_SHARE >= len(content)

    def _align(self, content: bytes) -> tuple[Lines, Alignment]:
        lines = Lines(content, self._index)
        return lines, Alignment(lines, self._index)

    def _ranges(self, lines: Lines, found: Alignment) -> list[Range]:
        whole = [(start, lines.end(start)) for start in (lines.starts[n] for n in found.owner)]
        made = coverage.normal(whole)
        if coverage.covers(made, 0, lines.size):
            return list(made)
        return Parts(lines, self._index, found).collect(list(made))


def _has_run(lines: Lines, found: Alignment) -> bool:
    length = weight = 0
    last = (-1, -1)
    for slot, line in sorted(found.at.items()):
        if (slot - 1, line - 1) != last:
            length = weight = 0
        last = slot, line
        length += 1
        weight += sum(map(_is_word, lines.key_at[line]))
        if length >= VIEW_LINES and weight >= VIEW_WEIGHT:
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
