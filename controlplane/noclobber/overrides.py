"""Overrides: who lets a replacement through that the table would refuse.

A person does, for one replacement of one file within a time; or the
configuration does, for files that may always be replaced. An agent that could
allow itself would be guarded by nothing, so who asks from within a session is
refused, and a variable taken out of the environment is no way out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from pathspec import GitIgnoreSpec

from noclobber import processes
from noclobber.config import Rule
from noclobber.ignored import spec_of
from noclobber.outside import SHIM
from noclobber.session import Session

LASTS = 3600.0  # s, where nobody says how long
LONGEST = 7 * 86400.0  # s
_SLACK = 2.0  # s by which the clocks of a process's start and of ours may differ

_VARIABLE = b"NOCLOBBER_SESSION="


@dataclass(frozen=True)
class Override:
    """Who allowed what, why, since when and until when (s since 1970). A rule
    of the configuration has no times."""

    path: str
    reason: str
    by: str
    until: float
    since: float = 0.0

    def packed(self) -> bytes:
        """As the journal keeps it."""
        return json.dumps(asdict(self)).encode()


class Overrides:
    """Those of people that stand, by path."""

    def __init__(self) -> None:
        self._standing: dict[bytes, Override] = {}

    def get(self, path: bytes) -> Override | None:
        """The one for a path; None where there is none or its time is over."""
        found = self._standing.get(path)
        return found if found and found.until > time.time() else None

    def all(self) -> list[Override]:
        """Those that stand, by path."""
        found = map(self.get, sorted(self._standing))
        return [each for each in found if each is not None]

    def take(self, path: bytes) -> Override | None:
        """Uses it up."""
        return self._standing.pop(path, None)

    def load(self, data: bytes) -> None:
        """One from the journal: standing, or used up where it has no time."""
        found = Override(**json.loads(data))
        path = os.fsencode(found.path)
        if found.until:
            self._standing[path] = found
        else:
            self.take(path)


class Rules:
    """What the configuration lets through."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._home = os.fsencode(os.environ.get("HOME", "")).rstrip(b"/")
        self._rules = [
            (rule, _below(rule, at_home=False), _below(rule, at_home=True)) for rule in rules
        ]

    def get(self, path: bytes, root: bytes | None) -> Override | None:
        """The first rule for an absolute path. Globs are as in .gitignore,
        relative to the root, or to the home directory after ~/."""
        for rule, in_root, at_home in self._rules:
            for base, spec in ((root, in_root), (self._home, at_home)):
                top = base.rstrip(b"/") + b"/" if base else b""
                below = os.fsdecode(path[len(top) :])
                if top and path.startswith(top) and spec.match_file(below):
                    return Override(os.fsdecode(path), rule.reason, "the configuration", 0)
        return None


def _below(rule: Rule, *, at_home: bool) -> GitIgnoreSpec:
    globs = [glob for glob in rule.paths if glob.startswith("~/") is at_home]
    return spec_of(glob.removeprefix("~") for glob in globs)


def is_inside(pid: int, sessions: Collection[Session], names: Iterable[bytes]) -> bool:
    """Whether a process belongs to a session, of which `names` are all that
    are known and `sessions` those in memory: by what it is itself, or because
    one of its ancestors is a process of one."""
    variables = _environ(pid)
    if variables is None:
        return True  # who cannot be seen is not taken for a person
    if any(word.startswith(_VARIABLE) for word in variables) or _is_guarded(pid):
        return True
    known = {_VARIABLE + name for name in names}
    commands = {
        (command.pid, command.started)
        for session in sessions
        for command in session.ledger.commands.values()
        if not command.ended and command.started is not None
    }
    return any(
        not known.isdisjoint(_environ(one.pid) or ())
        or (one.pid, processes.started(one.pid)) in commands
        or _has_reported(one.pid, sessions)
        for one in processes.gather(pid, 0).programs
    )


def _environ(pid: int) -> list[bytes] | None:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None


def _is_guarded(pid: int) -> bool:
    try:
        return SHIM.encode() in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return True


def _has_reported(pid: int, sessions: Iterable[Session]) -> bool:
    """Whether it said hello in a session: as this process, not as one that had
    the number before."""
    times = [image.time for each in sessions if (image := each.ledger.latest(pid))]
    try:
        began = psutil.Process(pid).create_time() if times else 0.0
    except psutil.Error:
        return False
    return any(began <= time / 1e9 + _SLACK for time in times)


def who(pid: int) -> str:
    """Whose process it is, for people: the user, and the terminal if any."""
    try:
        process = psutil.Process(pid)
        user, terminal = process.username(), process.terminal()
    except psutil.Error:
        return f"user {os.getuid()} (process {pid})"
    return f"{user}{f' on {terminal}' if terminal else ''} (process {pid})"
