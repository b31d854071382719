"""What a command has from its caller it has under the launcher, too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("listener")

OURS = {
    "ASAN_OPTIONS",
    "LD_PRELOAD",
    "NOCLOBBER_COMMAND",
    "NOCLOBBER_PUMP",
    "NOCLOBBER_ROOTS",
    "NOCLOBBER_SESSION",
    "NOCLOBBER_SKIP",
    "NOCLOBBER_SOCKET",
}
both = pytest.mark.parametrize("output", [subprocess.PIPE, subprocess.DEVNULL])


def environment_of(output: bytes) -> dict[str, str]:
    return dict(line.decode().split("=", 1) for line in output.split(b"\0") if line)


def test_the_environment_is_the_callers_and_ours(guard: Any) -> None:
    env = {**guard.env, "ODD": "a=b\nc", "EMPTY": ""}
    command = ("cat", "/proc/self/environ")
    bare = environment_of(guard.bare(*command, env=env, text=False).stdout)
    ours = environment_of(guard.run(*command, env=env, text=False).stdout)
    kept = [{k: v for k, v in each.items() if k not in OURS} for each in (bare, ours)]
    assert kept[0] == kept[1]
    assert set(ours) - set(bare) == OURS - set(bare)
    assert ours["NOCLOBBER_SESSION"] == "s"
    assert ours["NOCLOBBER_ROOTS"] == str(guard.tree)
    assert ours["NOCLOBBER_SOCKET"] == str(guard.home / "run/noclobber/daemon.sock")
    assert ours["LD_PRELOAD"].endswith("/lib/noclobber/libnoclobber.so")
    skipped = ours["NOCLOBBER_SKIP"].split(":")
    assert {"/tmp", str(guard.home / "run")} <= set(skipped)


def test_what_is_preloaded_stays_first_and_ours_comes_once(guard: Any, launcher: str) -> None:
    other = next(Path("/lib").glob("*-linux-gnu/libm.so.6"), None)
    if not other or "ASAN_OPTIONS" in guard.env:
        pytest.skip("no library to preload, or the launcher itself is sanitized")
    env = {**guard.env, "LD_PRELOAD": str(other), "ASAN_OPTIONS": "detect_leaks=0"}
    inner = (launcher, "--session", "other", "--", "cat", "/proc/self/environ")
    found = environment_of(guard.run(*inner, env=env, text=False).stdout)
    first, second = found["LD_PRELOAD"].split(":")
    assert first == str(other)
    assert second.endswith("libnoclobber.so")
    assert found["ASAN_OPTIONS"] == "detect_leaks=0:verify_asan_link_order=0"


def test_odd_directory_names_are_escaped(guard: Any) -> None:
    odd = guard.tree / "a:b\\c"
    odd.mkdir()
    done = guard.run("printenv", "NOCLOBBER_ROOTS", args=("--root", str(odd)))
    assert done.stdout == f"{guard.tree}:{guard.tree}/a\\:b\\\\c\n"


@pytest.mark.parametrize("name", ["TMPDIR", "XDG_CACHE_HOME"])
def test_no_variable_makes_all_or_the_home_a_temp_directory(guard: Any, name: str) -> None:
    usual = guard.run("printenv", "NOCLOBBER_SKIP").stdout.strip().split(":")
    for place in ("/", guard.env["HOME"]):
        env = {**guard.env, name: place}
        found = guard.run("printenv", "NOCLOBBER_SKIP", env=env)
        listed = found.stdout.strip().split(":")
        assert "/tmp" in listed
        assert set(listed) <= set(usual)
        assert place not in listed


@both
def test_signals_masks_limits_and_places(guard: Any, output: int) -> None:
    text = """
import os, resource, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGRTMIN + 3])
for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.umask(0o027)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
os.nice(3)
os.execv(sys.argv[1], sys.argv[1:])
"""
    show = (
        "{ grep -E '^Sig[BIC]|^Umask' /proc/self/status; pwd; ulimit -n; ulimit -Hn; nice; } > $1"
    )
    texts = []
    for name in ("bare", "guarded"):
        out = guard.home / name
        command = ["bash", "-c", show, "bash", str(out)]
        if name == "guarded":
            command = guard.command(*command)
        first = str(shutil.which(command[0]))
        guard.bare(sys.executable, "-c", text, first, *command[1:], capture_output=False,
                   stdout=output, stderr=output)  # fmt: skip
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert "SigIgn" in texts[0]


@both
def test_descriptors_are_inherited_and_none_is_added(guard: Any, output: int) -> None:
    text = "ls -l /proc/self/fd | awk '{ print $9 }' | tr '\\n' ' ' > $1"
    reading, writing = os.pipe()
    seen = []
    for name in ("bare", "guarded"):
        out = guard.home / name
        command = ["bash", "-c", text, "bash", str(out)]
        if name == "guarded":
            command = guard.command(*command)
        guard.bare(*command, pass_fds=[reading, writing], capture_output=False, stdout=output)
        seen.append(out.read_text())
    os.close(reading)
    os.close(writing)
    assert seen[0] == seen[1]
    assert str(writing) in seen[0].split()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_descriptors_stay_closed(guard: Any, closed: str) -> None:
    show = "for i in 0 1 2 3; do [ -e /proc/$$/fd/$i ]; n=$n$?; done; exec 9> $1; echo $n >&9"
    texts = []
    for name in ("bare", "guarded"):
        out = guard.home / name
        command = ["bash", "-c", show, "bash", str(out)]
        if name == "guarded":
            command = guard.command(*command)
        guard.bare("bash", "-c", f'"$@" {closed}', "bash", *command)
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert "1" in texts[0]


def test_standard_input_is_the_commands(guard: Any) -> None:
    done = guard.shell("read a; read b; echo $b; cat", input="1\n2\n3\n4")
    assert done.stdout == "2\n3\n4"


def test_a_writer_to_a_command_that_has_closed_its_input_is_told(start: Any) -> None:
    process = start("bash", "-c", "exec <&-; echo closed; sleep 20", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"closed\n"
    time.sleep(0.5)  # the launcher's own processes may still be closing theirs
    with pytest.raises(BrokenPipeError):
        os.write(process.stdin.fileno(), b"x")


@both
def test_an_alarm_that_the_caller_set_finds_the_command(guard: Any, output: int) -> None:
    text = "import os, signal, sys; signal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])"
    began = time.monotonic()
    command = guard.command("sleep", "30")
    done = guard.bare(sys.executable, "-c", text, *command, capture_output=False,
                      stdout=output, stderr=output)  # fmt: skip
    assert done.returncode == -signal.SIGALRM
    assert time.monotonic() - began < 20


def test_the_command_stays_in_its_callers_session_and_group(guard: Any) -> None:
    text = "import os; print(os.getsid(0), os.getpgid(0))"
    done = guard.run("python3", "-c", text)
    assert done.stdout == f"{os.getsid(0)} {os.getpgid(0)}\n"
