"""What people ask the daemon: `status`, `stop`, `show`, `allow`, `settle`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from noclobber import __version__, wire
from noclobber.files import version
from noclobber.harnesses import Harnesses
from noclobber.ledger import Key, identify
from noclobber.overrides import LASTS, LONGEST, Override, who
from noclobber.protected import Place, Standing
from noclobber.wire import C

if TYPE_CHECKING:
    from noclobber.guard import Guard
    from noclobber.session import Session

LOOKED_THROUGH = 20  # sessions for one that knows a file

Json = dict[str, Any]


class People:
    """Answers requests, JSON in and JSON out. A request that fails has a
    reply with `error`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._harnesses = Harnesses(guard)

    def reply(self, pid: int, record: bytes, fds: list[int], stop: Callable[[], None]) -> bytes:
        """The reply's record, for process `pid`."""
        try:
            asked = json.loads(record[wire.RECORD_SIZE :].rstrip(b"\0"))
            found = self._do(pid, asked, fds, stop)
        except (ValueError, KeyError, TypeError) as error:
            found = {"error": f"not a request: {error}"}
        except OSError as error:
            found = {"error": f"{error.strerror}: {asked.get('path') or 'the descriptor'}"}
        return wire.record(C.NC_REPLY, wire.RECORD, tail=json.dumps(found).encode())

    def _do(self, pid: int, asked: Json, fds: list[int], stop: Callable[[], None]) -> Json:
        match asked.get("do"):
            case "status":
                return self._status()
            case "stop":
                stop()
                return {"pid": os.getpid()}
            case "allow":
                return self._allow(pid, asked)
            case "overrides":
                return {"overrides": [asdict(each) for each in self._guard.overrides.all()]}
            case "revoke":
                return self._revoke(str(asked["path"]))
            case "settle":
                return {"waiting": self._guard.incoming.finish()}
            case "show":
                return self._show(asked, fds)
            case "open" | "lines" | "agent" | "shown" | "may_replace" | "close":
                return self._harnesses.do(pid, asked, fds)
        return {"error": f"this daemon does not know {asked.get('do')!r}"}

    def _allow(self, pid: int, asked: Json) -> Json:
        guard = self._guard
        by = who(pid)
        if guard.is_inside(pid):
            if not guard.configs.of(None).allow_inside:
                return {
                    "error": "only a person may allow it, outside of the session: "
                    "this process belongs to one, or cannot be looked at"
                }
            by += ", from within a session"
        path, reason = str(asked["path"]), str(asked["reason"]).strip()
        lasts = float(asked.get("for", LASTS))
        if not reason or not 0 < lasts <= LONGEST:
            return {"error": "an override needs a reason, and a time of at most 7 days"}
        places = {each.place for each in self._standings(os.fsencode(path))}
        if places and places.isdisjoint((Place.ROOT, Place.OUTSIDE)):
            where = " and ".join(sorted(place.value for place in places))
            return {"error": f"nobody is refused there: for the known sessions it lies {where}"}
        now = time.time()
        override = Override(path, reason, by, now + lasts, now)
        guard.allow(override)
        return asdict(override)

    def _revoke(self, path: str) -> Json:
        standing = self._guard.overrides.get(os.fsencode(path))
        if standing is None:
            return {"error": f"no override stands for {path}; see noclobber allow --list"}
        self._guard.allow(replace(standing, until=0))
        return asdict(standing)

    def _standings(self, path: bytes) -> Iterator[Standing]:
        """Where a path stands for those sessions that were last heard of."""
        for session in self._latest():
            if session.roots:
                yield self._guard.guarded(session).standing(path)

    def _show(self, asked: Json, fds: list[int]) -> Json:
        """What a session knows of the file that came with the request."""
        if not fds:
            return {"error": "show needs a descriptor"}
        name, path = os.fsencode(asked.get("session", "")), os.fsencode(asked["path"])
        key, _ = identify(version(os.fstat(fds[0])))
        session = self._named(name) if name else self._knowing(key)
        if session is None:
            return {"error": f"no session {asked.get('session') or 'yet'}; see noclobber status"}
        facts = self._guard.facts_of(session, path, fds[0])
        return {
            "session": os.fsdecode(session.id),
            "grade": facts.grade,
            "size": facts.size,
            "authored": list(facts.authored),
            "shown": list(facts.shown) if facts.grade == "shown" else [],
            "read": list(facts.read),
        }

    def _named(self, name: bytes) -> Session | None:
        sessions = self._guard.sessions
        known = name in sessions.all or name in self._guard.asleep()
        return sessions.get(name, 0) if known else None

    def _knowing(self, key: Key) -> Session | None:
        """The session last heard of that knows the file, else the last one."""
        last = None
        for session in self._latest():
            if session.ledger.knows(key):
                return session
            last = last or session
        return last

    def _latest(self) -> Iterator[Session]:
        """Those last heard of, the last one first."""
        sessions = self._guard.sessions
        heard = {session.id: session.last for session in sessions.all.values()}
        heard |= {name: last for name, (_, last) in self._guard.asleep().items()}
        for name in sorted(heard, key=lambda name: heard[name], reverse=True)[:LOOKED_THROUGH]:
            yield sessions.get(name, 0)

    def _status(self) -> Json:
        guard = self._guard
        sessions = [
            {
                "session": os.fsdecode(session.id),
                "roots": [os.fsdecode(root) for root in session.roots],
                "tier": "read-only" if session.tier else "workspace-write",
                "dirty": len(session.host.files),
                "grade": "shown" if session.attested else "read",
                "commands": len(session.ledger.commands),
                "processes": len(session.ledger.images),
                "questions": sum(i.asked for i in session.ledger.images.values()),
                "first": session.first,
                "last": session.last,
            }
            for session in guard.sessions.all.values()
        ]
        sessions += [
            {
                "session": os.fsdecode(name),
                "roots": [],
                "tier": "",
                "dirty": 0,
                "grade": "",
                "commands": 0,
                "processes": 0,
                "questions": 0,
                "first": first,
                "last": last,
            }
            for name, (first, last) in guard.asleep().items()
        ]
        return {
            "version": __version__,
            "pid": os.getpid(),
            "up": (time.time_ns() - guard.started) / 1e9,
            "state": str(guard.state),
            "answers": {v.name.lower(): count for v, count in guard.answers.items()},
            "snapshots": guard.keeper.status(guard.configs.of(None)),
            "sessions": sessions,
            "troubles": [
                trouble
                for trouble in (
                    guard.configs.trouble,
                    guard.journal.trouble,
                    guard.incoming.trouble,
                    guard.export.trouble if guard.export else "",
                )
                if trouble
            ],
        }
