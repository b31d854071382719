"""Deletions and what is created in their place.

A deletion is never refused. Where a part of what goes was viewed, a tombstone
is laid, and who creates the name again is judged as if he replaced the old
file; refused, the old file stands there again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from noclobber import rule, tombs
from noclobber.facts import Gathered, Question
from noclobber.files import version
from noclobber.ledger import Tomb, identify
from noclobber.rule import Kind, Ruling, Verdict
from noclobber.session import Session
from noclobber.snapshots import Store
from noclobber.wire import C

Make = Callable[[Question, tuple[bytes, bytes]], Gathered]


class Deletions:
    """The tombstones of all sessions. `store` is where old content is kept."""

    def __init__(self, store: Store, page: tombs.Page) -> None:
        self._store = store
        self._page = page
        self._shown: set[bytes] = set()

    def lay(self, facts: Gathered, snapshot: str) -> list[tuple[bytes, Tomb]]:
        """The tombstones of a deletion that is let through: at the name, and
        at names that it was moved away from and that are free. None where a
        re-creation would be nobody's loss, or is a driven program's."""
        ledger = facts.session.ledger
        if not snapshot or not facts.text or facts.known or not facts.viewed:
            return []
        if facts.kind is Kind.DRIVEN:
            return []
        tomb = Tomb(facts.key, facts.stamp, facts.stat.st_mode, snapshot)
        path = facts.asked.path
        earlier = [p for p in ledger.left(facts.key) if p != path and not os.path.lexists(p)]
        laid = [(name, tomb) for name in (path, *earlier)]
        ledger.tombs.update(laid)
        return laid

    def judge(
        self, asked: Question, session: Session, make: Make
    ) -> tuple[Gathered | None, Ruling]:
        """The verdict on a creation at `asked.path`, whose new file `asked.fd`
        is open on. Where it is refused the old content stands in there."""
        tomb = session.ledger.tombs.get(asked.path)
        if tomb is None:
            return None, Ruling(Verdict.ALLOW, 1)
        try:
            fd = self._store.open(tomb.snapshot)
        except OSError:
            return None, Ruling(Verdict.ALLOW, 1)  # the store has let it go
        try:
            size = os.fstat(fd).st_size
            facts = make(asked._replace(fd=fd, start=0, end=size), (tomb.key, tomb.stamp))
            # A number that is in use again was let go by everybody.
            reused = identify(version(os.fstat(asked.fd)))[0] == tomb.key
            ruling = self._ruling(facts, may_be_open=not reused)
            facts.settle()
            if ruling.verdict is Verdict.DENY:
                tombs.put_back(asked.fd, fd, tomb)
        finally:
            os.close(fd)
        return facts, ruling

    def _ruling(self, facts: Gathered, *, may_be_open: bool) -> Ruling:
        if facts.kind is Kind.DRIVEN:
            return Ruling(Verdict.ALLOW, 11)
        if may_be_open and facts.still_open:
            return Ruling(Verdict.ALLOW, 6)
        ruling = rule.decide(facts)
        # What a snapshot would keep has been kept since the deletion; that
        # somebody allowed it is for a receipt all the same.
        if ruling.verdict is Verdict.SNAPSHOT and ruling.row != 7:
            return ruling._replace(verdict=Verdict.ALLOW)
        return ruling

    def sweep(self) -> None:
        """Nothing waits any more: processes' own marks go."""
        self._page.sweep()

    def mark(self, sessions: Iterable[Session]) -> None:
        """What an earlier daemon's processes marked and is not settled yet."""
        for session in sessions:
            self._page.mark(session.ledger.waiting)

    def show(self, sessions: Iterable[Session], *, waits: bool) -> None:
        """Tells processes by the page which names are tombstones; `waits`: of
        some deletions it is not known yet."""
        paths = {path for session in sessions for path in session.ledger.tombs}
        if paths != self._shown:
            self._page.show(paths, waits=waits)
            self._shown = paths

    def close(self) -> None:
        self._page.close()


def outlives_git(facts: Gathered, ruling: Ruling) -> bool:
    """Whether a deletion of what git holds is kept all the same: its
    re-creation may be refused."""
    return (
        facts.asked.op == C.NC_OP_DELETE
        and ruling == Ruling(Verdict.ALLOW, 11)
        and facts.text
        and facts.viewed
    )
