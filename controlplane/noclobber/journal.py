"""The ledger on disk: what was reported, as it came, replayed after a restart.

SQLite in WAL mode. What is stored is the raw records, so that there is one
way from a record to a fact and not two that differ. Writing is gathered and
committed when the daemon would otherwise sleep: no verdict waits for it.
"""

from __future__ import annotations

import contextlib
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
HOST = 5  # `data` is what is the host's, or no longer, or lifted
EDIT = 6  # `data` is what a file held when it was opened to be written in place
AGAIN = 7  # `data` is a version whose content was put back
FORGOT = 8  # what was shown is no more before the agent

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

    def open(self, since: int) -> dict[bytes, tuple[int, int]]:
        """Opens the database, forgets sessions that were last heard of before
        `since` (ns), and returns of each other one its first and last time."""
        try:
            self._db = self._open()
            self._forget(since)
            rows = self._db.execute(
                "SELECT session, min(time), max(time) FROM entries GROUP BY session"
            )
            return {session: (first, last) for session, first, last in rows}
        except sqlite3.DatabaseError as error:
            self._start_anew(error)
            return self.open(since)

    @property
    def last_speaker(self) -> int:
        """The highest number of a connection so far."""
        assert self._db is not None
        (last,) = self._db.execute("SELECT max(speaker) FROM entries").fetchone()
        return last or 0

    def having(self, kind: int) -> set[bytes]:
        """The sessions with an entry of that kind."""
        assert self._db is not None
        rows = self._db.execute("SELECT DISTINCT session FROM entries WHERE kind = ?", (kind,))
        return {session for (session,) in rows}

    def entries(self, session: bytes) -> Iterator[Entry]:
        """What was said in a session, in order. Where the database turns out to
        be damaged, what can be read."""
        self.commit()
        if self._db is None:
            return
        try:
            rows = self._db.execute(
                "SELECT speaker, session, time, pid, kind, data FROM entries "
                "WHERE session = ? ORDER BY id",
                (session,),
            )
            for row in rows:
                yield Entry(*row)
        except sqlite3.DatabaseError as error:
            self._start_anew(error)

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

    @property
    def failing(self) -> bool:
        """Whether the last `commit` failed."""
        return bool(self._failing)

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
        db = sqlite3.connect(self.path, timeout=0)  # no verdict waits for it
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

    def _start_anew(self, error: Exception) -> None:
        """Moves the database aside; what of it can be read goes into a new one."""
        saved = self._salvaged()
        if self._db is not None:
            self._db.close()
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        self._damage = (
            f"{self.path} could not be read ({error}); it was moved to {aside.name} "
            f"and a new one begun with the {len(saved)} entries that could be read."
        )
        self._db = self._open()
        self._waiting = saved + self._waiting
        self.commit()

    def _salvaged(self) -> list[Entry]:
        saved: list[Entry] = []
        if self._db is not None:
            with contextlib.suppress(sqlite3.DatabaseError):
                for row in self._db.execute(
                    "SELECT speaker, session, time, pid, kind, data FROM entries ORDER BY id"
                ):
                    saved.append(Entry(*row))
        return saved
