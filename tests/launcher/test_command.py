"""noclobber-exec and noclobber-bash as a harness sees them: as the command."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("listener")


@pytest.mark.parametrize("status", [0, 1, 7, 125, 126, 127, 255])
def test_the_status_is_the_commands(guard: Any, status: int) -> None:
    assert guard.shell(f"exit {status}").returncode == status


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT", "SEGV", "USR1", "PIPE", "ABRT"])
@pytest.mark.parametrize("output", [subprocess.PIPE, subprocess.DEVNULL])
def test_a_death_by_signal_is_the_launchers_too(guard: Any, name: str, output: int) -> None:
    done = guard.shell(f"kill -{name} $$", capture_output=False, stdout=output, stderr=output)
    assert done.returncode == -getattr(signal, f"SIG{name}")


def test_a_shell_says_128_and_the_signal(guard: Any) -> None:
    text = '"$@" 2>/dev/null; echo $?'
    command = guard.command("bash", "-c", "kill -TERM $$")
    assert guard.bare("bash", "-c", text, "bash", *command).stdout == "143\n"


def test_a_death_by_signal_leaves_no_core_of_ours(guard: Any) -> None:
    text = 'ulimit -c unlimited; "$@"; ls'
    command = guard.command("bash", "-c", "ulimit -c 0; kill -SEGV $$")
    assert guard.bare("bash", "-c", text, "bash", *command).stdout == ""


def test_the_status_is_there_where_the_caller_ignores_sigchld(guard: Any) -> None:
    text = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = guard.command("bash", "-c", "exit 9")
    assert guard.bare(sys.executable, "-c", text, *command).returncode == 9


def test_a_command_that_is_not_there(guard: Any) -> None:
    done = guard.run("no-such-program")
    assert done.returncode == 127
    assert done.stderr == "noclobber-exec: no-such-program: No such file or directory\n"


def test_a_file_that_cannot_be_executed(guard: Any) -> None:
    (guard.tree / "plain").write_text("x\n")
    done = guard.run("./plain")
    assert done.returncode == 126
    assert done.stderr == "noclobber-exec: ./plain: Permission denied\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--nonsense", "--", "true"], "unknown option --nonsense"),
        (["-x", "true"], "unknown option -x"),
        ([], "no command given"),
        (["--"], "no command given"),
        (["--session"], "option --session needs a value"),
        (["--session", "", "true"], "a session's name has 1 to 128 bytes"),
        (["--session", "s" * 129, "true"], "a session's name has 1 to 128 bytes"),
        (["--root", "/no/such/place", "true"], "--root /no/such/place: No such file"),
        (["--root", "/etc/passwd", "true"], "--root /etc/passwd: Not a directory"),
        (["--tier", "free", "true"], "--tier: workspace-write or read-only, not free"),
        (["--shown-limit", "many", "true"], "--shown-limit: not a number"),
        (["--shown-limit=0", "true"], "--shown-limit: not a number"),
        (["--shown-limit=-4", "true"], "--shown-limit: not a number"),
    ],
)
def test_our_own_failures_are_125_and_one_line(
    guard: Any, launcher: str, args: list[str], said: str
) -> None:
    done = guard.bare(launcher, *args)
    assert done.returncode == 125
    assert done.stderr.startswith(f"noclobber-exec: {said}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_help_and_version_go_to_stdout(guard: Any, launcher: str) -> None:
    for option, word in (("--help", "Usage: noclobber-exec"), ("--version", "noclobber 0.")):
        done = guard.bare(launcher, option)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(word)


def test_options_end_at_the_command(guard: Any, launcher: str) -> None:
    done = guard.bare(launcher, "--session=s", "echo", "--session", "x", "--", "-n")
    assert done.stdout == "--session x -- -n\n"


def test_arguments_are_passed_on_as_they_are(guard: Any) -> None:
    words = ["", "a  b", "*", "-n", "--", "\\", "ä", "x\ny"]
    text = "import sys; print(sys.argv[1:])"
    assert guard.run("python3", "-c", text, *words).stdout == f"{words}\n"


def test_noclobber_bash_is_bash(guard: Any, launcher: str, listener: Any) -> None:
    bash = str(Path(launcher).with_name("noclobber-bash"))
    text = 'echo "$0" "$@"; shopt -q login_shell || echo plain; echo $BASH_VERSION'
    for args in (["-c", text, "a", "b c"], ["--norc", "-c", text], ["-l", "-c", text]):
        ours, theirs = guard.bare(bash, *args), guard.bare("bash", *args)
        assert (ours.stdout, ours.returncode) == (theirs.stdout, theirs.returncode)
    assert listener.first().argv == ("bash", "-c", text, "a", "b c")
    done = guard.bare(bash, "--nonsense")
    assert done.returncode == guard.bare("bash", "--nonsense").returncode
    assert guard.bare(bash, "--version").stdout.startswith("GNU bash")
    assert guard.bare(bash, input="echo from stdin\n").stdout == "from stdin\n"


def test_noclobber_bash_as_the_first_bash_on_path(guard: Any, launcher: str) -> None:
    names = guard.home / "names"
    names.mkdir()
    (names / "bash").symlink_to(Path(launcher).with_name("noclobber-bash"))
    env = {**guard.env, "PATH": f"{names}:{guard.env['PATH']}"}
    bash = Path(launcher).with_name("noclobber-bash")
    assert guard.bare(str(bash), "-c", "echo here", env=env).stdout == "here\n"


def test_only_the_command_bears_its_words(guard: Any) -> None:
    if not shutil.which("pgrep") or "ASAN_OPTIONS" in guard.env:
        pytest.skip("no pgrep, or it does not run with a sanitized library")
    text = "sleep 0.3; pgrep -fc '[a]word'; : aword"
    assert guard.shell(text).stdout == guard.bare("bash", "-c", text).stdout == "1\n"
