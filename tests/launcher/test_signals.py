"""Signals that are sent to the launcher are meant for the command."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.usefixtures("listener")

LIMIT = 60  # seconds
COUNT = """
import signal, time
got = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH):
    signal.signal(number, lambda n, frame: got.append(n))
print("ready", flush=True)
end = time.monotonic() + 0.7
while time.monotonic() < end:
    time.sleep(0.02)
print(got, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_reaches_the_command_once(start: Any, number: int, group: bool) -> None:
    process = start("python3", "-c", COUNT, start_new_session=True, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    (os.killpg if group else os.kill)(process.pid, number)
    assert process.stdout.readline() == f"[{int(number)}]\n"
    assert process.wait(LIMIT) == 0


def test_several_signals_each_arrive_once(start: Any) -> None:
    process = start("python3", "-c", COUNT, start_new_session=True, text=True)
    assert process.stdout.readline() == "ready\n"
    sent = [signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM]
    for i, number in enumerate(sent):
        time.sleep(0.1)
        (os.killpg if i % 2 else os.kill)(process.pid, number)
    assert process.stdout.readline() == f"{[int(n) for n in sent]}\n"


def test_signals_in_one_breath_are_not_taken_for_one_another(start: Any) -> None:
    process = start("python3", "-c", COUNT, start_new_session=True, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    # As a harness ends a group that may be stopped; then one to the pid alone.
    os.killpg(process.pid, signal.SIGTERM)
    os.killpg(process.pid, signal.SIGHUP)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGHUP)
    got = sorted(map(int, process.stdout.readline().strip("[]\n").split(", ")))
    assert got == [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM]


def test_a_handler_decides_the_status(start: Any) -> None:
    text = 'trap "echo got; exit 5" TERM; echo up; while :; do sleep .05; done'
    process = start("bash", "-c", text, text=True)
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.stdout.read() == "got\n"
    assert process.wait(LIMIT) == 5


def test_a_signal_that_the_caller_ignores_is_not_ours_to_die_of(guard: Any) -> None:
    text = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
process = subprocess.Popen({guard.command("bash", "-c", "echo up; sleep 0.5; exit 4")!r},
                           stdout=subprocess.PIPE)
process.stdout.readline()
os.kill(process.pid, signal.SIGHUP)
print(process.wait())
"""
    assert guard.bare(sys.executable, "-c", text).stdout == "4\n"


def test_a_signal_of_the_command_to_its_parent_goes_to_the_harness(guard: Any) -> None:
    text = f"""
import signal, subprocess, sys
got = []
signal.signal(signal.SIGUSR2, lambda n, frame: got.append(n))
subprocess.run({guard.command("bash", "-c", "kill -USR2 $PPID; sleep 0.3")!r},
               stdout=subprocess.PIPE)
print(len(got))
"""
    assert guard.bare(sys.executable, "-c", text).stdout == "1\n"


def test_killing_the_launcher_kills_the_command_and_not_its_children(
    start: Any, wait_for: Callable[[Callable[[], object], str], None]
) -> None:
    process = start("bash", "-c", "sleep 30 & echo $$ $!; wait", text=True)
    command, child = map(int, process.stdout.readline().split())
    process.kill()
    process.wait(LIMIT)
    wait_for(lambda: not psutil.pid_exists(command), "the command lives on")
    assert psutil.Process(child).is_running()
    os.kill(child, signal.SIGKILL)
    assert process.stdout.read() == ""


def test_the_launcher_stops_and_goes_on_with_the_command(start: Any) -> None:
    process = start("bash", "-c", "echo $$; kill -STOP $$; echo on", text=True)
    command = int(process.stdout.readline())
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert os.WSTOPSIG(status) == signal.SIGSTOP
    assert psutil.Process(command).status() == psutil.STATUS_STOPPED
    process.send_signal(signal.SIGCONT)
    assert process.stdout.read() == "on\n"
    assert process.wait(LIMIT) == 0


def test_a_stop_signal_to_the_launcher_stops_the_command(start: Any) -> None:
    # In a group of its own below this one: an orphaned group cannot be stopped.
    text = "echo $$; sleep 0.5; echo on"
    process = start("bash", "-c", text, text=True, preexec_fn=os.setpgrp)
    command = int(process.stdout.readline())
    process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WSTOPSIG(status) == signal.SIGTSTP
    assert psutil.Process(command).status() == psutil.STATUS_STOPPED
    process.send_signal(signal.SIGCONT)
    assert process.stdout.read() == "on\n"
    assert process.wait(LIMIT) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_group_that_is_killed_leaves_nothing_of_ours(
    start: Any, wait_for: Callable[[Callable[[], object], str], None], number: int
) -> None:
    process = start("sleep", "77", start_new_session=True)
    launcher = psutil.Process(process.pid)
    wait_for(lambda: any(p.name() == "sleep" for p in launcher.children()), "it never began")
    below = launcher.children(recursive=True)
    assert len(below) > 1
    os.killpg(process.pid, number)
    assert process.wait(LIMIT) == -number
    _, alive = psutil.wait_procs(below, timeout=20)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_no_child_is_left_to_a_harness_that_adopts_orphans(guard: Any) -> None:
    text = f"""
import ctypes, os, subprocess
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
for _ in range(20):
    subprocess.run({guard.command("echo", "x")!r}, stdout=subprocess.PIPE, check=True)
try:
    print("stray", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("none")
"""
    assert guard.bare(sys.executable, "-c", text).stdout == "none\n"
