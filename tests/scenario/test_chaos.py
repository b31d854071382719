"""The daemon killed, its disk full, its store not to be written to, at any
moment of a replacement, a deletion or a restore: a user's file holds the old
or the new content, whole, or what it held can be had back; the receipts can be
read; and when the trouble is over everything works as before."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROUNDS = 12
LATEST = 0.08  # s after which trouble begins
FILES = 12
ROOM = "6m"  # of the file system that the state is on


def text_of(number: int, word: str = "old") -> bytes:
    return b"".join(b"%s line %d of %d\n" % (word.encode(), n, number) for n in range(400))


def state(guard: Any) -> Path:
    return Path(guard.home) / "state"


def store(guard: Any) -> Path:
    return state(guard) / "noclobber" / "snapshots"


def kept(guard: Any) -> set[bytes]:
    """All that the store holds, whether a receipt tells of it or not."""
    return {path.read_bytes() for path in store(guard).rglob("*") if path.is_file()}


def verify(guard: Any) -> tuple[int, str]:
    done = guard.cli("log", "--verify")
    return done.returncode, done.stdout + done.stderr


class Trouble:
    """Something that goes wrong, and ends."""

    def __init__(self, guard: Any) -> None:
        self.guard = guard

    def strike(self) -> None: ...

    def heal(self) -> None: ...


class Killed(Trouble):
    """kill -9 of the daemon."""

    def strike(self) -> None:
        done = self.guard.cli("status", "--json")
        if done.returncode == 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(json.loads(done.stdout)["pid"], signal.SIGKILL)


class Full(Trouble):
    """Not a byte is left."""

    def strike(self) -> None:
        with (state(self.guard) / "filler").open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass

    def heal(self) -> None:
        (state(self.guard) / "filler").unlink(missing_ok=True)


class ReadOnly(Trouble):
    """Nothing can be kept: the store lies on a file system that is read-only."""

    is_so = False

    def strike(self) -> None:
        place = store(self.guard)
        place.mkdir(parents=True, exist_ok=True)
        # A mount of its own: where a file is open for writing none becomes so.
        subprocess.run(["mount", "--bind", place, place], check=True)
        self.is_so = True
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)

    def heal(self) -> None:
        if self.is_so:
            subprocess.run(["umount", "-l", store(self.guard)], check=True)


@pytest.fixture
def chaos(guard: Any) -> Iterator[Any]:
    """A guard whose state is on a small file system of its own."""
    state(guard).mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=0700", "noclobber", state(guard)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    yield guard
    guard.cli("daemon", "stop")
    subprocess.run(["umount", "-l", state(guard)], check=True)


# What is done to a file of old text, and what it may hold then; None: nothing.
WORK: dict[str, tuple[str, Callable[[int], bytes | None]]] = {
    "a transform": ("sed -i s/old/new/ f", lambda n: text_of(n, "new")),
    "a filter moved over it": ("sed s/old/new/ f > t && mv t f", lambda n: text_of(n, "new")),
    "a program's output": ("python3 make.py", lambda _: b"made\n"),
    "a blind write": ("echo blind > f", text_of),
    "a deletion": ("rm f", lambda _: None),
    "a deletion of many": ("rm -rf d f", lambda _: None),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("trouble", [Killed, Full, ReadOnly])
def test_trouble_amid_work_loses_nothing(chaos, trouble, seed):
    dice, file = random.Random(seed), chaos.tree / "f"
    (chaos.tree / "make.py").write_text("open('f', 'w').write('made\\n')\n")
    chaos.shell("true")
    for number in range(ROUNDS):
        name = dice.choice(sorted(WORK))
        command, becomes = WORK[name]
        old, new = text_of(number), becomes(number)
        file.write_bytes(old)
        (chaos.tree / "d").mkdir(exist_ok=True)
        others = [text_of(1000 * number + n) for n in range(30)] if "many" in name else []
        for n, text in enumerate(others):
            (chaos.tree / "d" / str(n)).write_bytes(text)
        one = trouble(chaos)
        argv = chaos.command("bash", "-c", command)
        with subprocess.Popen(
            argv, cwd=chaos.tree, env=chaos.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as work:
            time.sleep(dice.random() * LATEST)
            one.strike()
            output = work.communicate()[0]
        present = file.read_bytes() if file.exists() else None
        assert present in (old, new), (name, output)
        held = kept(chaos)
        assert present == old or old in held, (name, output)
        for n, text in enumerate(others):
            there = chaos.tree / "d" / str(n)
            assert (there.exists() and there.read_bytes() == text) or text in held, (name, n)
        status, said = verify(chaos)
        assert status == 0 or "cut off" in said, said
        one.heal()
    # Over, and everything works: a refusal, a change, a restore, the chain.
    file.write_bytes(text_of(0))
    assert chaos.shell("echo blind > f").returncode != 0
    assert chaos.shell("sed -i s/old/new/ f").returncode == 0
    assert file.read_bytes() == text_of(0, "new")
    assert chaos.cli("restore", "f").returncode == 0
    assert file.read_bytes() == text_of(0)
    status, said = verify(chaos)
    assert status == 0, said
    assert not list(chaos.tree.rglob(".noclobber*"))


class Stopped(Trouble):
    """kill -9 of the restore itself: `process`."""

    process: subprocess.Popen[bytes]

    def strike(self) -> None:
        self.process.kill()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("trouble", [Stopped, Full, ReadOnly])
def test_trouble_amid_a_restore_loses_nothing(chaos, trouble, seed):
    dice = random.Random(seed)
    files = [chaos.tree / f"f{n}" for n in range(FILES)]
    for n, file in enumerate(files):
        file.write_bytes(text_of(n))
    assert chaos.shell("sed -i s/old/new/ f*; rm f0 f1").returncode == 0
    for _ in range(4):
        one = trouble(chaos)
        command = ["noclobber", "restore", "--session", "s"]
        with subprocess.Popen(
            command, cwd=chaos.tree, env=chaos.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as work:
            one.process = work
            time.sleep(0.2 + dice.random() * 0.5)
            one.strike()
            output = work.communicate()[0]
        assert b"Traceback" not in output, output
        for n, file in enumerate(files):
            states = (text_of(n), text_of(n, "new")) if n > 1 else (text_of(n), None)
            assert (file.read_bytes() if file.exists() else None) in states, (n, output)
        status, said = verify(chaos)
        assert status == 0 or "cut off" in said, said
        one.heal()
        assert not set(chaos.tree.iterdir()) - set(files)
    assert chaos.cli("restore", "--session", "s").returncode == 0
    assert [file.read_bytes() for file in files] == [text_of(n) for n in range(FILES)]
    assert set(chaos.tree.iterdir()) == set(files)
    assert verify(chaos)[0] == 0
