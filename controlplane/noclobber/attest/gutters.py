"""What a printed line says of a file's line once its decoration is taken off.

Tools print a file with line numbers, paths, diff marks, boxes and colours
around its lines. Each function here proposes readings of one printed line;
whether a reading is true is decided elsewhere, by comparing it with the
file's own line byte for byte. So a wrong proposal costs time, never credit.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Reading = tuple[int, bytes]
"""The line's number in its file (from 1; 0: none was printed) and its text."""

BOM = b"\xef\xbb\xbf"
_PATH_LIMIT = 256  # bytes of a printed line within which its path must end
_PATHS_TRIED = 3  # a path may itself hold `-12-`: further parses to propose

_ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, erasing
    rb"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC: titles, hyperlinks
    rb"|[()*+][0-9A-Za-z]|[=>78McDEHNO])"
    rb"|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*)?\Z"  # cut off at the end
)
_NUMBER = re.compile(rb" *L?(\d{1,9})(?!\d)")
_BOX = re.compile(rb" *[+~_-]? *(?:\xe2\x94\x82|\|) ?")
_PLACE = re.compile(rb"([:-])(\d{1,9})\1")
_COLUMN = re.compile(rb"\d{1,6}:")
_NAMED = re.compile(rb"([^\s:]{1,256}):")
_BLAME = re.compile(rb"\^?[0-9a-f]{7,40} (?:[^\s()]+ +)?\([^()\n]* (\d{1,9})\) ")


def uncoloured(piece: bytes) -> bytes:
    """The text without terminal escapes."""
    return _ESCAPE.sub(b"", piece) if b"\x1b" in piece else piece


def numbered(line: bytes) -> Iterator[Reading]:
    """`12<tab>text` and its like: cat -n, nl, grep -n, less -N, bat, Read tools."""
    found = _NUMBER.match(line)
    if found is None:
        return
    number, rest = int(found[1]), line[found.end() :]
    mark = rest[:1]
    if mark == b"\t" or mark == b"-":
        yield number, rest[1:]
    elif mark == b":" or mark == b"." or mark == b")":
        if mark == b":":
            yield number, rest[1:]
        if rest[1:2] == b" ":
            yield number, rest[2:]
        column = _COLUMN.match(rest, 1)
        if mark == b":" and column:
            yield number, rest[column.end() :]
    elif rest.startswith(b"\xe2\x86\x92"):
        yield number, rest[3:]
    elif mark in (b" ", b"|", b"\xe2"):
        if mark == b" " or mark == b"|":
            yield number, rest[1:]
        box = _BOX.match(rest)
        if box:
            yield number, rest[box.end() :]
    elif not rest and line[:1] == b" ":
        yield number, b""  # a blank line whose trailing blank was trimmed


def placed(line: bytes) -> Iterator[Reading]:
    """`path:12:text`, `path-12-text` (grep -Hn, rg), with a column or without."""
    for nth, found in enumerate(_PLACE.finditer(line, 1, _PATH_LIMIT)):
        if nth == _PATHS_TRIED:
            return
        number, rest = int(found[2]), line[found.end() :]
        yield number, rest
        column = _COLUMN.match(rest)
        if column:
            yield number, rest[column.end() :]


def marked(line: bytes) -> Iterator[Reading]:
    """Lines that a diff says are in the new file: ` ` and `+`, `> ` and `< `.

    A combined diff has two columns of marks. A `-` line is in no file.
    """
    if line[:1] in (b"+", b" "):
        yield 0, line[1:]
        if line[1:2] in (b"+", b" "):
            yield 0, line[2:]
    elif line[:2] in (b"> ", b"< "):
        yield 0, line[2:]


def blamed(line: bytes) -> Iterator[Reading]:
    """`git blame` and `git annotate`."""
    found = _BLAME.match(line)
    if found:
        yield int(found[1]), line[found.end() :]


def readings(lines: list[bytes]) -> dict[int, list[Reading]]:
    """What else than themselves the lines of one piece may say, by index."""
    made: dict[int, list[Reading]] = {}
    diff = any(line[:1] == b"+" or line[:2] in (b"@@", b"> ", b"< ") for line in lines)
    names = _names(lines)
    for at, line in enumerate(lines):
        first = line[:1]
        found: list[Reading] = []
        if not first or line.isdigit():
            continue
        if first in b" L0123456789":
            found.extend(numbered(line))
            if line.isspace():
                found.append((0, b""))  # nl gives blank lines no number
        if diff:
            found.extend(marked(line))
        if b":" in line or b"-" in line:
            found.extend(placed(line))
            if names and line.startswith(names):
                found.append((0, line[_length(line, names) :]))
        if first in b"^0123456789abcdef" and b" (" in line:
            found.extend(blamed(line))
        if found:
            made[at] = found
    _interleaved(lines, made)
    return made


def _names(lines: list[bytes]) -> tuple[bytes, ...]:
    """Prefixes `path:` and `path-` of a search without numbers.

    A word before a colon is no path unless it looks like one or heads two
    lines that follow each other.
    """
    found: set[bytes] = set()
    last = b""
    for line in lines:
        name = _NAMED.match(line)
        if name and (name[1] == last or b"/" in name[1] or b"." in name[1]):
            found.add(name[1])
        last = name[1] if name else b""
    return tuple(n + mark for n in found for mark in (b":", b"-")) if len(found) < 500 else ()


def _length(line: bytes, names: tuple[bytes, ...]) -> int:
    return max(len(name) for name in names if line.startswith(name))


def _interleaved(lines: list[bytes], made: dict[int, list[Reading]]) -> None:
    """`sed =` prints each line's number on a line before it."""
    digits = {at: int(line) for at, line in enumerate(lines) if line.isdigit() and len(line) <= 9}
    if len(digits) == len(lines):
        return
    for at, number in digits.items():
        is_next = digits.get(at + 2) == number + 1 or digits.get(at - 2) == number - 1
        if is_next and at + 1 < len(lines):
            made.setdefault(at + 1, []).append((number, lines[at + 1]))
