"""One-time overrides: a person lets one replacement of one file through.

An agent that could allow itself would be guarded by nothing, so who asks from
within a session is refused.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from noclobber import processes
from noclobber.session import Session

LASTS = 3600  # s


@dataclass(frozen=True)
class Override:
    """Who allowed what, why and until when (s since 1970)."""

    path: str
    reason: str
    by: str
    until: float

    def packed(self) -> bytes:
        """As the journal keeps it."""
        return json.dumps(asdict(self)).encode()


class Overrides:
    """Those that stand, by path."""

    def __init__(self) -> None:
        self._standing: dict[bytes, Override] = {}

    def allow(self, override: Override) -> None:
        """Lets one replacement of its path through."""
        self._standing[os.fsencode(override.path)] = override

    def get(self, path: bytes) -> Override | None:
        """The one for a path; None where there is none or its time is over."""
        found = self._standing.get(path)
        return found if found and found.until > time.time() else None

    def take(self, path: bytes) -> Override | None:
        """Uses it up."""
        return self._standing.pop(path, None)

    def load(self, data: bytes) -> None:
        """One from the journal: standing, or used up where it has no time."""
        found = Override(**json.loads(data))
        if found.until:
            self.allow(found)
        else:
            self.take(os.fsencode(found.path))


def is_inside(pid: int, sessions: Iterable[Session]) -> bool:
    """Whether a process belongs to a session: by its environment, or because
    one of its ancestors is a command of one."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return True  # who cannot be seen is not taken for a person
    if any(word.startswith(b"NOCLOBBER_SESSION=") for word in environ.split(b"\0")):
        return True
    commands = {
        (command.pid, command.started)
        for session in sessions
        for command in session.ledger.commands.values()
        if not command.ended and command.started is not None
    }
    above = processes.gather(pid, 0).programs
    return any((one.pid, processes.started(one.pid)) in commands for one in above)
