"""Sets of half-open byte ranges: which bytes of one version are known.

Two half views must make a whole one, in any order, and a gap of three lines
must stay a gap. A set is a tuple of `(start, end)` pairs in bytes: ascending,
disjoint, none empty, none touching the next. Every function takes sets in
that form (`normal` makes one of anything) and returns one; nothing is changed
in place. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

Range = tuple[int, int]
Coverage = tuple[Range, ...]

NOTHING: Coverage = ()


def normal(ranges: Iterable[Range]) -> Coverage:
    """A set of ranges given in any order, overlapping, touching or empty."""
    made: list[Range] = []
    for start, end in sorted(r for r in ranges if r[0] < r[1]):
        if made and start <= made[-1][1]:
            if end > made[-1][1]:
                made[-1] = (made[-1][0], end)
        else:
            made.append((start, end))
    return tuple(made)


def whole(size: int) -> Coverage:
    """Every byte of a file of `size` bytes."""
    return ((0, size),) if size > 0 else NOTHING


def union(*sets: Coverage) -> Coverage:
    """What is in any of the sets."""
    filled = [s for s in sets if s]
    if len(filled) < 2:
        return filled[0] if filled else NOTHING
    return normal(r for s in filled for r in s)


def intersect(one: Coverage, other: Coverage) -> Coverage:
    """What is in both sets."""
    made: list[Range] = []
    i = j = 0
    while i < len(one) and j < len(other):
        start = max(one[i][0], other[j][0])
        end = min(one[i][1], other[j][1])
        if start < end:
            made.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(made)


def subtract(one: Coverage, other: Coverage) -> Coverage:
    """What is in `one` and not in `other`."""
    made: list[Range] = []
    j = 0
    for start, end in one:
        while j < len(other) and other[j][1] <= start:
            j += 1
        k = j
        while k < len(other) and other[k][0] < end:
            if start < other[k][0]:
                made.append((start, other[k][0]))
            start = max(start, other[k][1])
            k += 1
        if start < end:
            made.append((start, end))
    return tuple(made)


def clip(held: Coverage, start: int, end: int) -> Coverage:
    """What of the set lies in `[start, end)`."""
    return intersect(held, ((start, end),)) if start < end else NOTHING


def gaps(held: Coverage, start: int, end: int) -> Coverage:
    """What of `[start, end)` is not in the set."""
    return subtract(((start, end),), held) if start < end else NOTHING


def covers(held: Coverage, start: int, end: int) -> bool:
    """Whether every byte of `[start, end)` is in the set; an empty range is."""
    if start >= end:
        return True
    at = bisect_right(held, (start, 1 << 64)) - 1
    return at >= 0 and held[at][0] <= start and end <= held[at][1]


def size(held: Coverage) -> int:
    """Bytes in the set."""
    return sum(end - start for start, end in held)
