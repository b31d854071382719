"""What one session did, as its processes reported it.

A guard that forgets which process read what, or which version it read, can
neither tell a transform from a blind overwrite nor an own file from somebody
else's. The ledger is a value: reports go in, in the order in which they came,
and questions about files (`authored`, `read_by`, `paths`) are answered from
them. It touches neither disk nor clock, so that a daemon started anew can
rebuild it by feeding the same reports again.

Files are known by `key` (device and inode), their versions by `stamp` (size,
mtime, ctime); both stay the packed bytes of the wire.
"""

from __future__ import annotations

import zlib
from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from noclobber import coverage, wire
from noclobber.coverage import Coverage
from noclobber.readings import Read, Readings
from noclobber.wire import C, Version

Key = bytes
Stamp = bytes

KEY_SIZE: int = wire.ffi.offsetof("struct nc_version", "size")
STAMP_SIZE = wire.VERSION.size - KEY_SIZE
SIZE_MTIME: int = wire.ffi.offsetof("struct nc_version", "ctime") - KEY_SIZE

REPEATS_IN = 16  # last reports of a file among which the same opening is looked for
WRITES_KEPT = 128  # reports of one file's writers
KNOWN_KEPT = 64  # versions of one file

FRESH: int = C.NC_CREATED | C.NC_TRUNCATED
_ENDS = frozenset((C.NC_OP_RENAME, C.NC_OP_DELETE))  # of the file at that name


def identify(version: Version) -> tuple[Key, Stamp]:
    """A version as the ledger keeps it."""
    raw = wire.VERSION.pack(*version)
    return raw[:KEY_SIZE], raw[KEY_SIZE:]


def version_of(key: Key, stamp: Stamp) -> Version:
    """The numbers of a version that the ledger keeps."""
    return Version(*wire.VERSION.unpack(key + stamp))


def size_of(stamp: Stamp) -> int:
    """Bytes of the file at that moment."""
    return version_of(bytes(KEY_SIZE), stamp).size


@dataclass(slots=True, eq=False)
class Image:
    """A process from exec (or fork) to exec or exit."""

    token: int
    parent_token: int  # the image it was forked from; 0: a program of its own
    pid: int  # in the daemon's own pid namespace; 0: a harness's report
    ppid: int
    exe: bytes
    argv: tuple[bytes, ...]
    command: bytes
    time: int  # of its first word, ns since 1970
    previous: int = 0  # token of the image that called exec, where known
    above: tuple[Any, ...] = ()  # voice.Programs, taken down at its hello
    agent: bool = False  # the agent's own process
    asked: int = 0  # questions so far
    origins: dict[bool, Any] = field(default_factory=dict)  # origins.py's answers
    reads: list[range] = field(default_factory=list)  # their numbers in the ledger
    keys: frozenset[Key] | None = None  # of the files it read, where it was asked for
    pipes: list[tuple[int, int, int]] = field(default_factory=list)  # ino, end, bytes


def is_taken_in(command: bytes) -> bool:
    """Whether the agent's own process takes in what the command prints."""
    return command.startswith(b"agent-") and b"." in command


def printed_as(command: bytes) -> frozenset[bytes]:
    """The ids under which what a command printed is told. A child of the agent
    has the agent's id, a dot, and the ways by which its output goes: each is
    one of its own (csrc/agent.c)."""
    agent, dot, ways = command.partition(b".")
    if not dot:
        return frozenset((command,))
    return frozenset(agent + b"." + way for way in ways.split(b","))


@dataclass(slots=True, eq=False)
class Command:
    """One tool call: what the launcher started."""

    id: bytes
    time: int
    cwd: bytes = b""
    argv: tuple[bytes, ...] = ()
    pid: int = 0
    attested: bool = False
    agent: bool = False
    ended: bool = False
    failed: bool = False
    limit: int = 0  # bytes of a turn's output that are shown; 0: as configured
    turns: list[int] = field(default_factory=list)  # where somebody typed: offsets
    started: float | None = None  # of its process, as processes.started has it
    text: list[tuple[int, bytes]] = field(default_factory=list)  # offset, deflated
    size: int = 0  # bytes of that text

    def show(self, offset: int, text: bytes) -> None:
        """Text at that offset of its output reached the agent."""
        self.size += len(text)
        self.text.append((offset, zlib.compress(text, 1)))

    def printed(self, since: int = 0) -> list[tuple[int, bytes]]:
        """What it printed, in unbroken pieces with their offsets, in order;
        `since` leaves out as many of the first reports."""
        pieces: list[tuple[int, bytes]] = []
        run: list[bytes] = []
        start = at = 0
        for offset, deflated in sorted(self.text[since:]):
            if run and offset != at:
                pieces.append((start, b"".join(run)))
                run = []
            if not run:
                start = offset
            run.append(zlib.decompress(deflated))
            at = offset + len(run[-1])
        if run:
            pieces.append((start, b"".join(run)))
        return pieces


