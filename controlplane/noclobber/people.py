"""What people ask the daemon: `status`, `stop`, `show`, `explain`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noclobber import __version__, wire
from noclobber.files import version
from noclobber.ledger import Key, identify
from noclobber.overrides import LASTS, Override, is_inside
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

    def reply(self, pid: int, record: bytes, fds: list[int], stop: Callable[[], None]) -> bytes:
        """The reply's record, for process `pid`."""
        try:
            asked = json.loads(record[wire.RECORD_SIZE :].rstrip(b"\0"))
            found = self._do(pid, asked, fds, stop)
        except (ValueError, KeyError, TypeError) as error:
            found = {"error": f"not a request: {error}"}
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
            case "show":
                return self._show(asked, fds)
        return {"error": f"this daemon does not know {asked.get('do')!r}"}

    def _allow(self, pid: int, asked: Json) -> Json:
        if is_inside(pid, self._guard.sessions.all.values()):
            return {"error": "only a person may allow it, from outside of the session"}
        path, reason = str(asked["path"]), str(asked["reason"])
        by = f"process {pid} of user {os.getuid()}"
        override = Override(path, reason, by, time.time() + LASTS)
        self._guard.allow(override)
        return {"until": override.until}

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
        sessions = self._guard.sessions
        heard = {session.id: session.last for session in sessions.all.values()}
        heard |= {name: last for name, (_, last) in self._guard.asleep().items()}
        names = sorted(heard, key=lambda name: heard[name], reverse=True)[:LOOKED_THROUGH]
        found = (sessions.get(name, 0) for name in names)
        return next((s for s in found if s.ledger.knows(key)), None) or (
            sessions.get(names[0], 0) if names else None
        )

    def _status(self) -> Json:
        guard = self._guard
        sessions = [
            {
                "session": os.fsdecode(session.id),
                "roots": [os.fsdecode(root) for root in session.roots],
                "tier": "read-only" if session.tier else "workspace-write",
                "grade": "shown" if session.attested else "read",
                "commands": len(session.ledger.commands),
                "processes": len(session.ledger.images),
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
                "grade": "",
                "commands": 0,
                "processes": 0,
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
            "troubles": [t for t in (guard.configs.trouble, guard.journal.trouble) if t],
        }
