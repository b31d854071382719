"""Changes of a file in place: is it clear where they go, and what is known of
the file when they are made.

A text that stands there more than once names no place; who is told at which
lines it stands can say which one is meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from noclobber import coverage
from noclobber.coverage import Coverage
from noclobber.harness.events import Change
from noclobber.pages import encoded

_NEWLINE = ord("\n")
NAMED_LINES = 20  # of the places where a text stands


class Made(NamedTuple):
    """A file after changes: what of it is known, what the changes put there,
    and the byte behind the last one."""

    content: bytes
    known: Coverage = coverage.NOTHING
    written: Coverage = coverage.NOTHING
    at: int = 0


def ambiguous(content: bytes, changes: Iterable[Change]) -> list[int]:
    """The lines (from 1) where the first text that names no place stands; none
    where every one names its own."""
    now = Made(content)
    for change in changes:
        found = _places(now, change)
        if len(found) > 1 and not change.every and not change.under:
            return _lines(now.content, found)
        now = _after(now, change)
    return []


def made(content: bytes, known: Coverage, changes: Iterable[Change]) -> Made:
    """What becomes of a file of which `known` is known. What a change puts
    there is the agent's own text."""
    now = Made(content, known)
    for change in changes:
        now = _after(now, change)
    return now


def undone(content: bytes, changes: list[Change]) -> bytes | None:
    """What a file held before the changes; None where nobody can tell."""
    for change in reversed(changes):
        now = Made(content)
        back = Change(change.new, change.old, lines=change.lines)
        if not change.new or len(_places(now, back)) != 1:
            return None
        content = _after(now, back).content
    return content


def refusal(name: str, lines: list[int], every: str) -> str:
    """What is said of an ambiguous text."""
    listed = ", ".join(map(str, lines[:NAMED_LINES]))
    more = len(lines) - NAMED_LINES
    listed += f" and {more} more" if more > 0 else ""
    step = "Take in lines above or below it that only the one place has"
    step += f", or say {every} to change them all." if every else "."
    return (
        f"noclobber: {name} was not changed: the text to be replaced stands there "
        f"{len(lines)} times, at lines {listed}. {step}\n"
    )


def _forms(text: str) -> tuple[bytes, bytes]:
    """A text as it stands in files of either line end."""
    data = encoded(text)
    return data, data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _pair(content: bytes, change: Change) -> tuple[bytes, bytes]:
    """The old and the new text, with the file's own line ends."""
    olds, news = _forms(change.old), _forms(change.new)
    if olds[0] not in content and olds[1] in content:
        return olds[1], news[1]
    return olds[0], news[0]


def _places(now: Made, change: Change) -> list[int]:
    """Where the old text stands, from where it is looked for on."""
    old, _ = _pair(now.content, change)
    start = _below(now, encoded(change.under)) if change.lines else 0
    found: list[int] = []
    at = now.content.find(old, start) if old else -1
    while at >= 0:
        if not change.lines or not at or now.content[at - 1] == _NEWLINE:
            found.append(at)
            at += len(old) - 1
        at = now.content.find(old, at + 1)
    return found


def _below(now: Made, line: bytes) -> int:
    """The byte where the next such line begins, whatever its indentation."""
    at = now.at
    while line and at < len(now.content):
        end = now.content.find(b"\n", at) + 1 or len(now.content)
        if now.content[at:end].strip() == line:
            return at
        at = end
    return now.at


def _lines(content: bytes, places: list[int]) -> list[int]:
    found, line, before = [], 1, 0
    for place in places:
        line += content.count(b"\n", before, place)
        before = place
        found.append(line)
    return found


def _after(was: Made, change: Change) -> Made:
    old, new = _pair(was.content, change)
    places = _places(was, change)
    if not change.every:
        places = places[:1]
    if not places:
        return was
    pieces: list[bytes] = []
    known: list[tuple[int, int]] = []
    written: list[tuple[int, int]] = []
    at = size = last = 0  # in the old content, in the new one
    for place in [*places, len(was.content)]:
        pieces.append(was.content[at:place])
        for ranges, moved in ((was.known, known), (was.written, written)):
            moved += [
                (start - at + size, end - at + size)
                for start, end in coverage.clip(ranges, at, place)
            ]
        size += place - at
        at = place + len(old)
        if place < len(was.content):
            pieces.append(new)
            for moved in (known, written):
                moved.append((size, size + len(new)))
            last = size = size + len(new)
    return Made(b"".join(pieces), coverage.normal(known), coverage.normal(written), last)
