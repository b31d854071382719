"""The launcher and the real daemon: found, started once, or missed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psutil
from tests.conftest import BIN, LIMIT, Guard


def daemons(guard: Guard) -> list[psutil.Process]:
    """The daemons whose runtime directory is this test's."""
    found = []
    for process in psutil.process_iter():
        try:
            words, env = process.cmdline(), process.environ()
        except psutil.Error:
            continue
        if "daemon" in words and env.get("XDG_RUNTIME_DIR") == guard.env["XDG_RUNTIME_DIR"]:
            found.append(process)
    return found


def alone(guard: Guard) -> tuple[str, dict[str, str]]:
    """A launcher with its shim, and no `noclobber` beside it or on PATH."""
    prefix = guard.home / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / "noclobber").mkdir(parents=True)
    shutil.copy2(BIN / "noclobber-exec", prefix / "bin")
    shim = BIN.parent / "lib" / "noclobber" / "libnoclobber.so"
    shutil.copy2(shim, prefix / "lib" / "noclobber")
    env = {**guard.env, "PATH": "/usr/bin:/bin"}
    return str(prefix / "bin" / "noclobber-exec"), env


def test_many_launchers_at_once_start_one_daemon(guard: Guard) -> None:
    command = guard.command("echo", "x")
    running = [
        subprocess.Popen(command, cwd=guard.tree, env=guard.env, stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    for process in running:
        out, _ = process.communicate(timeout=LIMIT)
        assert (out, process.returncode) == (b"x\n", 0)
    assert len(daemons(guard)) == 1


def test_the_daemon_holds_nothing_of_the_commands(guard: Guard) -> None:
    # The daemon is started here, and communicate() waits for the pipe's end.
    done = guard.run("echo", "x", timeout=LIMIT)
    assert done.stdout == "x\n"
    (daemon,) = daemons(guard)
    assert daemon.cwd() == "/"
    assert "LD_PRELOAD" not in daemon.environ()
    assert daemon.terminal() is None
    assert os.getsid(daemon.pid) != os.getsid(0)


def test_a_runtime_directory_longer_than_an_address(guard: Guard) -> None:
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


def test_no_daemon_no_command(guard: Guard) -> None:
    launcher, env = alone(guard)
    done = guard.bare(launcher, "--session", "s", "--", "echo", "x", env=env)
    assert done.returncode == 125
    assert done.stdout == ""
    assert "`noclobber daemon start`" in done.stderr
    assert "NOCLOBBER_FAIL=open" in done.stderr


def test_fail_open_runs_the_command_bare_and_says_so(guard: Guard) -> None:
    launcher, env = alone(guard)
    env["NOCLOBBER_FAIL"] = "open"
    text = "echo x; printenv LD_PRELOAD; exit 3"
    done = guard.bare(launcher, "--session", "s", "--", "bash", "-c", text, env=env)
    assert (done.stdout, done.returncode) == ("x\n", 3)
    assert done.stderr.endswith("bash runs unguarded\n")


def test_no_shim_no_command(guard: Guard) -> None:
    launcher, env = alone(guard)
    (Path(launcher).parent.parent / "lib" / "noclobber" / "libnoclobber.so").unlink()
    done = guard.bare(launcher, "--session", "s", "--", "echo", "x", env=env)
    assert done.returncode == 125
    assert "libnoclobber.so: No such file" in done.stderr


def test_a_socket_left_by_a_killed_daemon(guard: Guard) -> None:
    assert guard.run("true").returncode == 0
    (daemon,) = daemons(guard)
    daemon.kill()
    daemon.wait(LIMIT)
    done = guard.run("echo", "again")
    assert (done.stdout, done.returncode) == ("again\n", 0), done.stderr
    assert len(daemons(guard)) == 1
