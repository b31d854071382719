"""Whose command it is: the session, its roots, and what the daemon is told."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from noclobber.wire import C

pytestmark = pytest.mark.usefixtures("listener")


def test_the_daemon_is_told_of_a_command_and_of_its_end(guard: Any, listener: Any) -> None:
    done = guard.run("echo", "a b", "", args=("--tier", "read-only", "--shown-limit", "5000"))
    assert done.returncode == 0
    listener.until(listener.ended)
    (command,) = listener.commands()
    assert command.session == "s"
    assert command.argv == ("echo", "a b", "")
    assert command.cwd == str(guard.tree)
    assert command.roots == (str(guard.tree),)
    assert command.tier == C.NC_READ_ONLY
    assert command.limit == 5000
    assert command.flags == C.NC_ATTESTED
    assert listener.ended() == [command.command]


@pytest.mark.parametrize("output", [subprocess.PIPE, subprocess.DEVNULL])
def test_the_pid_is_the_commands(guard: Any, listener: Any, output: int) -> None:
    out = guard.home / "pid"
    guard.shell(f"echo $$ > {out}", capture_output=False, stdout=output, stderr=output)
    assert listener.first().pid == int(out.read_text())


def test_many_arguments_are_cut(guard: Any, listener: Any) -> None:
    guard.run("true", *["x" * 500] * 100)
    words = listener.first().argv
    assert words[:2] == ("true", "x" * 500)
    assert sum(len(word) + 1 for word in words) <= C.NC_ARGV_MAX


@pytest.mark.parametrize(
    ("args", "flags"),
    [(("--no-pump",), 0), (("--agent",), C.NC_AGENT), ((), C.NC_ATTESTED)],
)
def test_what_the_daemon_is_told_of_the_pump(
    guard: Any, listener: Any, args: tuple[str, ...], flags: int
) -> None:
    assert guard.run("echo", "x", args=args).stdout == "x\n"
    assert listener.first().flags == flags


def test_output_that_goes_nowhere_is_attested(guard: Any, listener: Any) -> None:
    null = subprocess.DEVNULL
    guard.run("echo", "x", capture_output=False, stdout=null, stderr=null)
    assert listener.first().flags == C.NC_ATTESTED
    assert listener.shown() == []


def test_one_session_for_one_harness_and_root(guard: Any, launcher: str, listener: Any) -> None:
    (guard.tree / "other").mkdir()
    run = f"""
import subprocess
for command in (["{launcher}", "true"], ["bash", "-c", "env {launcher} true; true"],
                ["{launcher}", "--root", "other", "true"]):
    subprocess.run(command, stdout=subprocess.PIPE, check=True)
"""
    for _ in range(2):
        assert guard.bare("python3", "-c", run).returncode == 0
    listener.until(lambda: len(listener.commands()) == 6)
    sessions = [c.session for c in listener.commands()]
    assert sessions[0] == sessions[1] != sessions[2]
    assert sessions[3] == sessions[4] != sessions[5]
    assert sessions[0] != sessions[3]
    assert all(name.startswith("python3") for name in sessions)


def test_the_session_of_the_environment(guard: Any, launcher: str, listener: Any) -> None:
    guard.bare(launcher, "true", env={**guard.env, "NOCLOBBER_SESSION": "mine"})
    assert listener.first().session == "mine"


@pytest.mark.parametrize("kind", ["directory", "file", "none"])
def test_the_root_is_the_git_top_level_or_here(
    guard: Any, launcher: str, listener: Any, kind: str
) -> None:
    below = guard.tree / "a" / "b"
    below.mkdir(parents=True)
    if kind == "directory":
        (guard.tree / ".git").mkdir()
    if kind == "file":
        (guard.tree / ".git").write_text("gitdir: elsewhere\n")
    guard.bare(launcher, "true", cwd=below)
    wanted = below if kind == "none" else guard.tree
    assert listener.first().roots == (str(wanted),)


def test_roots_are_canonical_and_named_once(guard: Any, launcher: str, listener: Any) -> None:
    (guard.tree / "d").mkdir()
    (guard.tree / "link").symlink_to("d")
    guard.bare(launcher, "--root", "link", "--root=d/.", "--root", ".", "true")
    assert listener.first().roots == (str(guard.tree / "d"), str(guard.tree))


def test_a_working_directory_that_is_gone(guard: Any, launcher: str) -> None:
    text = f"mkdir x; cd x; rmdir ../x; {launcher} --session s -- echo here"
    assert guard.bare("bash", "-c", text).stdout == "here\n"


def test_a_working_directory_deeper_than_a_path_may_be(
    guard: Any, launcher: str, listener: Any
) -> None:
    text = (
        "mkdir .git; d=$(printf 'x%.0s' {1..200}); for i in {1..25}; do mkdir $d; cd $d; done; "
        f"{launcher} --session s -- echo here"
    )
    done = guard.bare("bash", "-c", text)
    assert done.stdout == "here\n", done.stderr
    assert listener.first().roots == (str(guard.tree),)


def test_a_command_inside_of_a_command_is_part_of_it(
    guard: Any, launcher: str, listener: Any
) -> None:
    (guard.tree / "f").write_text("never printed\n" * 10)
    text = f"{launcher} --session s -- cat f | wc -l; {launcher} -- printenv NOCLOBBER_COMMAND"
    done = guard.shell(text)
    listener.until(listener.ended)
    (command,) = listener.commands()
    assert done.stdout == f"10\n{command.command}\n"
    assert listener.text() == done.stdout.encode()


def test_a_command_of_the_agent_is_one_of_its_own(guard: Any, launcher: str, listener: Any) -> None:
    done = guard.run(launcher, "--", "echo", "seen", args=("--agent",))
    assert done.stdout == "seen\n"
    listener.until(listener.ended)
    agent, command = listener.commands()
    assert (agent.flags, command.flags) == (C.NC_AGENT, C.NC_ATTESTED)
    assert agent.session == command.session == "s"
    assert command.roots == (str(guard.tree),)
    assert listener.text() == b"seen\n"


def test_another_session_inside_of_one_is_told(guard: Any, launcher: str, listener: Any) -> None:
    guard.shell(f"{launcher} --session t -- echo x")
    listener.until(lambda: len(listener.ended()) == 2)
    assert [c.session for c in listener.commands()] == ["s", "t"]
