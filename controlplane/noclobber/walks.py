"""Walks from a process up to its command, with the ledger for what has gone.

voice.py judges a chain of processes; processes.py finds the chain of one that
is alive. A process that was forked twice away from its parents, or that wrote
a script and ended long ago, has the chain that it had at its last exec: it is
taken down when it says hello.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from noclobber import coverage, processes, voice
from noclobber.files import version
from noclobber.holding import Holding
from noclobber.ledger import Image, Key, Stamp, identify, size_of
from noclobber.rule import Kind
from noclobber.session import Session

Chain = tuple[voice.Program, ...]

FRESH_FOR = 1.0  # s for which a process is not looked at again
_KEPT = 4096  # processes

_KINDS = {"voiced": Kind.VOICED, "direct": Kind.DIRECT, "driven": Kind.DRIVEN}


class Ancestors:
    """Takes down the chain above each process that says hello."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[int, tuple[float, processes.Seen | None]] = {}

    def of(self, image: Image, session: Session) -> Chain:
        """The programs above the image, its parent first, the command last."""
        facts = session.ledger
        if image.parent_token in facts.images:
            parent = facts.images[image.parent_token]
            return (program_of(parent), *parent.above)
        command = facts.command_of(image)
        stop = command.pid if command else 0
        parent_pid = image.ppid
        if image.pid == stop or parent_pid <= 1:
            previous = facts.images.get(image.previous)
            return previous.above if previous else ()
        since = command.started if command else None
        return processes.gather(parent_pid, stop, since=since, looking=self._look).programs

    def _look(self, pid: int) -> processes.Seen | None:
        now = self._clock()
        known = self._seen.get(pid)
        if known is None or now - known[0] > FRESH_FOR:
            if len(self._seen) > _KEPT:
                self._seen.clear()
            known = self._seen[pid] = (now, processes.look(pid))
        return known[1]


def program_of(image: Image) -> voice.Program:
    """The program that an image's hello described."""
    return voice.Program.known_by(image.pid, image.exe, image.argv, forked=bool(image.parent_token))


def chain_of(session: Session, image: Image, pid: int) -> Chain:
    """The programs from a process that waits for its answer up to its command."""
    ledger = session.ledger

    def recorded(pid: int) -> Chain:
        found = ledger.latest(pid)
        return (program_of(found), *found.above) if found else ()

    command = ledger.command_of(image)
    stop = command.pid if command else 0
    since = command.started if command else None
    chain = processes.gather(pid, stop, since=since, recorded=recorded)
    return chain.programs or recorded(pid)


class Walks:
    """The walks of one question in one session."""

    def __init__(self, session: Session, holding: Holding) -> None:
        self._session = session
        self._holding = holding
        self._kinds: dict[int, Kind] = {}

    def live(self, image: Image, pid: int) -> voice.Walk:
        """The walk from a process that waits for its answer."""
        return voice.judge(chain_of(self._session, image, pid), self._facts())

    def kind_of(self, image: Image) -> Kind:
        """What an image was, by what was taken down of it."""
        known = self._kinds.get(image.token)
        if known is None:
            self._kinds[image.token] = Kind.UNKNOWN  # while it is being worked out
            walk = voice.judge((program_of(image), *image.above), self._facts())
            known = self._kinds[image.token] = kind(walk)
        return known

    def is_session_text(self, path: bytes) -> bool:
        """Whether a script was new when this session wrote it, as the agent's
        own text."""
        return self._is_own_text(path) and self._was_new(path)

    def _facts(self) -> voice.Facts:
        ledger = self._session.ledger
        agents = {c.pid for c in ledger.commands.values() if c.agent}
        agents |= {ledger.images[token].pid for token in ledger.agents}
        return voice.Facts(
            script_is_session_text=self.is_session_text,
            source_is_own_text=self._is_own_text,
            is_agent=agents.__contains__,
        )

    def _is_own_text(self, path: bytes) -> bool:
        found = _look(path)
        if found is None:
            return False
        key, stamp = found
        if not coverage.covers(self._holding.held(key, stamp), 0, size_of(stamp)):
            return False
        images = self._session.ledger.images
        return all(
            write.token in images and self.kind_of(images[write.token]) is Kind.VOICED
            for write in self._session.ledger.authors(key, stamp)
        )

    def _was_new(self, path: bytes) -> bool:
        """Nothing stood at the path that the session had not written."""
        real = os.path.realpath(path)
        return all(
            coverage.covers(self._holding.held(key, stamp), 0, size_of(stamp))
            for key, stamp in self._session.ledger.history.get(real, {}).items()
        )


def kind(walk: voice.Walk) -> Kind:
    """The rule's word for what a walk found."""
    return _KINDS[walk.kind]


def _look(path: bytes) -> tuple[Key, Stamp] | None:
    try:
        stat = os.stat(path)  # noqa: PTH116 (a path is bytes)
    except (OSError, ValueError):
        return None
    return identify(version(stat))
