"""What a command prints passes the pump as it would a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.usefixtures("listener")

LIMIT = 60  # seconds
ALL_BYTES = bytes(range(256)) * 5 + bytes(range(255, -1, -1))
WaitFor = Callable[[Callable[[], object], str], None]


def read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def pump_of(launcher: int) -> psutil.Process:
    """The pump of a running launcher."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        for process in psutil.Process(launcher).children():
            if process.name() == "noclobber-pump":
                return process
    raise AssertionError("there is no pump")


@pytest.mark.parametrize("kind", ["pipe", "nonblocking", "socket", "file", "append"])
@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 3_000_001])
def test_bytes_arrive_as_they_were_printed(guard: Any, kind: str, size: int) -> None:
    data = ALL_BYTES[:size] if size < 4097 else random.Random(size).randbytes(size)
    (guard.tree / "data").write_bytes(data)
    out = guard.home / "out"
    if kind == "socket":
        ours, theirs = socket.socketpair()
        reading, writing = ours.detach(), theirs.detach()
    elif kind in ("file", "append"):
        out.write_bytes(b"before")
        writing = os.open(out, os.O_WRONLY | (os.O_APPEND if kind == "append" else os.O_TRUNC))
        reading = os.open(out, os.O_RDONLY)
    else:
        reading, writing = os.pipe()
        os.set_blocking(writing, kind != "nonblocking")
    command = guard.command("cat", "data")
    process = subprocess.Popen(command, cwd=guard.tree, env=guard.env, stdout=writing)
    os.close(writing)
    if kind in ("file", "append"):
        process.wait(LIMIT)
    got = read_all(reading)
    os.close(reading)
    assert process.wait(LIMIT) == 0
    assert got == (b"before" if kind == "append" else b"") + data


def test_both_outputs_on_one_pipe_keep_their_order(guard: Any) -> None:
    text = """
import os
for i in range(4000):
    os.write(1, b"out %d\\n" % i)
    os.write(2, b"err %d\\n" % i)
"""
    done = guard.run("python3", "-c", text, capture_output=False, stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT)  # fmt: skip
    assert done.stdout == "".join(f"out {i}\nerr {i}\n" for i in range(4000))


def test_two_outputs_stay_two(guard: Any) -> None:
    done = guard.shell("echo out; echo err >&2; echo more")
    assert (done.stdout, done.stderr) == ("out\nmore\n", "err\n")


def test_two_offsets_in_one_file_write_over_one_another_as_ever(guard: Any) -> None:
    texts = []
    for name in ("bare", "guarded"):
        out = guard.home / name
        command = ["bash", "-c", "echo out; sleep 0.2; echo error >&2"]
        if name == "guarded":
            command = guard.command(*command)
        with out.open("wb") as first, out.open("wb") as second:
            guard.bare(*command, capture_output=False, stdout=first, stderr=second)
        texts.append(out.read_text())
    assert texts == ["error\n", "error\n"]


def test_a_prompt_arrives_at_once(start: Any) -> None:
    process = start("sh", "-c", "printf prompt; read answer; echo $answer", stdin=subprocess.PIPE)
    assert os.read(process.stdout.fileno(), 100) == b"prompt"
    process.stdin.write(b"yes\n")
    process.stdin.flush()
    assert process.stdout.read() == b"yes\n"


def test_everything_has_arrived_when_the_launcher_ends(guard: Any) -> None:
    out = guard.home / "out"
    for size in (10, 3000, 70_000, 300_000) * 5:
        with out.open("wb") as file:
            done = guard.run(
                "head", "-c", str(size), "/dev/zero", capture_output=False, stdout=file
            )
        assert out.stat().st_size == size
        assert done.returncode == 0


def test_a_small_pipes_worth_is_there_before_anybody_reads(start: Any) -> None:
    # One byte at a time: moved as pages they would fill the pipe's 16 places.
    process = start("dd", "if=/dev/zero", "bs=1", "count=6000", "status=none")
    assert process.wait(LIMIT) == 0
    assert len(process.stdout.read()) == 6000


