"""Receipts: the lasting record of every verdict that was no plain allow.

Append-only JSON lines, one object a line, pure ASCII, chained by their hashes
(chain.py). A path is bytes: where it is no UTF-8 each odd byte stands as a lone
surrogate, `\\udc80` to `\\udcff` (Python's surrogateescape), which JSON can
spell and `os.fsencode` turns back.

The daemon writes them, and so does every `noclobber restore`: a lock on the
file makes of theirs one chain. A receipt is with the kernel before its verdict
is told, so that no killed process loses one. On the disk it is later: waiting
for that took 4 ms (p50) and 11 ms (p99) for a receipt on ext4, a hundred times
what a verdict takes. So the daemon has it done by a thread, SYNC_EVERY at the
most: what a power cut takes is a second's receipts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from noclobber import chain

LOCK_TIMEOUT = 1.0  # s; who asks for a verdict waits for 2
SYNC_EVERY = 1.0  # s
_POLL = 0.001  # s


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
    snapshot: str = ""  # the old content's name in the store
    attributes: dict[str, Any] = field(default_factory=dict)  # of the file then
    note: str = ""
    override: dict[str, Any] = field(default_factory=dict)  # who, why, when

    def fields(self) -> dict[str, Any]:
        """What a line holds. dataclasses.asdict copies all of it, and that
        takes longer than everything else about a receipt."""
        return {**vars(self), "unseen": [vars(one) for one in self.unseen]}


def timestamp(ns: int) -> str:
    """ISO 8601, UTC, microseconds."""
    moment = datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc)
    return moment.replace(microsecond=ns // 1000 % 1_000_000).isoformat().replace("+00:00", "Z")


class Receipts:
    """The file at `path`, opened for appending. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = self._open()
        self._size = -1  # of the file when we last wrote; -1: nothing is known
        self._head = ""

    def add(self, receipt: Receipt) -> str:
        """Writes one line, whole, before it returns its hash. Raises OSError;
        BlockingIOError where another process does not let go of the lock."""
        with self._locked():
            size = os.fstat(self._fd).st_size
            end = chain.End(self._head, b"", True)
            if size != self._size:
                end = chain.end_of(self._fd, size)
            line, head = chain.link(receipt.fields(), end)
            self._size = -1
            at = 0
            while at < len(line):
                at += os.write(self._fd, line[at:])
            self._size, self._head = size + len(line), head
        return head

    def sync(self) -> None:
        """Returns when what was written is on the disk. Raises OSError."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, 0o600)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """While it lasts nobody else writes, and our descriptor is the file
        that stands at the path: it may have been moved away."""
        while True:
            _lock(self._fd)
            if self._stands():
                break
            os.close(self._fd)
            self._fd, self._size = self._open(), -1
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _stands(self) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._fd))


def _lock(fd: int, how: int = fcntl.LOCK_EX) -> None:
    until = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(_POLL)


class Syncing:
    """Brings receipts to the disk, off the loop that writes them."""

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts
        self._written = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
        self._thread.start()

    def written(self) -> None:
        """There is a new receipt."""
        self._written.set()

    def close(self) -> None:
        """Returns when all of them are on the disk."""
        self._over.set()
        self._written.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self._written.wait()
            self._written.clear()
            with contextlib.suppress(OSError):  # whoever writes the next one is told
                self._receipts.sync()
            self._over.wait(SYNC_EVERY)


class DamagedReceiptError(ValueError):
    """A line that is no receipt. `line` is its number, from 1."""

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(f"{path}: line {line} is no receipt ({why}); the others are not touched")
        self.line = line


def parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """One line of the file. Raises DamagedReceiptError."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
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


def verify(path: Path) -> chain.Finding:
    """Looks through the chain of what stands there now. A file that is not
    there is whole. Raises OSError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return chain.Finding(0, "")
    with file:
        _lock(file.fileno(), fcntl.LOCK_SH)
        size = os.fstat(file.fileno()).st_size  # no line is half-written now
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)
        return chain.verify(_lines(file, size))


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    for line in file:
        if size <= 0:
            return
        yield line[:size]
        size -= len(line)
