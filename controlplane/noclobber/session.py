"""Sessions, and how the records of the wire become facts in their ledgers.

The daemon feeds live records in here, and a journal's records after a
restart: one code for both, so that nothing that was refused becomes allowed
by killing the daemon. Nothing here touches a descriptor, the disk or a clock.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from noclobber import wire
from noclobber.holding import Origin
from noclobber.host import Host
from noclobber.ledger import (
    FRESH,
    Command,
    Image,
    Key,
    Ledger,
    Stamp,
    identify,
    is_taken_in,
    printed_as,
)
from noclobber.origins import sole_origin
from noclobber.wire import C, Record, Version, WireError

_ID_MAX: int = C.NC_ID_MAX


@dataclass(slots=True, eq=False)
class Session:
    """One agent at work, across all the processes that it starts."""

    id: bytes
    roots: tuple[bytes, ...] = ()
    tier: int = C.NC_WORKSPACE_WRITE
    first: int = 0  # ns since 1970
    last: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    attested: bool = False  # what its commands print is known: grade *shown*
    host: Host = field(default_factory=Host)
    helpers: set[bytes] = field(default_factory=set)  # sub-agents at work, by their sessions
    # By command, who forwards what it prints, while he is there.
    pumps: weakref.WeakValueDictionary[bytes, Speaker] = field(
        default_factory=weakref.WeakValueDictionary
    )

    def catch_up(self, command: bytes) -> None:
        """Has what the command printed up to now told, where a pump forwards it."""
        for ident in printed_as(command):
            pump = self.pumps.get(ident)
            if pump is not None and pump.catch_up:
                pump.catch_up()


@dataclass(eq=False)
class Speaker:
    """Whoever is at the other end of one connection."""

    id: int
    pid: int = 0  # by the kernel's word
    session: Session | None = None
    image: Image | None = None
    catch_up: Callable[[], None] | None = None  # of a pump: it tells what it has
    behind: bool = False  # it was asked to, and has not answered yet


class Live(Protocol):
    """What only the running system can tell, and a replay cannot."""

    def find_pid(self, peer: int, said: int) -> int:
        """The true pid of a process that calls itself `said`."""

    def find_other(self, peer: int, said: int) -> int:
        """The true pid of a process that `peer` calls `said`."""

    def above(self, image: Image, session: Session) -> tuple[Any, ...]:
        """The programs above a process that says hello."""

    def started(self, pid: int) -> float | None:
        """When a process began."""


class Sessions:
    """Every session that is known. Raises WireError for records that make no
    sense; what they said before stands."""

    def __init__(self) -> None:
        self.all: dict[bytes, Session] = {}
        self.live: Live | None = None
        self.load: Callable[[Session], None] | None = None
        self.made: Callable[[bytes, Version], None] | None = None
        self.kept: Callable[[Speaker, Key, Stamp, bytes, bytes], None] | None = None
        self._handlers: dict[int, Callable[[Speaker, int, bytes, int, int, int], None]] = {
            C.NC_HELLO: self._hello,
            C.NC_COMMAND: self._command,
            C.NC_READ: self._read,
            C.NC_WROTE: self._wrote,
            C.NC_PIPE: self._pipe,
            C.NC_NAMED: self._named,
            C.NC_GONE: self._gone,
            C.NC_SHOWN: self._shown,
        }

    def get(self, name: bytes, time: int) -> Session:
        """The session of that id, begun at `time` (ns) if it is a new one."""
        session = self.all.get(name)
        if session is None:
            session = self.all[name] = Session(name, first=time)
            if self.load:
                self.load(session)
        session.last = max(session.last, time)
        return session

    def take(self, speaker: Speaker, buffer: bytes, found: list[Record], time: int) -> None:
        """The reports among the records `found` in `buffer`; others are left."""
        handlers = self._handlers
        for kind, flags, at, end in found:
            handler = handlers.get(kind)
            if handler:
                handler(speaker, flags, buffer, at, end, time)
        if speaker.session:
            speaker.session.last = max(speaker.session.last, time)

    def _hello(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        fields = wire.HELLO.unpack_from(buffer, at)[4:]
        token, parent, pid, ppid, *sizes = fields
        name, command, exe, argv = wire.strings(buffer, at + wire.HELLO.size, end, sizes)
        if not token or not 0 < len(name) <= _ID_MAX:
            raise WireError("a hello without a token or a session")
        if self.live:
            find = self.live.find_other if flags & C.NC_SPOKEN_FOR else self.live.find_pid
            speaker.pid = find(speaker.pid, pid)
        pid = speaker.pid or pid
        session = self.get(name, time)
        words = tuple(wire.words(argv))
        agent = bool(flags & C.NC_IS_AGENT)
        session.attested |= is_taken_in(command)
        known = session.ledger.images.get(token)
        if agent and known is not None and speaker.image is known:
            known.agent = True  # it has been told so since its first word
            session.ledger.agents.add(token)
            return
        image = Image(token, parent, pid, ppid, exe, words, command, time, agent=agent)
        session.ledger.start_image(image)
        if self.live:
            image.above = self.live.above(image, session)
        speaker.session, speaker.image = session, image

    def _command(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        fields = wire.COMMAND.unpack_from(buffer, at)[4:]
        pid, tier, began, *sizes, limit = fields
        name, ident, cwd, argv, roots = wire.strings(buffer, at + wire.COMMAND.size, end, sizes)
        if not 0 < len(name) <= _ID_MAX:
            raise WireError("a command without a session")
        session = speaker.session = self.get(name, time)
        if flags & C.NC_ENDED:
            known = session.ledger.commands.get(ident)
            if known:
                known.ended = True
                known.failed |= bool(flags & C.NC_FAILED)
            return
        session.tier = tier
        if flags & C.NC_ATTESTED:
            session.attested = True
            session.pumps[ident] = speaker
        session.roots += tuple(r for r in wire.words(roots) if r not in session.roots)
        session.ledger.start_command(
            Command(
                id=ident,
                time=began or time,
                cwd=cwd,
                argv=tuple(wire.words(argv)),
                pid=pid,
                attested=bool(flags & C.NC_ATTESTED),
                agent=bool(flags & C.NC_AGENT),
                limit=limit,
                started=self.live.started(pid) if self.live else None,
            )
        )

    def _read(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        image, session = _who(speaker)
        session.ledger.read(image, buffer, at, end)

    def _wrote(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        image, session = _who(speaker)
        *versions, size, _ = wire.WROTE.unpack_from(buffer, at)[4:]
        (path,) = wire.strings(buffer, at + wire.WROTE.size, end, [size])
        now, before = Version(*versions[:5]), Version(*versions[5:])
        session.ledger.wrote(image, now, before, flags, path, time)
        if flags & FRESH and self.made:
            which = identify(now)
            own = sole_origin(session.ledger, *which) is Origin.MAKES
            if own and not session.ledger.was_put_back(*which):
                self.made(session.id, now)

    def _pipe(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        image, session = _who(speaker)
        ino, count = wire.PIPE.unpack_from(buffer, at)[4:]
        session.ledger.piped(image, ino, flags, count)

    def _named(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        _, session = _who(speaker)
        *version, old_size, new_size = wire.NAMED.unpack_from(buffer, at)[4:]
        old, new = wire.strings(buffer, at + wire.NAMED.size, end, [old_size, new_size])
        session.ledger.folder_gone(old)  # a file has no tombstones below it
        session.ledger.named(*identify(Version(*version)), flags, old, new)

    def _gone(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        _, session = _who(speaker)
        *version, size, kept = wire.GONE.unpack_from(buffer, at)[4:]
        path, name = wire.strings(buffer, at + wire.GONE.size, end, [size, kept])
        if flags & C.NC_FOLDER_GONE:
            session.ledger.folder_gone(path)
            return
        key, stamp = identify(Version(*version))
        session.ledger.gone(key, stamp, path)
        if flags & C.NC_KEPT and self.kept:
            self.kept(speaker, key, stamp, path, name)

    def _shown(
        self, speaker: Speaker, flags: int, buffer: bytes, at: int, end: int, time: int
    ) -> None:
        offset, *sizes = wire.SHOWN.unpack_from(buffer, at)[4:]
        name, ident, text = wire.strings(buffer, at + wire.SHOWN.size, end, sizes)
        if not 0 < len(name) <= _ID_MAX:
            raise WireError("text without a session")
        session = speaker.session = self.get(name, time)
        if flags & C.NC_CARRIED:
            session.ledger.carried |= printed_as(ident)
            return
        if flags & C.NC_INTAKE:
            if ident in session.ledger.carried:
                return
            session.attested = True
        command = session.ledger.commands.get(ident)
        if command is None:
            command = session.ledger.start_command(Command(ident, time))
        if flags & C.NC_TURN:
            command.turns.append(offset)
        if text:
            command.show(offset, text)
        else:
            speaker.behind = False
        command.ended |= bool(flags & C.NC_LAST)


def _who(speaker: Speaker) -> tuple[Image, Session]:
    if speaker.image is None or speaker.session is None:
        raise WireError("a report before the hello")
    return speaker.image, speaker.session
