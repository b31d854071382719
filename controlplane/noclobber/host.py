"""What is the host's in a session's roots: the work that was under way, and
not committed, when the session began.

A value with the changes that it goes through; each has a form for the
journal, so that a restart of the daemon makes nobody's work fair game.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from noclobber.dirty import State


@dataclass(slots=True)
class Host:
    """`files` are absolute paths; a foreign clone's has a slash at its end.
    `begun` are the roots whose state at the start is known. `lifts` says for
    which commands the guard is lifted, and for what task; empty: for all."""

    begun: set[bytes] = field(default_factory=set)
    files: set[bytes] = field(default_factory=set)
    stashes: set[bytes] = field(default_factory=set)
    read_only: bool = False
    lifts: dict[bytes, str] = field(default_factory=dict)
    lifted_for: set[tuple[bytes, bytes]] = field(default_factory=set)  # command, path

    @property
    def has_any(self) -> bool:
        """Whether git has to be asked about before it starts."""
        return bool(self.files or self.stashes)

    def lifted(self, command: bytes) -> str | None:
        """The task for which the guard is lifted for a command."""
        return self.lifts.get(command, self.lifts.get(b""))

    def owned(self, paths: Iterable[bytes]) -> list[bytes]:
        """The host's files among `paths`; a directory (with a slash at its
        end) stands for all that is in it."""
        found = set[bytes]()
        for path in paths:
            if path in self.files:
                found.add(path)
            if path.endswith(b"/"):
                found |= {file for file in self.files if file.startswith(path)}
        return sorted(
            path
            for path in found
            if not path.endswith(b"/")
            or not any(each != path and each.startswith(path) for each in found)
        )

    # Changes, as the journal keeps them.

    def began(self, root: bytes, state: State | None, *, read_only: bool) -> bytes:
        """The state of a root, None where it is not to be guarded."""
        change: dict[str, Any] = {"root": os.fsdecode(root)}
        if state is not None:
            change["files"] = [os.fsdecode(path) for path in state.files]
            change["stashes"] = [name.decode() for name in state.stashes]
            change["read_only"] = read_only and state.is_dirty
        return self._made(change)

    def committed(self, paths: Iterable[bytes]) -> bytes:
        """Those are the host's no longer: nothing of them is uncommitted, or a
        person let them go."""
        return self._made({"gone": [os.fsdecode(path) for path in paths]})

    def lift(self, command: bytes, task: str) -> bytes:
        """The guard is lifted for a command (empty: for all)."""
        return self._made({"lift": os.fsdecode(command), "task": task})

    def _made(self, change: dict[str, Any]) -> bytes:
        data = json.dumps(change).encode()
        self.replay(data)
        return data

    def replay(self, data: bytes) -> None:
        """One change, new or from the journal."""
        change = json.loads(data)
        if "root" in change:
            self.begun.add(os.fsencode(change["root"]))
        self.files |= {os.fsencode(path) for path in change.get("files", [])}
        self.stashes |= {name.encode() for name in change.get("stashes", [])}
        self.read_only |= change.get("read_only", False)
        self.files -= {os.fsencode(path) for path in change.get("gone", [])}
        if "lift" in change:
            self.lifts[os.fsencode(change["lift"])] = change["task"]
