"""The daemon killed, stopped, or fed with garbage: no program hangs, nothing
is lost, and what was refused stays refused."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TEXT = b"".join(b"line %d of what must not be lost\n" % n for n in range(900))
HALF = len(TEXT) // 2
# A replacement waits 2 s for a silent daemon, and a busy machine adds to it.
PATIENCE = 2.0
SLACK = 1.5
WAIT = 30.0  # seconds; for what must come at all
DOWN = "the guard does not answer"


class Worker:
    """A process of a session, told what to do a line at a time."""

    def __init__(self, guard: Any, program: Path, session: str) -> None:
        self.process = subprocess.Popen(
            guard.command(str(program), session=session),
            cwd=guard.tree, env=guard.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self.longest = 0.0

    def tell(self, *words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(" ".join(words).encode() + b"\n")

    def answer(self) -> str:
        """The errno's name or "0"; remembers the longest time one took."""
        assert self.process.stdout
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], WAIT)
            assert ready, "the program hangs"
            piece = self.process.stdout.read(4096)
            assert piece, "the program is gone"
            line += piece
        why, milliseconds = line.split()
        self.longest = max(self.longest, int(milliseconds) / 1000)
        return why.decode()

    def do(self, *words: str) -> str:
        self.tell(*words)
        return self.answer()

    def close(self) -> str:
        """What it printed to stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.communicate(timeout=WAIT)[1].decode()
        self.process.kill()
        return self.process.communicate()[1].decode()


def socket_of(guard: Any) -> Path:
    return guard.home / "run" / "noclobber" / "daemon.sock"


def daemon_pid(guard: Any) -> int:
    """Who listens there, as the kernel says."""
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(str(socket_of(guard)))
        told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", told)[0]


def kill(guard: Any) -> None:
    """SIGKILL, and wait until nobody listens any more."""
    try:
        pid = daemon_pid(guard)
    except OSError:
        return
    handle = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([handle], [], [], WAIT)[0]
    os.close(handle)


def start(guard: Any) -> None:
    done = guard.cli("daemon", "start")
    assert done.returncode == 0, done.stderr


def files(guard: Any, *names: str) -> list[Path]:
    paths = [guard.tree / name for name in names]
    for path in paths:
        path.write_bytes(TEXT)
    return paths


@pytest.fixture
def worker(guard: Any, build: Any) -> Iterator[Worker]:
    """A direct program of the session `s`; the daemon runs."""
    worker = Worker(guard, build("worker"), "s")
    files(guard, "first")
    assert worker.do("read", "first", "0") == "0"
    assert worker.do("empty", "first") == "0"  # answered: the daemon knows the session
    yield worker
    worker.close()


def test_while_it_is_down_replacements_are_refused_and_the_rest_goes_on(guard, worker):
    whole, _, third, fourth = files(guard, "whole", "other", "third", "fourth")
    (guard.tree / "new").write_text("new\n")
    assert worker.do("read", "whole", "0") == "0"
    kill(guard)
    assert worker.do("write", "whole") == "EPERM"
    assert worker.do("shrink", "third") == "EPERM"
    assert worker.do("move", "new", "fourth") == "EPERM"
    assert worker.longest < PATIENCE + SLACK
    assert [p.read_bytes() for p in (whole, third, fourth)] == [TEXT] * 3
    assert worker.do("read", "other", "0") == "0"
    assert worker.do("append", "other") == "0"
    assert worker.do("create", "fresh") == "0"
    assert worker.do("move", "other", "moved") == "0"
    assert (guard.tree / "moved").read_bytes() == TEXT + b"appended\n"
    start(guard)
    seen = files(guard, "seen")[0]
    assert worker.do("read", "seen", "0") == "0"
    assert worker.do("write", "seen") == "0"
    assert seen.read_bytes() == b"written anew\n"
    # it did not answer, so it refused nothing: asked again, it answers
    assert worker.do("write", "whole") == "0"
    told = worker.close()
    assert DOWN in told and "noclobber daemon start" in told


def test_a_stopped_daemon_is_waited_for_two_seconds(guard, worker):
    path, other = files(guard, "f", "g")
    assert worker.do("read", "f", "0") == "0"
    pid = daemon_pid(guard)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert worker.do("write", "f") == "EPERM"
        assert PATIENCE - 0.3 < worker.longest < PATIENCE + SLACK
        assert path.read_bytes() == TEXT
    finally:
        os.kill(pid, signal.SIGCONT)
    assert worker.do("read", "g", "0") == "0"
    assert worker.do("write", "g") == "0"
    assert path.read_bytes() == TEXT
    assert other.read_bytes() == b"written anew\n"
    assert DOWN in worker.close()


def test_a_signal_that_arrives_while_waiting_is_not_lost(guard, build):
    """An alarm every 50 ms, and a daemon that says nothing."""
    (path,) = files(guard, "f")
    script = (
        "import signal, sys, time; n = []; signal.signal(signal.SIGALRM, lambda *a: n.append(1)); "
        "open('f').read(99); sys.stdin.readline(); signal.setitimer(signal.ITIMER_REAL, .05, .05); "
        "t = time.monotonic()\n"
        "try: open('f', 'w'); print('replaced')\n"
        "except PermissionError: pass\n"
        "print(time.monotonic() - t, len(n))"
    )
    ready = "print('ready', flush=True); "
    words = guard.command("python3", "-c", ready + script)
    with subprocess.Popen(
        words,
        cwd=guard.tree,
        env=guard.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "ready\n"
        pid = daemon_pid(guard)
        os.kill(pid, signal.SIGSTOP)
        try:
            told, _ = process.communicate("go\n", timeout=WAIT)
        finally:
            os.kill(pid, signal.SIGCONT)
    taken, alarms = told.split()
    assert PATIENCE - 0.3 < float(taken) < PATIENCE + SLACK
    assert int(alarms) >= 1
    assert path.read_bytes() == TEXT


def test_what_was_reported_counts_after_a_restart(guard, worker):
    half, _, asked = files(guard, "half", "whole", "asked")
    assert worker.do("read", "half", str(HALF)) == "0"
    assert worker.do("read", "whole", "0") == "0"
    assert worker.do("read", "asked", str(HALF)) == "0"
    assert worker.do("write", "asked") == "EPERM"  # all that was read is on disk by now
    kill(guard)
    start(guard)
    assert worker.do("write", "half") == "EPERM"
    assert worker.do("write", "whole") == "0"
    assert half.read_bytes() == asked.read_bytes() == TEXT
    rows = [(r["row"], r["verdict"]) for r in guard.receipts() if r["path"] == str(half)]
    assert rows == [(8, "deny")]
    assert DOWN not in worker.close()


def test_what_was_refused_is_refused_after_a_restart(guard, build):
    viewed, unseen = files(guard, "viewed", "unseen")
    program = str(build("worker"))
    assert guard.run("head", "-n", "20", "viewed").returncode == 0
    voiced = 'echo new > "$1"'
    for _ in range(3):
        for path in (viewed, unseen):
            assert guard.run("bash", "-c", voiced, "-", path.name).returncode == 1
        direct = guard.run(program, input="write viewed\n")
        assert direct.stdout.split()[0] == "EPERM"
        assert [viewed.read_bytes(), unseen.read_bytes()] == [TEXT, TEXT]
        kill(guard)  # the next command starts another
    assert len(guard.denied()) == 9


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments(guard, build, seed):
    """Two processes replace file after file while the daemon is killed and
    started again and again: the half-read ones are never replaced, the
    whole-read ones are or are not, and nobody waits for long."""
    chance = random.Random(seed)
    rounds = 60
    names = [f"{kind}{n}" for kind in ("half", "whole") for n in range(rounds)]
    files(guard, *names)
    workers = {kind: Worker(guard, build("worker"), "s") for kind in ("half", "whole")}
    results: dict[str, str] = {}

    def read(kind: str, number: int) -> str:
        return workers[kind].do("read", f"{kind}{number}", str(HALF if kind == "half" else 0))

    for kind in workers:  # each has begun: a launcher that reaches nobody starts nothing
        assert read(kind, 0) == "0"

    def work(kind: str) -> None:
        for n in range(rounds):
            read(kind, n)
            results[f"{kind}{n}"] = workers[kind].do("write", f"{kind}{n}")

    threads = [threading.Thread(target=work, args=[kind]) for kind in workers]
    for thread in threads:
        thread.start()
    kills = 0
    while any(thread.is_alive() for thread in threads):
        time.sleep(chance.uniform(0, 0.25))  # the moment is what is random
        kill(guard)
        kills += 1
        time.sleep(chance.choice([0, 0, 0.02]))
        start(guard)
    for thread in threads:
        thread.join(WAIT)
    assert kills > 0
    assert len(results) == 2 * rounds
    for name, result in results.items():
        text = (guard.tree / name).read_bytes()
        assert result in ("0", "EPERM"), name
        assert text == (TEXT if result == "EPERM" else b"written anew\n"), name
        assert result == "EPERM" or name.startswith("whole"), name
    for worker in workers.values():
        assert worker.longest < PATIENCE + SLACK
    # and when it is up for good, all is as ever
    files(guard, "last")
    assert workers["whole"].do("read", "last", "0") == "0"
    assert workers["whole"].do("write", "last") == "0"
    for worker in workers.values():
        worker.close()
    done = guard.cli("log", "--json")
    assert done.returncode == 0, done.stderr


GARBAGE = {
    "random": random.Random(5).randbytes(5000),
    "zeros": bytes(5000),
    "text": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "huge": struct.pack("=IBBH", 0xFFFFFFF8, 1, 3, 0) + bytes(999),
    "small": struct.pack("=IBBH", 0, 1, 3, 0) * 50,
    "odd size": struct.pack("=IBBH", 13, 1, 1, 0) + bytes(5),
    "version": struct.pack("=IBBH", 64, 99, 1, 0) + bytes(56),
    "type": struct.pack("=IBBH", 8, 1, 200, 0),
    "no hello": struct.pack("=IBBH", 64, 1, 3, 0) + bytes(56),
    "cut": struct.pack("=IBBH", 4096, 1, 1, 0) + bytes(20),
    "lengths": struct.pack("=IBBHQQii4H", 48, 1, 1, 0, 1, 0, 1, 1, *[65535] * 4) + bytes(8),
}


def test_garbage_on_the_socket_disturbs_nobody_else(guard, worker):
    files(guard, *(f"f{n}" for n in range(40)))
    pid = daemon_pid(guard)
    hanging = []
    for n, garbage in enumerate([*GARBAGE.values(), *GARBAGE.values()]):
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(WAIT)
        end.connect(str(socket_of(guard)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            end.sendall(garbage)
        hanging.append(end)  # half a record may be: it is left to hang
        if n % 2:
            end.shutdown(socket.SHUT_WR)
        upto, due = ("0", "0") if n % 2 else (str(HALF), "EPERM")
        assert worker.do("read", f"f{n}", upto) == "0"
        assert worker.do("write", f"f{n}") == due
    assert worker.longest < PATIENCE
    assert daemon_pid(guard) == pid
    for end in hanging:
        end.close()
    assert DOWN not in worker.close()


def test_a_crowd_of_silent_connections_disturbs_nobody_else(guard, worker):
    files(guard, "f", "g")
    crowd = []
    for _ in range(300):
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(WAIT)
        end.connect(str(socket_of(guard)))
        crowd.append(end)
    assert worker.do("read", "f", str(HALF)) == "0"
    assert worker.do("write", "f") == "EPERM"
    assert worker.do("read", "g", "0") == "0"
    assert worker.do("write", "g") == "0"
    for end in crowd:
        end.close()
    assert worker.longest < PATIENCE


def test_what_was_read_while_it_was_down_is_told_later(guard, worker):
    (path,) = files(guard, "f")
    kill(guard)
    assert worker.do("read", "f", str(HALF)) == "0"
    assert worker.do("create", "new") == "0"  # closing it sends what is known
    start(guard)
    assert worker.do("write", "f") == "EPERM"
    assert path.read_bytes() == TEXT
    assert DOWN not in worker.close()


@pytest.mark.parametrize(("fail", "due"), [("open", "0"), ("closed", "EPERM")])
def test_fail_open_turns_it_round(guard, build, fail, due):
    (path,) = files(guard, "f")
    guard.env["NOCLOBBER_FAIL"] = fail
    worker = Worker(guard, build("worker"), "s")
    assert worker.do("read", "f", str(HALF)) == "0"
    kill(guard)
    assert worker.do("write", "f") == due
    worker.close()
    assert path.read_bytes() == (TEXT if due == "EPERM" else b"written anew\n")