class Write(NamedTuple):
    """A file that was open for writing, as it stood when that ended (or when
    its process called exec or asked a question). Sizes in bytes, ns."""

    ctime: int
    seq: int
    token: int
    flags: int
    stamp: Stamp
    opened: Stamp
    size: int
    start: int  # its size when it was opened
    time: int  # of the report
    began: int  # ctime when it was opened
    again: bool  # an earlier report speaks of the same opening

    @property
    def begins(self) -> bool:
        """Whether the file held nothing when this writing began."""
        return bool(self.flags & FRESH) or self.start == 0

    def within(self, other: Write) -> bool:
        """Whether it took place while the other writer had the file open: a
        program into which a shell's group was redirected. Within one tick of
        the clock only what the other found when it opened the file tells."""
        if self.ctime == other.began:
            return not self.begins and self.stamp != other.opened
        return self.ctime > other.began


class Replaced(NamedTuple):
    """A replacement or deletion that was let through."""

    path: bytes
    key: Key
    stamp: Stamp
    token: int
    op: int
    known: bool  # the session held or knew every byte of it then
    later: bool = False  # by what its own command printed: known to those that follow


class Tomb(NamedTuple):
    """What was deleted at a path, and where its content is kept."""

    key: Key
    stamp: Stamp
    mode: int
    snapshot: str


class Edit(NamedTuple):
    """What a file held when a command opened it to write in place."""

    command: bytes
    stamp: Stamp
    snapshot: str


