"""A real daemon, and processes that talk to it as the shim does: records over
its socket, one connection for each."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from noclobber import places, wire
from noclobber.wire import C

WAIT = 5.0  # seconds


@dataclass(frozen=True)
class Answer:
    verdict: int
    row: int
    scope: bytes
    text: str


def version(path: Path | int) -> wire.Version:
    stat = os.stat(path)  # noqa: PTH116 (or a descriptor)
    return wire.Version(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


PUPPET = """
import socket, sys
control = socket.socket(fileno=int(sys.argv[1]))
while path := control.recv(4096):
    end = socket.socket(socket.AF_UNIX)
    end.connect(path)
    socket.send_fds(control, [b"x"], [end.fileno()])
    end.close()
"""


class Puppet:
    """A process of some kind, whose connections we speak through: the daemon
    sees its pid, its words and its ancestors."""

    def __init__(self, home: Path, kind: str) -> None:
        self.control, theirs = socket.socketpair()
        script = home / "puppet.py"
        script.write_text(PUPPET)
        words = {
            "voiced": ["python3", "-c", PUPPET],
            "direct": ["python3", str(script)],
            "driven": ["make", str(script)],
        }[kind]
        number = str(theirs.fileno())
        self.process = subprocess.Popen(
            [*words, number],
            executable=sys.executable,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONHOME": sys.base_prefix},  # whatever it is called
        )
        theirs.close()

    def connect(self, path: Path) -> socket.socket:
        self.control.send(os.fsencode(path))
        _, fds, _, _ = socket.recv_fds(self.control, 1, 1)
        end = socket.socket(fileno=fds[0])
        end.settimeout(WAIT)
        return end

    def close(self) -> None:
        self.control.close()
        self.process.wait()


@dataclass
class Talker:
    """One process image of a session."""

    path: Path
    puppet: Puppet
    session: str = "s"
    command: str = "c"
    exe: str = "/usr/bin/prog"
    argv: tuple[str, ...] = ("prog",)
    parent: int = 0
    token: int = field(default_factory=lambda: random.getrandbits(63) | 1)

    def __post_init__(self) -> None:
        self.pid = self.puppet.process.pid
        self.end = self.puppet.connect(self.path)
        self.say(self.hello())

    def hello(self) -> bytes:
        argv = b"".join(os.fsencode(word) + b"\0" for word in self.argv)
        words = [self.session.encode(), self.command.encode(), self.exe.encode(), argv]
        return wire.record(
            C.NC_HELLO, wire.HELLO, self.token, self.parent, self.pid, os.getppid(),
            *map(len, words), tail=b"".join(words),
        )  # fmt: skip

    def say(self, record: bytes) -> None:
        self.end.sendall(record)

    def read(self, path: Path, *ranges: tuple[int, int], flags: int = 0) -> None:
        """Bytes of the file's present version were read (all, if not said)."""
        found = version(path)
        spans = ranges or ((0, found.size),)
        tail = b"".join(wire.RANGE.pack(*span) for span in spans)
        self.say(wire.record(C.NC_READ, wire.READ, *found, len(spans), 0, flags=flags, tail=tail))

    def wrote(self, path: Path, opened: wire.Version, flags: int) -> None:
        name = os.fsencode(path)
        self.say(
            wire.record(
                C.NC_WROTE, wire.WROTE, *version(path), *opened, len(name), 0,
                flags=flags, tail=name,
            )
        )  # fmt: skip

    def create(self, path: Path, text: bytes) -> None:
        """Writes a file of its own, truncating what is there without asking."""
        with path.open("wb") as file:
            opened = version(file.fileno())
            file.write(text)
        self.wrote(path, opened, C.NC_TRUNCATED)

    def pipe(self, ino: int, end: int, count: int) -> None:
        self.say(wire.record(C.NC_PIPE, wire.PIPE, ino, count, flags=end))

    def named(self, old: Path, new: Path, how: int = C.NC_RENAMED) -> None:
        names = os.fsencode(old), os.fsencode(new)
        self.say(
            wire.record(
                C.NC_NAMED, wire.NAMED, *version(new), *map(len, names),
                flags=how, tail=b"".join(names),
            )
        )  # fmt: skip

    def ask(
        self,
        path: Path,
        op: int = C.NC_OP_TRUNCATE,
        start: int = 0,
        end: int | None = None,
        source: Path | None = None,
    ) -> Answer:
        fds = [os.open(p, os.O_PATH) for p in (path, source) if p]
        names = [os.fsencode(path), os.fsencode(source) if source else b""]
        stop = path.stat().st_size if end is None else end
        record = wire.record(
            C.NC_QUESTION, wire.QUESTION, 7, op, start, stop, *map(len, names),
            tail=b"".join(names),
        )  # fmt: skip
        socket.send_fds(self.end, [record], fds)
        for fd in fds:
            os.close(fd)
        return self.answer()

    def answer(self) -> Answer:
        got = b""
        while not (found := wire.records(got, len(got))[0]):
            piece = self.end.recv(65536)
            assert piece, "the daemon hung up"
            got += piece
        *_, ident, verdict, row, scope, text = wire.ANSWER.unpack_from(got)
        assert ident == 7
        parts = wire.strings(got, wire.ANSWER.size, found[0][3], [scope, text])
        return Answer(verdict, row, parts[0], parts[1].decode())

    def is_dropped(self) -> bool:
        """Whether the daemon closes the connection."""
        try:
            return self.end.recv(1) == b""
        except ConnectionResetError:
            return True


