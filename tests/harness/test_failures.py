"""A hook that fails says so in the harness's own way, stops what nobody judged
and nothing else, and does not hang."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from noclobber import places, wire
from noclobber.wire import C

WAIT = 30.0  # s


def told(harness, done: subprocess.CompletedProcess[bytes], *, stopped: bool) -> str:
    """What the person is told; the tool is stopped, or is not."""
    if harness.name == "cursor":
        answer = json.loads(done.stdout)
        assert done.returncode == 0 and answer.get("permission") == ("deny" if stopped else None)
        assert answer["user_message"] == answer["userMessage"]
        return answer["user_message"]
    assert done.stdout == b"" and done.returncode == (2 if stopped else 1)
    return done.stderr.decode()


@pytest.fixture
def no_daemon(guard) -> None:
    """No daemon, and none can be started."""
    (guard.home / "run" / "noclobber").write_text("in the way of the socket's directory")


@pytest.fixture
def silent(guard):
    """One that takes connections and answers nothing."""
    path = guard.home / "run" / "noclobber" / "daemon.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield listener
    path.unlink()


def test_without_a_daemon_nothing_is_replaced(harness, page, no_daemon):
    assert "no place for the daemon" in told(
        harness, harness.send(harness.asks(page)), stopped=True
    )


@pytest.mark.parametrize("text", [
    '{"tool_name":"Write","hook_event_name":"PreToolUse"}',
    '{"tool_input": {"content": "\\"tool_name\\": \\"Read\\", {[", "tool_name": "Read"},\n'
    ' "hook_event_name" : "PreToolUse", "more": [1, {"tool_name": "Read"}], "tool_name"\t:"Write"}',
    '{"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"content": "cut of',
])  # fmt: skip
def test_what_asks_is_known_by_the_event_alone(claude, no_daemon, text):
    assert claude.send(text.encode()).returncode == 2


@pytest.mark.parametrize("text", [
    '{"tool_input": {"tool_name": "Write"}, "hook_event_name": "PreToolUse", "tool_name": "Read"}',
    '{"hook_event_name": "PostToolUse", "tool_name": "Write"}',
    '["hook_event_name", "PreToolUse", "tool_name", "Write"]',
    '{"hook_event_name": "PreToolUse", "tool_name": {"x": "Write"}}',
    '{"hook_event_name": "PreToolUse", "tool_name": "Write',
    '{"tool_name": "Write", "x": "\\\\", "hook_event_name": "Pre\\u0054oolUse"}',
    '"\\',
])  # fmt: skip
def test_and_what_does_not(claude, no_daemon, text):
    assert claude.send(text.encode()).returncode == 1


def test_and_all_else_goes_on(harness, page, no_daemon):
    for event in (harness.shows(page), harness.other(), b"{", b"", b"[]"):
        assert "goes unguarded" in told(harness, harness.send(event), stopped=False)


def test_unless_the_user_would_rather_go_on(harness, page, no_daemon):
    harness.env["NOCLOBBER_FAIL"] = "open"
    assert "goes unguarded" in told(harness, harness.send(harness.asks(page)), stopped=False)


def test_a_daemon_that_does_not_answer_is_waited_for_no_longer_than_it_takes(harness, page, silent):
    began = time.monotonic()
    said = told(harness, harness.send(harness.asks(page)), stopped=True)
    assert "gives no answer" in said and time.monotonic() - began < WAIT


def test_a_daemon_that_fails_at_it_is_asked_once_more(harness, page, silent):
    """It drops whoever it has no answer for."""

    def drop() -> None:
        for _ in range(2):
            silent.accept()[0].close()

    dropping = threading.Thread(target=drop)
    dropping.start()
    assert "gives no answer" in told(harness, harness.send(harness.asks(page)), stopped=True)
    dropping.join(WAIT)
    assert not dropping.is_alive()


def test_a_harness_that_does_not_end_its_event_is_not_waited_for(harness, guard):
    reading, writing = os.pipe()
    done = subprocess.run(
        [Path(guard.command()[0]).parent / "noclobber-hook", harness.name], stdin=reading,
        env=guard.env, cwd=guard.tree, capture_output=True, timeout=WAIT,
    )  # fmt: skip
    os.close(reading)
    os.close(writing)
    assert "the event could not be read" in told(harness, done, stopped=False)


def test_a_daemon_is_started_where_none_runs_and_again_when_it_was_killed(harness, page, guard):
    assert harness.refusal(harness.send(harness.asks(page)))
    pid = json.loads(guard.cli("status", "--json").stdout)["pid"]
    os.kill(pid, signal.SIGKILL)
    assert harness.refusal(harness.send(harness.asks(page)))


def test_what_is_no_event_is_told_of(harness, guard):
    for text in (b"", b"{", b"[1]", b"\xff", b'"text"', b"[" * 100_000):
        assert "no event" in told(harness, harness.send(text), stopped=False)
    assert guard.cli("status").returncode == 0


def test_a_tool_that_nobody_knows_is_none_of_ours(harness):
    done = harness.send(harness.other())
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout or b"{}") == {}


def test_an_event_of_ten_megabytes(harness, page):
    text = "".join(f"a line {number} of many\n" for number in range(500_000))
    assert len(text) > 10_000_000
    assert harness.refusal(harness.send(harness.asks(page, text)))
    harness.send(harness.shows(page, text))
    assert harness.refusal(harness.send(harness.asks(page)))
    page.write_text(text)
    harness.send(harness.shows(page, text))
    # Codex reads by its shell, of which the model sees less.
    refused = harness.refusal(harness.send(harness.asks(page)))
    assert bool(refused) == (harness.name == "codex"), refused


def test_a_hook_that_dies_at_it_or_talks_nonsense_harms_nobody(claude, page, guard):
    assert claude.may_write(page)
    event = os.memfd_create("event")
    os.write(event, json.dumps(claude.asks(page)).encode())

    def begins(harness: bytes, *fds: int) -> socket.socket:
        record = wire.record(C.NC_HARNESS, wire.HARNESS, len(harness), 0, 0, 0, tail=harness)
        end = places.connect(guard.home / "run" / "noclobber" / "daemon.sock", WAIT)
        socket.send_fds(end, [record], fds)
        return end

    with begins(b"claude", event) as end:  # it is asked for the file, and dies
        found, _ = wire.records(heard := end.recv(65536), len(heard))
        assert [kind for kind, *_ in found] == [C.NC_WANTED]
    unasked = wire.record(C.NC_HANDED, wire.HANDED, 0, 1, tail=b"/")
    for end, more in (
        (begins(b"emacs", event), b""),
        (begins(b"claude"), b""),
        (begins(b"claude", event, event), b""),
        (begins(b"claude", event), unasked + unasked),
    ):
        with end, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            end.sendall(more)
            while end.recv(65536):
                pass  # it hangs up
    os.close(event)
    assert claude.may_write(page)


def test_a_harness_that_nobody_knows(guard):
    program = Path(guard.command()[0]).parent / "noclobber-hook"
    for words in ([], ["emacs"], ["claude", "more"]):
        done = guard.bare(str(program), *words, input="{}")
        assert done.returncode == 1 and "which harness?" in done.stderr
    assert "Usage: noclobber-hook" in guard.bare(str(program), "--help").stdout


def test_people_may_say_noclobber_hook(claude, page, guard):
    done = guard.cli("hook", "claude", input=json.dumps(claude.asks(page)))
    assert done.returncode == 0 and '"permissionDecision": "deny"' in done.stdout