def test_a_background_child_prints_after_the_command_has_ended(start: Any) -> None:
    text = "(sleep 1; echo late; echo later >&2) & echo now; exit 4"
    began = time.monotonic()
    process = start("bash", "-c", text, stderr=subprocess.STDOUT)
    assert process.wait(LIMIT) == 4
    assert time.monotonic() - began < 0.9
    assert process.stdout.read() == b"now\nlate\nlater\n"


def test_the_end_comes_when_the_last_writer_is_gone(start: Any) -> None:
    process = start("bash", "-c", "sleep 20 >/dev/null 2>&1 & echo now", stderr=subprocess.STDOUT)
    began = time.monotonic()
    assert process.stdout.read() == b"now\n"
    assert time.monotonic() - began < 10


def test_a_command_that_closes_its_output_ends_it(start: Any) -> None:
    process = start("bash", "-c", "echo now; exec >&- 2>&-; sleep 20", stderr=subprocess.STDOUT)
    began = time.monotonic()
    assert process.stdout.read() == b"now\n"
    assert time.monotonic() - began < 10
    assert process.poll() is None
    process.terminate()
    assert process.wait(LIMIT) == -signal.SIGTERM


@pytest.mark.parametrize("command", [["yes"], ["cat", "/dev/zero"]])
def test_a_reader_that_goes_ends_the_command_by_sigpipe(start: Any, command: list[str]) -> None:
    process = start(*command, restore_signals=True)
    assert len(os.read(process.stdout.fileno(), 1000)) > 0
    process.stdout.close()
    assert process.wait(LIMIT) == -signal.SIGPIPE


