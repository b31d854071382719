"""Whether a text is a part of a file that goes back for the whole.

A Read tool reads a file whole and returns its first thousand lines, with line
numbers and a word about the rest; what an agent then writes back of it has
lost the others. An edit keeps the lines behind it. Told apart by bytes alone;
a cut is

* a listing: lines of the file, each under its own number, that are not all;
* leading lines of the file, to the end of the text or up to a short notice;
* leading and last lines, with a notice in the place of those between.

What leaves out a few lines at the end, or puts others there, is an edit. Pure;
nothing raises on any input.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import takewhile

from noclobber import coverage
from noclobber.coverage import Coverage

CHECKED = 16 << 20
"""Bytes of a file; of a larger one no Read tool returns lines to write back."""

NOTICE_LINES = 8
"""Lines of a notice, at most."""

NOTICE_BYTES = 1000
"""And its bytes."""

LEAST_LINES = 20
"""Leading lines that make a cut without a notice, or ..."""

LEAST_BYTES = 2048
"""... their bytes: less than both no Read tool returns, so it is meant."""

FEW = 10
"""One line in so many that are left out at the end is an edit, unless what is
left is a round number of lines, as limits are."""

ROUND = 50
"""Limits of Read tools are multiples of this many lines."""

LISTED = 2
"""One line of a text in so many, at least, has its number if it is a listing."""

PARTIAL = 64
"""Bytes of a line from which a cut one is known again."""

_WORDS = re.compile(
    rb"truncat|omitted|elided|clipped|skipped|not shown|hidden|remaining|more (?:lines|bytes|char)"
    rb"|(?:line|byte|char\w*|size|output|token)s? limit|too (?:long|large|big)|showing|displayed"
    rb"|excerpt|preview|offset|first \d|of \d[\d,]* (?:lines|bytes|char)",
    re.I,
)
_NUMBER = re.compile(rb"\d[\d,_]*")
_GUTTER = re.compile(rb" *L?(\d{1,9})(?:\t|\xe2\x86\x92|[:.)]| *(?:\||\xe2\x94\x82)| |\Z)")
_CUT_MARK = re.compile(rb" ?[\[(<{]?(?:\.\.\.|\xe2\x80\xa6|truncated)[^\n]{0,80}\Z", re.I)


def lost(old: bytes, new: bytes) -> Coverage:
    """The ranges of `old` that are not in `new`, where `new` is a cut of it;
    nothing where it is an edit, or a text of its own."""
    if not new or not old or len(old) > CHECKED or len(new) > 2 * len(old) + CHECKED:
        return coverage.NOTHING
    lines = _Lines(old)
    text = _lines(new)
    return _leading(lines, text) or _listed(lines, text)


def _lines(content: bytes) -> list[bytes]:
    """Lines without their ends, as Python's text files have them."""
    lines = content.removeprefix(BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.rstrip(b"\r") for line in lines] if b"\r" in content else lines


class _Lines:
    """The lines of a file, and where they are."""

    def __init__(self, content: bytes) -> None:
        self.text = _lines(content)
        self._starts = [0]
        at = 0
        for _ in self.text:
            at = content.find(b"\n", at) + 1 or len(content)
            self._starts.append(at)

    def span(self, first: int, last: int, skipped: int = 0) -> tuple[int, int]:
        """The bytes of the lines [first, last), without the first `skipped`."""
        return self._starts[first] + skipped, self._starts[last]


def _listed(lines: _Lines, text: list[bytes]) -> Coverage:
    """What a listing with line numbers leaves out."""
    count = len(lines.text)
    found: set[int] = set()
    for at, line in enumerate(text):
        if at == 4 * NOTICE_LINES and not found:
            return coverage.NOTHING  # the usual one: no listing
        for number, said in _numbered(line):
            if 0 < number <= count and _says(lines.text[number - 1], said):
                found.add(number - 1)
                break
    if len(found) * LISTED < len(text) or not 0 < len(found) < count:
        return coverage.NOTHING
    return coverage.normal(lines.span(n, n + 1) for n in range(count) if n not in found)


def _numbered(line: bytes) -> Iterator[tuple[int, bytes]]:
    """The number that a line of a listing bears, and what may be its text."""
    found = _GUTTER.match(line)
    if found:
        rest = line[found.end() :]
        yield int(found[1]), rest
        if rest[:1] == b" ":
            yield int(found[1]), rest[1:]


def _says(line: bytes, said: bytes) -> bool:
    """A listing may have trimmed blanks at the end, or cut a long line."""
    return line == said or line.rstrip() == said.rstrip() or _partial(line, said) > 0


def _partial(line: bytes, said: bytes) -> int:
    """How much of a line was printed before it was cut; 0: it is another one."""
    mark = _CUT_MARK.search(said)
    kept = said[: mark.start()] if mark else said
    return len(kept) if PARTIAL <= len(kept) < len(line) and line.startswith(kept) else 0


def _leading(lines: _Lines, text: list[bytes]) -> Coverage:
    """What leading lines leave out, with a notice behind them or without."""
    count = len(lines.text)
    kept = _same(zip(lines.text, text, strict=False))
    behind = _same(zip(reversed(lines.text[kept:]), reversed(text[kept:]), strict=False))
    own = text[kept : len(text) - behind]
    last = count - behind
    if kept >= last:
        return coverage.NOTHING
    cut = _partial(lines.text[kept], own[0]) if own else 0
    is_marked = 0 < cut < len(own[0]) if own else False
    own = own[1:] if cut else own
    if len(own) > NOTICE_LINES or sum(map(len, own)) > NOTICE_BYTES or not (kept or cut):
        return coverage.NOTHING
    if _is_notice(own, kept, last - kept, count) or (is_marked and not behind):
        is_cut = True
    elif behind:
        is_cut = False  # the lines behind it are there
    elif own:
        is_cut = last - kept > max(count // 2, ROUND)
    else:
        is_much = kept >= LEAST_LINES or sum(map(len, text)) >= LEAST_BYTES
        few = (last - kept) * FEW <= count and kept % ROUND != 0
        is_cut = is_much and (cut > 0 or not few)
    return coverage.normal([lines.span(kept, last, cut)]) if is_cut else coverage.NOTHING


def _same(pairs: zip[tuple[bytes, bytes]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_notice(own: list[bytes], kept: int, dropped: int, count: int) -> bool:
    """Whether lines speak of others that are not there: by a word for it, or
    by how many they are. An edit that takes a few lines out says no such."""
    if not own or dropped <= len(own):
        return False
    told = {kept, dropped, count}
    for line in own:
        numbers = {int(n.translate(None, b",_")) for n in _NUMBER.findall(line) if len(n) < 12}
        if _WORDS.search(line) or any(n > LEAST_LINES and n in told for n in numbers):
            return True
    return False