class Ledger:
    """The facts of one session. Nothing here raises for odd reports."""

    def __init__(self) -> None:
        self.images: dict[int, Image] = {}
        self.told: set[int] = set()  # no process: a harness said what was shown
        self.forgot = 0  # times that what was shown was no more
        self.commands: dict[bytes, Command] = {}
        self.writes: dict[Key, list[Write]] = {}
        self.pipes: dict[int, list[tuple[int, int, int]]] = {}  # ino: token, end, bytes
        self.history: dict[bytes, dict[Key, Stamp]] = {}  # what stood there, as it was first
        self.names: dict[Key, list[bytes]] = {}
        self._left: dict[Key, list[bytes]] = {}
        self.links: dict[Key, list[tuple[bytes, bytes]]] = {}
        self.known: dict[Key, dict[Stamp, bytes]] = {}  # not to that command
        self.tombs: dict[bytes, Tomb] = {}
        self.waiting: dict[bytes, bytes] = {}  # deleted path: its name in `incoming`
        self.edits: dict[Key, Edit] = {}
        self.agents: set[int] = set()  # tokens of the agent's own images
        self.carried: set[bytes] = set()  # commands whose intake a pump tells
        self.seq = 0
        self._readings = Readings()
        self._restamped: dict[Key, set[Stamp]] = {}
        self._by_pid: dict[int, int] = {}

    # Reports.

    def start_image(self, image: Image) -> None:
        """An image said hello."""
        self.seq += 1
        if not image.parent_token:
            image.previous = self._by_pid.get(image.pid, 0)
        self.images[image.token] = image
        if not image.pid:
            self.told.add(image.token)
        if image.agent:
            self.agents.add(image.token)
        self._by_pid[image.pid] = image.token

    def start_command(self, command: Command) -> Command:
        """The launcher started a command, or text of it came first."""
        self.seq += 1
        known = self.commands.get(command.id)
        if known:
            command.text, command.size = known.text, known.size
        self.commands[command.id] = command
        return command

    @property
    def readers(self) -> set[int] | None:
        """Tokens of the images whose reading may be what the agent knows; None:
        all. What its own process read, it alone knows what it showed of."""
        return self.images.keys() - self.agents if self.agents else None

    def command_of(self, image: Image) -> Command | None:
        """The command that an image belongs to; for a child of the agent it is
        the agent's own."""
        ident = image.command
        return self.commands.get(ident.partition(b".")[0] if is_taken_in(ident) else ident)

    def read(self, image: Image, buffer: bytes, at: int, end: int) -> None:
        """Files were read: a run of read records. Raises WireError for one
        that makes no sense; those before it stand."""
        image.keys = None
        first = self._readings.count + 1
        try:
            self._readings.take(image.token, buffer, at, end)
        finally:
            stop = self._readings.count + 1
            if image.reads and image.reads[-1].stop == first:
                first = image.reads.pop().start
            if first < stop:
                image.reads.append(range(first, stop))

    def wrote(
        self, image: Image, now: Version, before: Version, flags: int, path: bytes, time: int
    ) -> None:
        """A file open for writing was reported: what it is, what it was."""
        self.seq += 1
        key, stamp = identify(now)
        _, opened = identify(before)
        writes = self.writes.setdefault(key, [])
        # A shell reports `> f` at exec, and once more when its own descriptor
        # closes; a program with many open files reports them at each question.
        again = any(w.opened == opened and w.begins for w in writes[-REPEATS_IN:])
        write = Write(
            now.ctime, self.seq, image.token, flags, stamp, opened,
            now.size, before.size, time, before.ctime, again,
        )  # fmt: skip
        if writes and writes[-1][2:6] == write[2:6]:
            return
        if writes and write < writes[-1]:
            insort(writes, write)  # reports of several processes cross each other
        else:
            writes.append(write)
        if len(writes) > WRITES_KEPT:
            del writes[: WRITES_KEPT // 2]  # of older versions less is known then
        self._name(key, path)

    def piped(self, image: Image, ino: int, end: int, count: int) -> None:
        """`image` used an end of a pipe; `count` bytes went through it so far."""
        self.seq += 1
        image.pipes.append((ino, end, count))
        self.pipes.setdefault(ino, []).append((image.token, end, count))

    def named(self, key: Key, stamp: Stamp, how: int, old: bytes, new: bytes) -> None:
        """A file got the name `new`."""
        self.seq += 1
        self._restamped.setdefault(key, set()).add(stamp)
        self._name(key, new)
        if how == C.NC_LINKED:
            self.links.setdefault(key, []).append((old, new))
        elif old:
            self._name(key, old)
            self._stood(old, key, stamp)
            self._left.setdefault(key, []).append(old)

    def forget_shown(self) -> None:
        """What the agent was shown is no longer before it. What it wrote is
        its own still."""
        self.seq += 1
        self.told.clear()
        self.forgot += 1
        for command in self.commands.values():
            command.text, command.size = [], 0

    def stands_again(self, key: Key, stamp: Stamp) -> None:
        """What was put back is the version that it was, under a new ctime."""
        self.seq += 1
        self._restamped.setdefault(key, set()).add(stamp)

    def was_put_back(self, key: Key, stamp: Stamp) -> bool:
        """Whether that version only stands again, or was renamed."""
        return stamp in self._restamped.get(key, ())

    def gone(self, key: Key, stamp: Stamp, path: bytes) -> None:
        """A name was deleted."""
        self.seq += 1
        self._left.pop(key, None)
        if path:
            self._stood(path, key, stamp)
            self._name(key, path)

    def folder_gone(self, path: bytes) -> None:
        """A directory was deleted: tombstones live no longer than it."""
        below = path.rstrip(b"/") + b"/"
        for names in (self.tombs, self.waiting):
            for name in [name for name in names if name.startswith(below)]:
                del names[name]

    def replaced(self, what: Replaced) -> None:
        """The daemon let something through that changed or took this version."""
        self.seq += 1
        if what.path and what.op != C.NC_OP_UPDATE:
            self._stood(what.path, what.key, what.stamp)
            self._name(what.key, what.path)
            if what.op in _ENDS:
                self._left.pop(what.key, None)
        if what.known:
            known = self.known.setdefault(what.key, {})
            known[what.stamp] = self._command_of(what.token) if what.later else b""
            if len(known) > KNOWN_KEPT:
                del known[next(iter(known))]

    def _command_of(self, token: int) -> bytes:
        image = self.images.get(token)
        return image.command if image else b""

    def _stood(self, path: bytes, key: Key, stamp: Stamp) -> None:
        self.history.setdefault(path, {}).setdefault(key, stamp)

    def _name(self, key: Key, path: bytes) -> None:
        names = self.names.setdefault(key, [])
        if path and path not in names:
            names.append(path)

    # Questions.

    def reads(self, key: Key) -> Iterator[Read]:
        """Every report of a read of that file, oldest first. A read with no
        ranges is a descriptor that was open for reading and unused yet."""
        return self._readings.of(key)

    def keys_read(self, image: Image) -> frozenset[Key]:
        """The files that an image read."""
        if image.keys is None:
            image.keys = self._readings.keys(image.reads)
        return image.keys

    def knows(self, key: Key) -> bool:
        """Whether anything was reported of that file."""
        return key in self._readings or key in self.writes or key in self.names

    def has_reads(self, key: Key) -> bool:
        """Whether any read of that file was reported."""
        return key in self._readings

    def was_read(self, key: Key) -> bool:
        """Whether any byte of any version of that file was read."""
        return any(read.ranges for read in self.reads(key))

    def read_by(self, tokens: Iterable[int] | None, key: Key, stamp: Stamp) -> Coverage:
        """What of one version the images (None: all) read, in bytes.

        What a process read through a descriptor that is open for writing too
        counts although the version changed since: it changed it itself.
        """
        wanted = None if tokens is None else set(tokens)
        size = size_of(stamp)
        found = [
            read.ranges
            for read in self.reads(key)
            if (wanted is None or read.token in wanted)
            and (
                self.same(key, read.stamp, stamp)
                or (wanted is not None and read.flags & C.NC_WRITABLE)
            )
        ]
        return coverage.clip(coverage.union(*map(coverage.normal, found)), 0, size)

    def same(self, key: Key, one: Stamp, other: Stamp) -> bool:
        """Whether two stamps are one version. A rename or a link moves the
        ctime, and so makes another stamp of the same bytes."""
        if one == other:
            return True
        if one[:SIZE_MTIME] != other[:SIZE_MTIME]:
            return False
        moved = self._restamped.get(key)
        return moved is not None and (one in moved or other in moved)

    def sole_author(self, key: Key, stamp: Stamp) -> Write | None:
        """The writing that made that version at one go, from an image whose
        file nobody ever read: the usual case, told without any replay."""
        writes = self.writes.get(key)
        if not writes or key in self._readings:
            return None
        last = writes[-1]
        if last.stamp != stamp or last.again or not last.begins:
            return None
        if len(writes) > 1 and writes[-2].within(last):
            return None
        if self.history and any(name in self.history for name in self.names[key]):
            return None
        return last

    def was_known(self, key: Key, stamp: Stamp, command: bytes = b"") -> bool:
        """Whether that version was found to be known whole when it went, by
        what `command` had not only just printed itself."""
        return any(
            self.same(key, s, stamp)
            for s, printed in self.known.get(key, {}).items()
            if not printed or printed != command
        )

    def latest(self, pid: int) -> Image | None:
        """The image that last said hello under a pid."""
        return self.images.get(self._by_pid.get(pid, 0))

    def paths(self, key: Key) -> list[bytes]:
        """Names that the file is or was known by."""
        return self.names.get(key, [])

    def left(self, key: Key) -> list[bytes]:
        """Names that the file was moved away from. Its number may have been
        another file's before: that one's names are not among them."""
        return self._left.get(key, [])

    def past(self, key: Key, path: bytes) -> set[Key]:
        """The file itself and every other that stood at that path."""
        return {key, *self.history.get(path, ())}

    def pasts(self, key: Key) -> set[Key]:
        """The file itself and every other that stood at any of its names."""
        if not self.history:
            return {key}
        return {key}.union(*(self.past(key, name) for name in self.paths(key)))

    def authors(self, key: Key, stamp: Stamp | None = None) -> list[Write]:
        """The writes that made the file what it was at `stamp` (None: what it
        is), from the one that last began it anew, in the order of their times."""
        writes = self.writes.get(key, [])
        end = len(writes)
        if stamp is not None:
            until = version_of(key, stamp).ctime
            while end and writes[end - 1].ctime > until:
                end -= 1
        for at in range(end - 1, -1, -1):
            last = writes[at]
            if last.begins and not last.again:
                while at and writes[at - 1].within(last):
                    at -= 1
                return writes[at:end]
        return writes[:end]