def test_a_silent_command_hears_that_its_reader_went(start: Any) -> None:
    text = "echo ready; read; echo more; echo $? >&2"
    process = start("bash", "-c", text, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    time.sleep(0.2)
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait(LIMIT) == -signal.SIGPIPE


def test_a_reader_that_does_not_read_holds_the_writer_back(start: Any, wait_for: WaitFor) -> None:
    text = """
import os, sys
os.set_blocking(1, False)
import select, time
done, end = 0, time.monotonic() + 1.5
while time.monotonic() < end:
    try:
        done += os.write(1, bytes(4096))
    except BlockingIOError:
        time.sleep(0.01)
print(done, file=sys.stderr)
"""
    process = start("python3", "-c", text, stderr=subprocess.PIPE)
    taken = int(process.stderr.readline())
    # Two pipes and a buffer, and not more.
    assert 65536 <= taken <= 4 * 65536
    assert len(process.stdout.read()) == taken


def test_one_output_flows_while_nobody_reads_the_other(start: Any) -> None:
    text = "cat /dev/zero & for i in 1 2 3; do sleep 0.3; echo $i >&2; done; kill %1"
    process = start("bash", "-c", text, stderr=subprocess.PIPE)
    assert process.stderr.read() == b"1\n2\n3\n"
    process.stdout.close()
    process.wait(LIMIT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_waits_for_its_reader_can_be_ended(
    start: Any, wait_for: WaitFor, number: int
) -> None:
    process = start("head", "-c", "100000", "/dev/zero")
    launcher = psutil.Process(process.pid)

    def is_alone_with_its_pump() -> bool:
        with contextlib.suppress(psutil.ZombieProcess):
            return {p.cmdline()[:1] == ["noclobber-pump"] for p in launcher.children()} == {True}
        return False

    wait_for(is_alone_with_its_pump, "the command does not end")
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(LIMIT) == -number
    assert len(process.stdout.read()) == 100_000


def test_a_hundred_megabytes_in_the_memory_of_one(start: Any) -> None:
    process = start("head", "-c", "100M", "/dev/zero")
    total, most, pump = 0, 0, pump_of(process.pid)
    while part := os.read(process.stdout.fileno(), 1 << 16):
        total += len(part)
        with contextlib.suppress(psutil.Error):
            most = max(most, pump.memory_info().rss)
    assert total == 100 << 20
    assert 0 < most < 8 << 20
    assert process.wait(LIMIT) == 0


def test_the_flags_of_the_harnesss_pipe_are_left_alone(start: Any) -> None:
    reading, writing = os.pipe()
    before = fcntl.fcntl(writing, fcntl.F_GETFL), fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    process = start("echo", "x", stdout=writing)
    assert process.wait(LIMIT) == 0
    assert before == (
        fcntl.fcntl(writing, fcntl.F_GETFL),
        fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ),
    )
    os.close(writing)
    assert read_all(reading) == b"x\n"
    os.close(reading)


def test_what_shows_nobody_anything_is_left_alone(guard: Any) -> None:
    text = """
import os, stat, sys
kinds = [stat.S_IFMT(os.fstat(n).st_mode) for n in (1, 2)]
open(sys.argv[1], "w").write(repr(kinds))
"""
    out = guard.home / "out"
    with (guard.tree / "inside").open("wb") as inside:
        guard.run("python3", "-c", text, str(out), capture_output=False, stdout=inside,
                  stderr=subprocess.DEVNULL)  # fmt: skip
    assert out.read_text() == f"[{stat.S_IFREG}, {stat.S_IFCHR}]"


def test_a_file_under_a_root_is_still_known_for_what_it_is(guard: Any) -> None:
    (guard.tree / "f").write_text("line\n" * 1000)
    text = '"$@" >> f'
    done = guard.bare("bash", "-c", text, "bash", *guard.command("cat", "f"))
    assert "input file is output file" in done.stderr
    assert (guard.tree / "f").stat().st_size == 5000


def test_the_launcher_killed_what_was_printed_still_arrives(start: Any) -> None:
    process = start("bash", "-c", "echo printed; sleep 20")
    time.sleep(0.3)
    process.kill()
    assert process.stdout.read() == b"printed\n"


def test_killing_every_process_of_the_tree_loses_nothing_that_was_printed(start: Any) -> None:
    process = start("bash", "-c", "seq 5000; sleep 20")
    time.sleep(0.5)
    for each in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            each.terminate()
    process.terminate()
    assert process.stdout.read() == b"".join(b"%d\n" % i for i in range(1, 5001))


def test_the_pump_killed_the_command_hears_it(start: Any, wait_for: WaitFor) -> None:
    process = start("bash", "-c", "trap '' PIPE; echo a; read; echo b || exit 7",
                    stdin=subprocess.PIPE)  # fmt: skip
    assert process.stdout.readline() == b"a\n"
    pump = pump_of(process.pid)
    pump.kill()
    wait_for(lambda: not pump.is_running() or pump.status() == "zombie", "it lives")
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait(LIMIT) == 7


def test_where_no_process_may_be_made_the_command_runs_all_the_same(guard: Any) -> None:
    if os.geteuid() == 0:
        pytest.skip("root has no such limit")
    text = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
os.execv(sys.argv[1], sys.argv[1:])
"""
    done = guard.bare(sys.executable, "-c", text, *guard.command("echo", "x"))
    assert (done.stdout, done.returncode) == ("x\n", 0)


def test_with_hardly_any_descriptors(guard: Any) -> None:
    text = 'ulimit -n 7; exec "$@"'
    done = guard.bare("bash", "-c", text, "bash", *guard.command("echo", "x"))
    assert (done.stdout, done.returncode) == ("x\n", 0), done.stderr


@pytest.mark.parametrize("turn", range(3))
def test_random_pieces_on_both_outputs(guard: Any, turn: int, tmp_path: Path) -> None:
    dice = random.Random(turn)
    script = tmp_path / "print.py"
    plan = [(dice.choice((1, 2)), dice.choice((1, 7, 900, 5000, 70_000))) for _ in range(60)]
    script.write_text(f"import os\nfor fd, n in {plan}:\n    os.write(fd, os.urandom(1) * n)\n")
    done = guard.run("python3", str(script), text=False)
    for fd, out in ((1, done.stdout), (2, done.stderr)):
        sizes = [n for f, n in plan if f == fd]
        assert len(out) == sum(sizes)
        at = 0
        for size in sizes:
            assert len(set(out[at : at + size])) == 1
            at += size