@dataclass
class Running:
    """A daemon with directories of its own."""

    home: Path
    tree: Path
    env: dict[str, str]
    puppets: dict[str, Puppet] = field(default_factory=dict)
    strangers: list[Puppet] = field(default_factory=list)
    commands: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        return self.home / "run" / "noclobber" / "daemon.sock"

    @property
    def state(self) -> Path:
        return self.home / "state" / "noclobber"

    def cli(self, *args: str, **options: object) -> subprocess.CompletedProcess[str]:
        code = "from noclobber.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *args], env=self.env, cwd=self.tree,
            capture_output=True, text=True, timeout=60, **options,  # type: ignore[call-overload]
        )  # fmt: skip

    def start(self) -> None:
        done = self.cli("daemon", "start")
        assert done.returncode == 0, done.stderr

    def launch(
        self,
        session: str = "s",
        command: str = "c",
        flags: int = 0,
        argv: tuple[str, ...] = (),
        pid: int = 0,
        tier: int = C.NC_WORKSPACE_WRITE,
    ) -> None:
        """Says what the launcher says: a command of a session over the tree."""
        words = [
            session.encode(), command.encode(), os.fsencode(self.tree),
            b"".join(os.fsencode(word) + b"\0" for word in argv),
            os.fsencode(self.tree) + b"\0",
        ]  # fmt: skip
        # What is older than the command, such as pytest, is no part of a walk.
        if not self.commands:
            self.commands.append(subprocess.Popen(["sleep", "1000"]))
        record = wire.record(
            C.NC_COMMAND, wire.COMMAND, pid or self.commands[-1].pid, tier, 0, *map(len, words), 0,
            flags=flags, tail=b"".join(words),
        )  # fmt: skip
        end = places.connect(self.socket, WAIT)
        end.sendall(record)
        end.close()

    def shown(self, text: bytes, session: str = "s", command: str = "c", offset: int = 0) -> None:
        """Says what the pump says of a command's output."""
        words = [session.encode(), command.encode(), text]
        record = wire.record(
            C.NC_SHOWN, wire.SHOWN, offset, *map(len, words), flags=C.NC_STDOUT,
            tail=b"".join(words),
        )  # fmt: skip
        end = places.connect(self.socket, WAIT)
        end.sendall(record)
        end.close()

    def talker(self, kind: str = "direct", **options: object) -> Talker:
        """A process of a kind: voiced, direct or driven."""
        if kind not in self.puppets:
            self.puppets[kind] = Puppet(self.home, kind)
        return Talker(self.socket, self.puppets[kind], **options)  # type: ignore[arg-type]

    def puppet(self, kind: str = "direct") -> Puppet:
        """A process that has said nothing yet."""
        self.strangers.append(Puppet(self.home, kind))
        return self.strangers[-1]

    def close(self) -> None:
        self.cli("daemon", "stop")
        for puppet in (*self.puppets.values(), *self.strangers):
            puppet.close()
        for command in self.commands:
            command.kill()
            command.wait()


@pytest.fixture
def stopped(home: Path, environment_of: Callable[[Path], dict[str, str]]) -> Iterator[Running]:
    """A daemon that does not run yet, and a tree."""
    tree = home / "tree"
    tree.mkdir()
    running = Running(home, tree, environment_of(home))
    yield running
    running.close()


@pytest.fixture
def running(stopped: Running) -> Running:
    """A daemon that runs, with the session "s" over an empty tree."""
    stopped.start()
    stopped.launch()
    return stopped


@pytest.fixture
def environment_of() -> Callable[[Path], dict[str, str]]:
    def environment(home: Path) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NOCLOBBER_", "LD_"))}
        return kept | {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }

    return environment
