"""The ledger on disk: what was reported, as it came, replayed after a restart.

SQLite in WAL mode. What is stored is the raw records, so that there is one
way from a record to a fact and not two that differ. Writing is gathered and
committed when the daemon would otherwise sleep: no verdict waits for it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RECORDS = 0  # `data` is records of the wire
REPLACED = 1  # `data` is what the daemon itself let through
TOMB = 2  # `data` is a tombstone that it laid
TAKEN = 3  # `data` is a path whose tombstone is no more
OVERRIDE = 4  # `data` is what a person allowed, or that it was used

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY,
    speaker INTEGER NOT NULL,
    session BLOB NOT NULL,
    time INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS entries_session ON entries (session, time);
"""
_INSERT = "INSERT INTO entries (speaker, session, time, pid, kind, data) VALUES (?, ?, ?, ?, ?, ?)"


class Entry(NamedTuple):
    """One chunk of what one connection said. `time` in ns since 1970."""

    speaker: int
    session: bytes
    time: int
    pid: int
    kind: int
    data: bytes


class Journal:
    """The database at `path`. Where it cannot be read it is moved aside, what
    could be read of it is kept, and `trouble` says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._damage = ""
        self._failing = ""
        self._waiting: list[Entry] = []
        self._db: sqlite3.Connection | None = None

    def replay(self, since: int) -> Iterator[Entry]:
        """Opens the database, forgets sessions that were last heard of before
        `since` (ns), and returns the entries of the others, in order."""
        found: list[Entry] = []
        try:
            self._db = self._open()
            self._forget(since)
            rows = self._db.execute(
                "SELECT speaker, session, time, pid, kind, data FROM entries ORDER BY id"
            )
            for row in rows:
                found.append(Entry(*row))
                yield found[-1]
        except sqlite3.DatabaseError as error:
            self._start_anew(error, found)

    @property
    def trouble(self) -> str:
        """What went wrong with the database, for people; else empty."""
        return " ".join(filter(None, (self._damage, self._failing)))

    def add(self, entry: Entry) -> None:
        """Keeps an entry in memory until `commit`."""
        self._waiting.append(entry)

    @property
    def dirty(self) -> bool:
        """Whether anything waits for `commit`."""
        return bool(self._waiting)

    def commit(self) -> None:
        """Writes what is waiting. On failure (a full disk) it stays waiting,
        `trouble` says so, and the session goes on in memory."""
        if not self._waiting or self._db is None:
            return
        try:
            with self._db:
                self._db.executemany(_INSERT, self._waiting)
        except sqlite3.Error as error:
            self._failing = f"{self.path}: {error}; a restart would lose recent reports"
            return
        self._waiting.clear()
        self._failing = ""

    def forget(self, since: int) -> None:
        """Drops sessions that were last heard of before `since` (ns)."""
        if self._db is not None:
            self._forget(since)

    def close(self) -> None:
        """Commits and closes."""
        self.commit()
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(_SCHEMA)
        return db

    def _forget(self, since: int) -> None:
        assert self._db is not None
        with self._db:
            self._db.execute(
                "DELETE FROM entries WHERE session IN "
                "(SELECT session FROM entries GROUP BY session HAVING max(time) < ?)",
                (since,),
            )

    def _start_anew(self, error: Exception, found: list[Entry]) -> None:
        if self._db is not None:
            self._db.close()
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        self._damage = (
            f"{self.path} could not be read ({error}); it was moved to {aside.name} "
            f"and a new one begun with the {len(found)} entries that could be read"
        )
        self._db = self._open()
        self._waiting = found + self._waiting
        self.commit()
