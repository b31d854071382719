"""The launcher and the real daemon: found, started once, or missed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

LIMIT = 60  # seconds


@pytest.fixture(autouse=True)
def _stop(guard: Any) -> Iterator[None]:
    yield
    guard.cli("daemon", "stop")


def daemons(guard: Any) -> list[psutil.Process]:
    """The process that listens at this test's socket, if any: at most one can."""
    found = []
    for process in psutil.process_iter():
        try:
            words, env = process.cmdline(), process.environ()
        except psutil.Error:
            continue
        if "daemon" in words and env.get("XDG_RUNTIME_DIR") == guard.env["XDG_RUNTIME_DIR"]:
            found.append(process)
    return found


def settled(guard: Any) -> list[psutil.Process]:
    """The daemons, once the programs that started them are gone."""
    end = time.monotonic() + 20
    while len(found := daemons(guard)) != 1 and time.monotonic() < end:
        time.sleep(0.05)
    return found


def alone(guard: Any, launcher: str) -> tuple[str, dict[str, str]]:
    """A launcher with its shim, and no `noclobber` beside it or on PATH."""
    prefix = guard.home / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / "noclobber").mkdir(parents=True)
    shutil.copy2(launcher, prefix / "bin")
    shim = Path(launcher).parents[1] / "lib" / "noclobber" / "libnoclobber.so"
    shutil.copy2(shim, prefix / "lib" / "noclobber")
    return str(prefix / "bin" / "noclobber-exec"), {**guard.env, "PATH": "/usr/bin:/bin"}


def test_many_launchers_at_once_start_one_daemon(guard: Any) -> None:
    running = [
        subprocess.Popen(
            guard.command("echo", "x"), cwd=guard.tree, env=guard.env, stdout=subprocess.PIPE
        )
        for _ in range(6)
    ]
    for process in running:
        out, _ = process.communicate(timeout=LIMIT)
        assert (out, process.returncode) == (b"x\n", 0)
    assert len(settled(guard)) == 1


def test_the_daemon_holds_nothing_of_the_commands(guard: Any) -> None:
    # It is started here, and run() waits for the end of the pipes.
    assert guard.run("echo", "x").stdout == "x\n"
    (daemon,) = settled(guard)
    assert daemon.cwd() == "/"
    assert "LD_PRELOAD" not in daemon.environ()
    assert daemon.terminal() is None
    assert os.getsid(daemon.pid) != os.getsid(0)


def test_a_runtime_directory_longer_than_an_address(guard: Any) -> None:
    deep = guard.home / ("deep" * 40)
    deep.mkdir(mode=0o700)
    env = {**guard.env, "XDG_RUNTIME_DIR": str(deep)}
    try:
        done = guard.run("echo", "x", env=env)
        assert (done.stdout, done.returncode) == ("x\n", 0), done.stderr
        again = guard.run("echo", "y", env=env)
        assert (again.stdout, again.stderr) == ("y\n", "")
    finally:
        guard.cli("daemon", "stop", env=env)


def test_no_daemon_no_command(guard: Any, launcher: str) -> None:
    path, env = alone(guard, launcher)
    done = guard.bare(path, "--session", "s", "--", "echo", "x", env=env)
    assert (done.returncode, done.stdout) == (125, "")
    assert "`noclobber daemon start`" in done.stderr
    assert "NOCLOBBER_FAIL=open" in done.stderr


def test_fail_open_runs_the_command_bare_and_says_so(guard: Any, launcher: str) -> None:
    path, env = alone(guard, launcher)
    env["NOCLOBBER_FAIL"] = "open"
    text = "echo x; printenv LD_PRELOAD; exit 3"
    done = guard.bare(path, "--session", "s", "--", "bash", "-c", text, env=env)
    assert (done.stdout, done.returncode) == ("x\n", 3)
    assert done.stderr.endswith("bash runs unguarded\n")


def test_a_user_who_configured_it_runs_bare_where_no_daemon_comes(
    guard: Any, launcher: str
) -> None:
    path, env = alone(guard, launcher)
    config = Path(guard.env["XDG_CONFIG_HOME"]) / "noclobber" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('fail = "open"\n')
    assert guard.shell("printenv NOCLOBBER_FAIL").stdout == "open\n"
    guard.cli("daemon", "stop")
    done = guard.bare(path, "--session", "s", "--", "echo", "x", env=env)
    assert (done.stdout, done.returncode) == ("x\n", 0), done.stderr
    assert "runs unguarded" in done.stderr


def test_no_shim_no_command(guard: Any, launcher: str) -> None:
    path, env = alone(guard, launcher)
    (Path(path).parents[1] / "lib" / "noclobber" / "libnoclobber.so").unlink()
    done = guard.bare(path, "--session", "s", "--", "echo", "x", env=env)
    assert done.returncode == 125
    assert "libnoclobber.so: No such file" in done.stderr


def test_a_socket_left_by_a_killed_daemon(guard: Any) -> None:
    assert guard.run("true").returncode == 0
    (daemon,) = settled(guard)
    daemon.kill()
    daemon.wait(LIMIT)
    done = guard.run("echo", "again")
    assert (done.stdout, done.returncode) == ("again\n", 0), done.stderr
    assert len(settled(guard)) == 1


def test_a_daemon_that_takes_nobody_in(guard: Any) -> None:
    path = guard.home / "run" / "noclobber" / "daemon.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        deaf.listen(0)
        held = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for end in held:
            end.setblocking(False)
            end.connect_ex(str(path))
        began = time.monotonic()
        done = guard.run("echo", "x")
        for end in held:
            end.close()
    path.unlink()
    assert time.monotonic() - began < 10
    assert done.returncode == 125
    assert "cannot be reached" in done.stderr
