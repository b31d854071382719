"""Receipts: the lasting record of every verdict that was no plain allow.

Append-only JSON lines, one object a line, pure ASCII. A path is bytes: where
it is no UTF-8 each odd byte stands as a lone surrogate, `\\udc80` to `\\udcff`
(Python's surrogateescape), which JSON can spell and `os.fsencode` turns back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Unseen:
    """A range of a file that was not seen: bytes half-open, lines 1-based and
    inclusive (0 where the file is no text)."""

    start: int
    end: int
    first_line: int
    last_line: int


@dataclass(frozen=True)
class Receipt:
    """One verdict. Sizes in bytes; `seen_bytes` and `total_bytes` speak of the
    whole file, also where a part of it was judged."""

    time: str
    session: str
    command: str
    pid: int
    exe: str
    argv: list[str]
    op: str
    path: str
    verdict: str
    row: int
    grade: str
    seen_bytes: int
    total_bytes: int
    seen_lines: int
    total_lines: int
    unseen: list[Unseen]
    reason: str
    id: str = ""
    kind: str = ""
    explain: dict[str, Any] = field(default_factory=dict)
    snapshot: str = ""
    note: str = ""


def timestamp(ns: int) -> str:
    """ISO 8601, UTC, microseconds."""
    moment = datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc)
    return moment.replace(microsecond=ns // 1000 % 1_000_000).isoformat().replace("+00:00", "Z")


class Receipts:
    """The file at `path`, opened for appending. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        if _cut_off(path):
            os.write(self._fd, b"\n")  # what a crash left half-written stays alone

    def add(self, receipt: Receipt) -> None:
        """Writes one line, whole, before it returns."""
        line = json.dumps(asdict(receipt), separators=(",", ":")).encode("ascii") + b"\n"
        at = 0
        while at < len(line):
            at += os.write(self._fd, line[at:])

    def close(self) -> None:
        os.close(self._fd)


def _cut_off(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


class DamagedReceiptError(ValueError):
    """A line that is no receipt. `line` is its number, from 1."""

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(f"{path}: line {line} is no receipt ({why}); the others are not touched")
        self.line = line


def parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """One line of the file. Raises DamagedReceiptError."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise DamagedReceiptError(path, number, str(error)) from None
    if not isinstance(found, dict):
        raise DamagedReceiptError(path, number, "not an object")
    return found


def read(path: Path) -> Iterator[dict[str, Any] | DamagedReceiptError]:
    """Every receipt, oldest first, damaged lines in their places. A file that
    is not there has none. Raises OSError for one that cannot be read."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield parse(path, number, line)
                except DamagedReceiptError as damage:
                    yield damage
