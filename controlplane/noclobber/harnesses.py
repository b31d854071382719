"""What a harness tells the daemon and asks it: the other half of api.py.

What it tells becomes records of the wire: telling.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from noclobber import coverage, reasons, report, rule, telling
from noclobber.coverage import Coverage
from noclobber.facts import Gathered, Question
from noclobber.files import content_of, version
from noclobber.ledger import Image, Key, Stamp
from noclobber.pages import line_start
from noclobber.placing import exactly
from noclobber.protected import Place
from noclobber.rule import Kind, Ruling, Verdict
from noclobber.session import Session
from noclobber.telling import PIECE, Source, Telling, ended, new_command
from noclobber.voice import Walk
from noclobber.wire import C

if TYPE_CHECKING:
    from noclobber.guard import Guard

Json = dict[str, Any]

_NOTHING = {
    "allowed": True, "verdict": "allow", "row": 1, "reason": report.ALLOWED[1], "message": "",
    "grade": "shown", "seen_bytes": 0, "total_bytes": 0, "unseen": [],
}  # fmt: skip


class Foreseen(Gathered):
    """The facts of a replacement by the agent's own text that nobody has begun."""

    @property
    def kind(self) -> Kind:
        return Kind.VOICED

    @property
    def helped(self) -> Coverage:
        """Nothing: whose text it is is known."""
        return coverage.NOTHING

    @property
    def walk(self) -> Walk:
        """No process stands between the agent and what it writes."""
        return Walk("voiced", ())


class Harnesses:
    """Answers harnesses. What is wrong with a request is a ValueError."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._telling = Telling(guard)

    def do(self, pid: int, asked: Json, fds: list[int]) -> Json:
        """The reply to process `pid`, whose request came with `fds`."""
        what = asked["do"]
        if what == "lines":
            return _lines(_only(fds), int(asked["first"]), int(asked["last"]))
        name = os.fsencode(asked["session"])
        if not 0 < len(name) <= C.NC_ID_MAX:
            raise ValueError(f"a session's name has 1 to {C.NC_ID_MAX} bytes")
        if what == "open":
            roots = [os.fsencode(root) for root in asked["roots"]]
            if not roots or not all(root.startswith(b"/") for root in roots):
                raise ValueError("a root is an absolute path")
            self._telling.open(name, roots)
            return {}
        if name not in self._guard.sessions.all and name not in self._guard.asleep():
            return {"error": f"no session {asked['session']}; open it first"}
        match what:
            case "agent":
                source = Source(name, os.fsencode(asked["command"]), ())
                self._telling.say(self._telling.command(source, pid=pid, flags=C.NC_AGENT))
            case "close":
                self._telling.say(ended(Source(name, os.fsencode(asked["command"]), ())))
            case "shown":
                path = os.fsencode(asked["path"])
                self._shown(name, path, _only(fds), int(asked["start"]), int(asked["end"]))
            case _:
                return self._may_replace(name, os.fsencode(asked["path"]), fds)
        return {}

    def _shown(self, name: bytes, path: bytes, fd: int, start: int, end: int) -> None:
        """Bytes of what `fd` is open on reached the agent; `path` is empty where
        it is no file of the user's."""
        if not 0 <= start <= end <= start + PIECE:
            raise ValueError(f"no range of at most {PIECE} bytes: {start} to {end}")
        readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            held = version(os.fstat(readable))
            text = exactly(readable, end - start, start)
        finally:
            os.close(readable)
        if not text:
            return
        source = Source(name, new_command(), (b"shown", path))
        records = [*telling.shown(source, text)]
        if path:
            ranges = ((start, start + len(text)),)
            records = [telling.hello(source), *telling.read(held, ranges), *records]
        self._telling.whole(source, *records)

    def _may_replace(self, name: bytes, path: bytes, fds: list[int]) -> Json:
        session = self._guard.sessions.get(name, 0)
        standing = self._guard.guarded(session).standing(path)
        if session.tier == C.NC_READ_ONLY and standing.place is Place.ROOT:
            message = report.read_only(b"", path)
            return {**_NOTHING, "allowed": False, "verdict": "deny", "row": rule.BESIDE,
                    "reason": report.TIER, "message": message}  # fmt: skip
        if fds:
            return self._foreseen(session, path, fds[0])
        self._guard.incoming.settle(session, path)
        tomb = session.ledger.tombs.get(path)
        if tomb is None:
            return _NOTHING
        try:
            kept = self._guard.keeper.store.open(tomb.snapshot)
        except OSError:
            return _NOTHING  # the store has let it go
        try:
            return self._foreseen(session, path, kept, (tomb.key, tomb.stamp))
        finally:
            os.close(kept)

    def _foreseen(
        self, session: Session, path: bytes, fd: int, deleted: tuple[Key, Stamp] | None = None
    ) -> Json:
        guard = self._guard
        size = os.fstat(fd).st_size
        asked = Question(C.NC_OP_TRUNCATE, path, b"", 0, size, fd, None, 0)
        nobody = Image(0, 0, 0, 0, b"", (), b"", 0)
        facts = Foreseen(asked, session, nobody, guard.guarded(session), deleted)
        return _told(facts, rule.decide(facts), guard.sessions.all.values())


def _only(fds: list[int]) -> int:
    if len(fds) != 1:
        raise ValueError("one descriptor is needed")
    return fds[0]


def _lines(fd: int, first: int, last: int) -> Json:
    """The bytes of those lines, from 1, both included."""
    content = content_of(fd, os.fstat(fd).st_size) or b""
    start = line_start(content, 0, first - 1)
    return {"start": start, "end": line_start(content, start, last - first + 1)}


def _told(facts: Gathered, ruling: Ruling, sessions: Iterable[Session]) -> Json:
    found = facts.extent
    denied = ruling.verdict is Verdict.DENY
    if denied:
        reason = reasons.because(facts, ruling, sessions) or report.UNSEEN
    elif ruling.verdict is Verdict.ALLOW:
        reason = report.ALLOWED[ruling.row]
    else:
        reason = reasons.told(facts, ruling, sessions, "")
    return {
        "allowed": not denied,
        "verdict": ruling.verdict.name.lower(),
        "row": ruling.row,
        "reason": reason,
        "message": reasons.told(facts, ruling, sessions, "") if denied else "",
        "grade": facts.grade,
        "seen_bytes": found.seen_bytes,
        "total_bytes": found.total_bytes,
        "unseen": [asdict(one) for one in found.unseen],
    }
