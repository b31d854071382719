"""Keeps what a question is about, within the budget that the user gave.

The budget is for the store and not for one session: the oldest goes first, and
nothing that a running session may still need, were it over the budget by that.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noclobber import placing
from noclobber.config import Config
from noclobber.facts import Gathered
from noclobber.ledger import version_of
from noclobber.placing import attributes_of
from noclobber.snapshots import COPY_LIMIT, Store
from noclobber.wire import C

DAY = 86_400_000_000_000  # ns
RUNS_FOR = DAY  # ns; a session that was heard of since then counts as running

PUT_BACK = "What was written into it is taken back: it holds what it held when it was opened."
LINK_FROM = 4 << 20  # bytes; less is copied and hashed while one waits
_SLACK = 16  # of the budget a part: when it is over by as much more, it is looked at again

_CUTS = frozenset((C.NC_OP_SHRINK, C.NC_OP_PUNCH))

# What takes the file's last name leaves its inode to us.
_TAKES_NAME = frozenset((C.NC_OP_RENAME, C.NC_OP_DELETE))


@dataclass(frozen=True)
class Kept:
    """What became of old content: its `name` in the store, or a `note` that
    says why it is not there."""

    name: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    note: str = ""


class Keeper:
    """Keeps content in `store`, and no more than the budget."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._limit = -1  # bytes at which the store is looked through, < 0: at once
        self._size = 0

    def keep(self, facts: Gathered, ident: str, config: Config) -> Kept:
        """Keeps what the question is about; `ident` is its receipt's. Raises
        OSError where it should be kept and cannot."""
        asked = facts.asked
        size, name = facts.size, ident
        if size > config.snapshot_size:
            return Kept(note=f"Not kept: {size} bytes are more than snapshot_size.")
        survives = asked.op in _TAKES_NAME and facts.stat.st_nlink == 1
        # While what was deleted is there, no new file gets its inode's number
        # and is taken for it.
        links = survives and (asked.op == C.NC_OP_DELETE or size > LINK_FROM)
        if not (links and self.store.link(asked.fd, ident)):
            if size <= COPY_LIMIT:
                name = self.store.keep(asked.fd)
            elif not self.store.clone(asked.fd, ident):
                return Kept(note=f"Not kept: {size} bytes are too much to copy.")
        return Kept(name, attributes_of(asked.fd))

    def take_in(self, fd: int, path: Path, ident: str, config: Config) -> Kept:
        """Keeps what a process gave a name at `path` before it deleted it; `fd`
        is open on it. It is named `ident` where that is given, else by its hash.
        Raises OSError: it is still there then."""
        size, attributes = os.fstat(fd).st_size, attributes_of(fd)
        if size > config.snapshot_size:
            return Kept(note=f"Not kept: {size} bytes are more than snapshot_size.")
        name = self.store.adopt(fd, path, ident)
        if not name and size > COPY_LIMIT:
            return Kept(note=f"Not kept: {size} bytes are too much to copy.")
        return Kept(name or self.store.keep(fd), attributes)

    def put_back(self, facts: Gathered) -> Kept:
        """A shrink is refused: where the same command had opened the file to
        write in place, what it held then goes back in. What it holds now is
        kept, and that is returned."""
        asked, ledger = facts.asked, facts.session.ledger
        edit = ledger.edits.get(facts.key)
        if edit is None or edit.command != facts.image.command or asked.op not in _CUTS:
            return Kept()
        facts.settle()
        try:
            with os.fdopen(self.store.open(edit.snapshot), "rb") as old:
                name = self.store.keep(asked.fd)
                if name == edit.snapshot:
                    return Kept()
                mtime = version_of(facts.key, edit.stamp).mtime
                placing.put_back(old.fileno(), asked.fd, mtime)
        except OSError as error:
            return Kept(note=f"What it held before could not be put back: {error.strerror}.")
        return Kept(name, attributes_of(asked.fd), PUT_BACK)

    @property
    def pressed(self) -> bool:
        """Whether the store may have grown over its budget."""
        return self._size + self.store.added > self._limit

    def oldest(self, config: Config) -> int:
        """What was kept before that time (ns) is too old."""
        return time.time_ns() - config.snapshot_days * DAY

    def evict(self, config: Config, sessions: Iterable[tuple[int, int]]) -> None:
        """Lets go of what is too old or too much. Of each session the first
        and the last time (ns) count. Raises OSError."""
        now = time.time_ns()
        running = (first for first, last in sessions if last >= now - RUNS_FOR)
        spared = min(running, default=now)
        limit = config.snapshot_size
        self._size, self._limit = 0, limit + limit // _SLACK  # also where it fails
        with contextlib.suppress(BlockingIOError):  # a restore is at it
            self.store.evict(limit, self.oldest(config), spared)
        self._size = self.store.held().size
        self._limit = max(limit, self._size) + limit // _SLACK

    def status(self, config: Config) -> dict[str, Any]:
        """For people: `size` and `limit` in bytes, `files`, `oldest` in ns (0:
        nothing), `days`."""
        held = self.store.held()
        return {
            "size": held.size,
            "files": held.files,
            "oldest": held.oldest,
            "limit": config.snapshot_size,
            "days": config.snapshot_days,
            "place": os.fspath(self.store.place),
        }
