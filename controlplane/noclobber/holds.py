"""What the agent's own process writes anew, looked at when it is closed.

It read the file whole, and nobody can say what its Read tool showed of that.
So it is let go on, the old content is kept, and when the file is closed the
new content is judged: what is a cut of the old one is a loss that nobody
meant, and the old content goes back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import psutil

from noclobber import placing, rule
from noclobber.cuts import CHECKED
from noclobber.facts import Gathered, Question
from noclobber.files import content_of, identity, open_files, writes_through
from noclobber.ledger import Key, Stamp, version_of
from noclobber.rule import Ruling, Verdict
from noclobber.session import Session
from noclobber.snapshots import Store
from noclobber.wire import C

HELD = 1024  # files of all sessions; what is forgotten was kept all the same

_HOLDS = frozenset((C.NC_OP_TRUNCATE, C.NC_OP_SHRINK, C.NC_OP_PUNCH, C.NC_OP_CREATE))

Make = Callable[[Question, tuple[Key, Stamp], bytes | None], Gathered]


class Hold(NamedTuple):
    """What a file held when the agent's process began to write it anew."""

    path: bytes
    key: Key
    stamp: Stamp
    snapshot: str
    op: int


class Holds:
    """The files that are being written; what they held is in `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._all: dict[tuple[bytes, Key], Hold] = {}

    def wants(self, facts: Gathered, ruling: Ruling) -> bool:
        """Whether a replacement that is let through is to be looked at."""
        if not facts.image.agent or facts.size > CHECKED or not facts.text or facts.output:
            return False
        if facts.asked.op == C.NC_OP_UPDATE:
            return ruling.row == 11 and facts.transform
        return ruling.row == 6 and facts.asked.op in _HOLDS

    def has(self, session: Session, fd: int) -> bool:
        """Whether the file is being written: what more is done to it until it
        is closed is part of that."""
        return bool(self._all) and (session.id, identity(os.fstat(fd))[0]) in self._all

    def snapshot(self, session: Session, key: Key) -> str:
        """Where what the file held is kept; empty where it is not looked at."""
        hold = self._all.get((session.id, key))
        return hold.snapshot if hold else ""

    def add(self, facts: Gathered, fd: int, snapshot: str) -> int:
        """The file that `fd` is open on is about to be written anew. What it
        held is kept under that name, or is kept now. Returns the verdict."""
        asked = facts.asked
        try:
            snapshot = snapshot or self._store.keep(fd)  # where git has it: at hand
        except OSError:
            return Verdict.ALLOW.value
        name = facts.session.id, identity(os.fstat(fd))[0]
        self._all.pop(name, None)
        self._all[name] = Hold(asked.path, facts.key, facts.stamp, snapshot, asked.op)
        if len(self._all) > HELD:
            del self._all[next(iter(self._all))]
        return int(C.NC_HOLD)

    def judge(
        self, asked: Question, session: Session, key: Key, make: Make
    ) -> tuple[Gathered | None, Ruling, str]:
        """The verdict on what `asked.fd` holds now that it is closed, and what
        went wrong. Where it is refused the old content stands there again."""
        hold = self._all.pop((session.id, key), None)
        nothing = None, Ruling(Verdict.ALLOW, 1), ""
        if hold is None or (asked.start and _is_written(asked)):
            return nothing
        new = content_of(asked.fd, os.fstat(asked.fd).st_size)
        try:
            kept = self._store.open(hold.snapshot)
        except OSError:
            return nothing  # the store has let it go
        trouble = ""
        try:
            about = asked._replace(op=hold.op, path=hold.path, fd=kept, start=0)
            facts = make(about._replace(end=os.fstat(kept).st_size), (hold.key, hold.stamp), new)
            ruling = rule.decide(facts)
            facts.settle()
            if ruling.verdict is Verdict.DENY:
                try:
                    placing.put_back(kept, asked.fd, version_of(hold.key, hold.stamp).mtime)
                except OSError as error:
                    trouble = (
                        f"The old content could not be put back ({error.strerror}); it is kept: "
                        "noclobber restore."
                    )
        finally:
            os.close(kept)
        return facts, ruling, trouble


def _is_written(asked: Question) -> bool:
    """Whether a child of the agent's has the file open for writing."""
    stat = os.fstat(asked.fd)
    try:
        children = psutil.Process(asked.pid).children(recursive=True)
    except psutil.Error:
        return False
    return any(
        (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino) and writes_through(fdinfo)
        for child in children
        for fdinfo, found in open_files(child.pid)
    )
