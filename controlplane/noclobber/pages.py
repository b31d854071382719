"""Which bytes of a file a page of it vouches for.

A harness says that it showed these lines from that line on. It may have cut
one, masked another, and the file may have changed since: exactly the lines
that stand in the file, at that place, were seen. A page has other line ends
than the file, or no byte order mark, where its harness takes them off.
"""

from __future__ import annotations

from collections.abc import Iterator

from noclobber.coverage import Coverage, Range, normal

BOM = b"\xef\xbb\xbf"


def encoded(text: str) -> bytes:
    """A text of JSON as bytes; what was no UTF-8 is again what it was."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair, and no byte
        return text.encode("utf-8", "surrogatepass")


def line_start(content: bytes, at: int, count: int) -> int:
    """The byte where the line `count` lines behind `at` begins."""
    for _ in range(count):
        at = content.find(b"\n", at) + 1
        if not at:
            return len(content)
    return at


def matched(content: bytes, text: str, first: int) -> Coverage:
    """The bytes of the lines that equal the file's, from the line `first`
    (from 1) on."""
    data = encoded(text)
    at = line_start(content, 0, first - 1)
    end = _whole_end(content, data, at)
    return ((at, end),) if end > at else normal(_lines(content, data, at))


def _whole_end(content: bytes, data: bytes, at: int) -> int:
    """Where the page ends, if it stands there as it is: the usual case. Else 0."""
    start = at + len(BOM) * (not at and content.startswith(BOM) and not data.startswith(BOM))
    end = start + len(data)
    if not data or not content.startswith(data, start):
        return 0
    if data.endswith(b"\n") or end == len(content):
        return end
    return next((end + len(e) for e in (b"\n", b"\r\n") if content.startswith(e, end)), 0)


def _lines(content: bytes, data: bytes, at: int) -> Iterator[Range]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for line in lines:
        if at >= len(content):
            return
        end = content.find(b"\n", at) + 1 or len(content)
        if _equals(content[at:end].removesuffix(b"\n"), line, is_first=not at):
            yield at, end
        at = end


def _equals(there: bytes, shown: bytes, *, is_first: bool) -> bool:
    if there in (shown, shown + b"\r"):
        return True
    return is_first and there.startswith(BOM) and _equals(there[3:], shown, is_first=False)


def is_written(content: bytes, text: str) -> bool:
    """Whether a file holds that text and nothing else."""
    data = encoded(text)
    if content.removeprefix(BOM) == data.removeprefix(BOM):
        return True
    lines = data.removeprefix(BOM).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return b"\r\n" in content and content.removeprefix(BOM) == lines
