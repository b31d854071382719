"""A listener in the daemon's place: it writes down what it is told. The launcher
and the shim speak to a real socket, and a test sees what they said."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from noclobber import wire
from noclobber.wire import C

WAIT = 20.0  # seconds; what takes longer never comes


@pytest.fixture(autouse=True)
def dispositions() -> Iterator[None]:
    """Signals end programs, also where the tests run under nohup or behind a
    shell's `&`, which have them ignored."""
    wanted = {
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
        signal.SIGQUIT: signal.SIG_DFL,
        signal.SIGTSTP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, action) for number, action in wanted.items()}
    yield
    for number, action in before.items():
        signal.signal(number, action)


@dataclass(frozen=True)
class Told:
    """One NC_COMMAND record."""

    connection: int
    flags: int
    pid: int
    tier: int
    limit: int
    session: str
    command: str
    cwd: str
    argv: tuple[str, ...]
    roots: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """One NC_SHOWN record."""

    connection: int
    flags: int
    command: str
    offset: int
    text: bytes


class Listener:
    """Takes every connection and every record; answers nothing by itself but
    what holds for a command."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tier, self.dirty = 0, 0  # what holds (tier 0: as was asked for)
        self.limit, self.begun = 0, 0  # and is configured
        self.records: list[Told | Shown] = []
        self.ends: dict[int, socket.socket] = {}
        self.buffers: dict[int, bytearray] = {}
        self.selector = selectors.DefaultSelector()
        self.wake, self.waker = socket.socketpair()
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.changed = threading.Condition()
        self.closed = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(64)
        self.selector.register(self.server, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        count = 0
        while not self.closed:
            for key, _ in self.selector.select():
                if key.fileobj is self.server:
                    end, _address = self.server.accept()
                    count += 1
                    self.ends[count], self.buffers[count] = end, bytearray()
                    self.selector.register(end, selectors.EVENT_READ, count)
                elif key.data:
                    self._read(key.data)

    def _read(self, number: int) -> None:
        end = self.ends[number]
        try:
            data = end.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(end)
            end.close()
            return
        buffer = self.buffers[number]
        buffer += data
        found, used = wire.records(bytes(buffer), len(buffer))
        with self.changed:
            for kind, flags, at, stop in found:
                self._write_down(number, bytes(buffer), kind, flags, at, stop)
            self.changed.notify_all()
        del buffer[:used]
        if any(kind == C.NC_REQUEST for kind, *_ in found):
            end.shutdown(socket.SHUT_RDWR)  # a person's command line waits for nothing

    def _write_down(
        self, number: int, data: bytes, kind: int, flags: int, at: int, stop: int
    ) -> None:
        if kind == C.NC_COMMAND:
            pid, tier, _time, *sizes, limit = wire.COMMAND.unpack_from(data, at)[4:]
            texts = wire.strings(data, at + wire.COMMAND.size, stop, sizes)
            session, command, cwd, argv, roots = (bytes(text).decode() for text in texts)
            lists = [tuple(text.split("\0")[:-1]) for text in (argv, roots)]
            self.records.append(
                Told(number, flags, pid, tier, limit, session, command, cwd, *lists)
            )
        elif kind == C.NC_BEGIN:
            tier = self.tier or wire.BEGIN.unpack_from(data, at)[4]
            self.ends[number].sendall(
                wire.record(
                    C.NC_BEGUN, wire.BEGUN, tier, self.dirty, self.limit, 0, flags=self.begun
                )
            )
        elif kind == C.NC_SHOWN:
            offset, *sizes = wire.SHOWN.unpack_from(data, at)[4:]
            _, name, text = wire.strings(data, at + wire.SHOWN.size, stop, sizes)
            self.records.append(Shown(number, flags, bytes(name).decode(), offset, bytes(text)))

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds. Raises AssertionError after WAIT s."""
        end = time.monotonic() + WAIT
        with self.changed:
            while not condition():
                left = end - time.monotonic()
                assert left > 0, f"never came; there is {self.records}"
                self.changed.wait(min(left, 0.05))

    def commands(self) -> list[Told]:
        """What began, in order."""
        return [r for r in self.records if isinstance(r, Told) and not r.flags & C.NC_ENDED]

    def ended(self) -> list[str]:
        """The ids of the commands that ended, in order."""
        return [r.command for r in self.records if isinstance(r, Told) and r.flags & C.NC_ENDED]

    def first(self) -> Told:
        """The first command, once it is known."""
        self.until(self.commands)
        return self.commands()[0]

    def shown(self) -> list[Shown]:
        """What was printed, in the order of its coming."""
        return [r for r in self.records if isinstance(r, Shown)]

    def text(self) -> bytes:
        """What was printed, by offset; a gap is shown as `[...]`."""
        out, at = b"", 0
        for record in sorted(self.shown(), key=lambda r: (r.offset, len(r.text))):
            if record.offset > at:
                out, at = out + b"[...]", record.offset
            out += record.text[at - record.offset :]
            at = max(at, record.offset + len(record.text))
        return out

    def ask(self, number: int) -> None:
        """Ask the pump behind a connection for what it has not yet sent."""
        self.ends[number].sendall(wire.RECORD.pack(wire.RECORD_SIZE, C.NC_VERSION, C.NC_SHOWN, 0))

    def close(self) -> None:
        """Go away as a killed daemon does: its socket's name stays."""
        if self.closed:
            return
        self.closed = True
        self.waker.send(b"x")
        self.thread.join()
        for end in (self.server, self.wake, self.waker, *self.ends.values()):
            with contextlib.suppress(OSError):
                end.close()


@pytest.fixture
def guard(home: Path, request: pytest.FixtureRequest) -> Any:
    """As everywhere, but that no daemon is stopped in the end: there is none."""
    shared: Any = request.config.pluginmanager.getplugin(
        str(Path(__file__).parents[1] / "conftest.py")
    )
    (home / "tree").mkdir()
    return shared.Guard(home, home / "tree", shared.environment(home))


@pytest.fixture
def listener(home: Path) -> Iterator[Listener]:
    listener = Listener(home / "run" / "noclobber" / "daemon.sock")
    yield listener
    listener.close()


@pytest.fixture
def another(listener: Listener) -> Iterator[Callable[[], Listener]]:
    """`another()` starts a second listener where the first one was."""
    made = []

    def start() -> Listener:
        listener.close()
        made.append(Listener(listener.path))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def launcher(guard: Any) -> str:
    """The path of noclobber-exec."""
    return str(guard.command()[0])


Start = Callable[..., "subprocess.Popen[Any]"]


@pytest.fixture
def start(guard: Any) -> Iterator[Start]:
    """`start(WORD...)` runs a command under the guard and does not wait for
    it; whatever is left of it is killed in the end."""
    running = []

    def begin(*command: str, **options: Any) -> subprocess.Popen[Any]:
        given: dict[str, Any] = {"cwd": guard.tree, "env": guard.env, "stdout": subprocess.PIPE}
        running.append(subprocess.Popen(guard.command(*command), **(given | options)))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait(WAIT)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object], str], None]:
    """`wait_for(CONDITION, WHAT)` fails with WHAT after WAIT seconds."""

    def wait(condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < end, what
            time.sleep(0.01)

    return wait
