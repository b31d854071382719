"""What the daemon gets of a command's output: the head and the tail of it."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from noclobber.wire import C

LIMIT = 60  # seconds
HALF = 15_000  # bytes


@pytest.mark.parametrize("size", [1, 14_999, 15_000, 15_001, 29_999, 30_000])
def test_short_output_is_recorded_whole(guard: Any, listener: Any, size: int) -> None:
    data = random.Random(size).randbytes(size)
    (guard.tree / "data").write_bytes(data)
    guard.run("cat", "data", text=False)
    listener.until(listener.ended)
    assert listener.text() == data


@pytest.mark.parametrize("size", [30_001, 45_000, 66_000, 3_000_000, 30_000_000])
def test_of_long_output_the_head_and_the_tail(guard: Any, listener: Any, size: int) -> None:
    data = random.Random(size).randbytes(size)
    (guard.tree / "data").write_bytes(data)
    assert guard.run("cat", "data", text=False).stdout == data
    listener.until(listener.ended)
    assert listener.text().startswith(data[:HALF])
    last = listener.shown()[-1]
    assert last.offset + len(last.text) == size
    tail = listener.text().rsplit(b"[...]", 1)[-1]
    assert len(tail) >= HALF
    assert data.endswith(tail)
    if size > 100_000:
        assert sum(len(r.text) for r in listener.shown()) < 4 * 2 * HALF


def test_the_limit_is_the_callers(guard: Any, listener: Any) -> None:
    done = guard.run("seq", "1000", args=("--shown-limit", "101"))
    listener.until(listener.ended)
    text = done.stdout.encode()
    assert listener.text() == text[:51] + b"[...]" + text[-50:]


def test_the_limit_is_what_is_configured(guard: Any, listener: Any) -> None:
    listener.limit = 101
    done = guard.run("seq", "1000")
    listener.until(listener.ended)
    text = done.stdout.encode()
    assert listener.text() == text[:51] + b"[...]" + text[-50:]
    assert listener.first().limit == 101


def test_what_the_caller_says_is_over_what_is_configured(guard: Any, listener: Any) -> None:
    listener.limit = 101
    guard.run("seq", "1000", args=("--shown-limit", "60"))
    listener.until(listener.ended)
    assert listener.first().limit == 60


@pytest.mark.parametrize("script, failed", [("true", 0), ("exit 3", 8), ("kill -9 $$", 8)])
def test_how_a_command_ended_is_told(guard: Any, listener: Any, script: str, failed: int) -> None:
    guard.run("sh", "-c", script)
    listener.until(listener.ended)
    (end,) = [r for r in listener.records if r.flags & C.NC_ENDED and r not in listener.shown()]
    assert end.flags & C.NC_FAILED == failed


@pytest.mark.parametrize("given, seen", [(None, "open"), ("closed", "closed")])
def test_a_session_that_is_configured_to_fail_open_does(
    guard: Any, listener: Any, given: str | None, seen: str
) -> None:
    listener.begun = C.NC_FAIL_OPEN
    if given:
        guard.env["NOCLOBBER_FAIL"] = given
    assert guard.shell("echo $NOCLOBBER_FAIL").stdout == f"{seen}\n"


def test_each_output_is_marked(guard: Any, listener: Any) -> None:
    guard.shell("echo out; sleep 0.2; echo err >&2; sleep 0.2; echo more")
    listener.until(listener.ended)
    assert [(r.flags, r.offset, r.text) for r in listener.shown()] == [
        (C.NC_STDOUT, 0, b"out\n"),
        (C.NC_STDERR, 4, b"err\n"),
        (C.NC_STDOUT, 8, b"more\n"),
    ]


def test_one_pipe_for_both_is_marked_as_both(guard: Any, listener: Any) -> None:
    guard.shell("echo out; echo err >&2", capture_output=False, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT)  # fmt: skip
    listener.until(listener.ended)
    assert listener.text() == b"out\nerr\n"
    assert {r.flags for r in listener.shown()} == {C.NC_STDOUT | C.NC_STDERR}


def test_what_is_shown_comes_before_the_end(guard: Any, listener: Any) -> None:
    guard.run("seq", "20000")
    listener.until(listener.ended)
    assert listener.records.index(listener.shown()[-1]) < len(listener.records) - 1
    assert listener.text().endswith(b"\n20000\n")


def test_a_command_without_a_pump_shows_nothing(guard: Any, listener: Any) -> None:
    guard.run("seq", "10", args=("--no-pump",))
    listener.until(listener.commands)
    time.sleep(0.3)
    assert listener.shown() == []


def test_what_a_background_child_prints_is_recorded(start: Any, listener: Any) -> None:
    process = start("bash", "-c", "(sleep 0.5; echo late) & echo now")
    assert process.stdout.read() == b"now\nlate\n"
    listener.until(lambda: listener.text() == b"now\nlate\n")


def test_the_head_is_recorded_while_the_command_runs(start: Any, listener: Any) -> None:
    process = start("bash", "-c", "echo now; read", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"now\n"
    listener.until(lambda: listener.text() == b"now\n")


def test_the_tail_is_recorded_when_the_command_is_silent(start: Any, listener: Any) -> None:
    process = start("bash", "-c", "seq 20000; read", stdin=subprocess.PIPE)
    while not os.read(process.stdout.fileno(), 1 << 16).endswith(b"\n20000\n"):
        pass
    listener.until(lambda: listener.text().endswith(b"\n20000\n"))


def test_a_daemon_that_asks_is_answered(start: Any, listener: Any) -> None:
    # Never silent for long enough to send the tail unasked.
    text = "seq 20000; while :; do printf .; sleep 0.01; done"
    process = start("bash", "-c", text)
    while not os.read(process.stdout.fileno(), 1 << 16).endswith(b"."):
        pass
    connection = listener.first().connection
    for _ in range(3):
        before = len(listener.records)
        listener.ask(connection)
        listener.until(lambda: any(not r.text for r in listener.shown()[-1:]))
        answer = next(r for r in listener.records[before:] if not r.text)
        assert answer.offset == max(r.offset + len(r.text) for r in listener.shown())
        assert b"20000\n." in listener.text()
        listener.records.remove(answer)


def test_a_daemon_that_dies_costs_the_command_nothing(
    start: Any, listener: Any, another: Callable[[], Any]
) -> None:
    text = "echo one; read; echo two; sleep 1.2; read; echo three"
    process = start("bash", "-c", text, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"one\n"
    listener.until(lambda: listener.text() == b"one\n")
    listener.close()
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"two\n"
    time.sleep(1.2)
    # The next daemon is told again whose output it is, and all of it.
    second = another()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.stdout.read() == b"three\n"
    assert process.wait(LIMIT) == 0
    second.until(lambda: second.text() == b"one\ntwo\nthree\n")
    assert second.first().command == listener.first().command
    assert second.first().pid == listener.first().pid


def test_a_daemon_that_reads_nothing_costs_the_command_nothing(guard: Any, listener: Any) -> None:
    listener.closed = True  # its thread takes one event more, then no other
    listener.waker.send(b"x")
    listener.thread.join()
    began = time.monotonic()
    for _ in range(3):
        done = guard.run("seq", "200000", args=("--shown-limit", "2000000"))
        assert done.stdout.endswith("\n200000\n")
        assert done.returncode == 0
    assert time.monotonic() - began < 20
    listener.closed = False
    listener.server.close()
