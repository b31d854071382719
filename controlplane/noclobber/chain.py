"""The receipts' chain: every line carries the hash of the line before.

Without it a line could be taken out or changed, and nobody would know. A
*link* is a line that is a JSON object with the SHA-256 of the link before it
(the whole line, without its newline) under "previous"; the first has "". What
a crash left half-written stays where it is, and the next link says how many
bytes of it there were and what they hash to, under "cut_off": so the chain has
no gap, and a cut-off line is told from one that somebody put in.

What this cannot tell is that the last lines were taken off the end: keep the
`head` of a Finding elsewhere, and a later file must still hold it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

PREVIOUS = "previous"
CUT_OFF = "cut_off"

_BLOCK = 64 << 10  # bytes read at once, from the end


class End(NamedTuple):
    """Where a file ends: the hash of its last link ("": it has none), and what
    stands behind that and is no link."""

    head: str
    rest: bytes
    is_ended: bool  # by a newline, or the file is empty


@dataclass(frozen=True)
class Finding:
    """What looking through a chain found. `head` is the hash of the last good
    link, `cut_off` the lines (from 1) of crashes that links vouch for. `line`
    is the first broken one, 0 where none is, and `why` says what is wrong."""

    links: int
    head: str
    cut_off: tuple[int, ...] = ()
    line: int = 0
    why: str = ""


def hash_of(data: bytes) -> str:
    """What the chain is made of: SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def link(found: dict[str, Any], end: End) -> tuple[bytes, str]:
    """What to append to a file that ends so, and the hash of the new link."""
    found = {**found, PREVIOUS: end.head}
    if end.rest:
        found[CUT_OFF] = {"bytes": len(end.rest), "sha256": hash_of(end.rest)}
    line = json.dumps(found, separators=(",", ":")).encode("ascii")
    return (b"" if end.is_ended else b"\n") + line + b"\n", hash_of(line)


def parse(line: bytes) -> dict[str, Any] | None:
    """A link; None for any other line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_link = isinstance(found, dict) and isinstance(found.get(PREVIOUS), str)
    return found if is_link else None


def end_of(fd: int, size: int) -> End:
    """The end of the first `size` bytes of a file. Raises OSError."""
    block = _BLOCK
    while True:
        start = max(0, size - block)
        data = os.pread(fd, size - start, start)
        lines = data.split(b"\n")
        first = 0 if start == 0 else 1  # the one before may begin further up
        for at in range(len(lines) - 1, first - 1, -1):
            if parse(lines[at]) is None:
                continue
            rest = b"\n".join(lines[at + 1 :])
            return End(hash_of(lines[at]), rest, data.endswith(b"\n"))
        if start == 0:
            return End("", data, data.endswith(b"\n") or not data)
        block *= 4


def verify(lines: Iterable[bytes]) -> Finding:
    """Looks through a whole file, line by line, newlines included."""
    links, head, line, number = 0, "", b"", 0
    rest: list[bytes] = []
    cut_off: list[int] = []
    for number, line in enumerate(lines, 1):
        found = parse(line)
        if found is None:
            rest.append(line)
            continue
        first = number - len(rest)
        why = _broken(found, head, b"".join(rest))
        if why:
            return Finding(links, head, tuple(cut_off), first if rest else number, why)
        cut_off += range(first, number)
        rest.clear()
        links, head = links + 1, hash_of(line.removesuffix(b"\n"))
    if rest:
        why = "it is no receipt, and none after it vouches for it"
        if not line.endswith(b"\n"):
            why = "it was cut off, as by a crash; the next receipt will say so"
        return Finding(links, head, tuple(cut_off), number - len(rest) + 1, why)
    return Finding(links, head, tuple(cut_off))


def _broken(found: dict[str, Any], head: str, rest: bytes) -> str:
    """What is wrong with a link behind `head` and `rest`; empty: nothing."""
    said = found.get(CUT_OFF)
    if rest and said is None:
        return "it is no receipt, and the next one does not know it"
    if said is not None:
        if not isinstance(said, dict) or not isinstance(size := said.get("bytes"), int):
            return "the next receipt does not say rightly what was cut off"
        # A newline may have been added to what had none.
        if rest[size:] not in (b"", b"\n") or hash_of(rest[:size]) != said.get("sha256"):
            return "it is not what the next receipt says was cut off here"
    if found[PREVIOUS] != head:
        return (
            "it does not follow the receipt before it: that one was changed, "
            "or receipts between them are gone"
            if head
            else "it is not the first of its chain: those before it are gone"
        )
    return ""
