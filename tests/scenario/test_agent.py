"""The agent's own process under `noclobber run`: real harnesses whose Read tool
shows a part of what it reads, and whose Write tool is in the same process."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HARNESS = Path(__file__).with_name("programs")
PYTHON = (sys.executable, str(HARNESS / "agent.py"))
NODE = ("node", str(HARNESS / "agent.js"))

OLD = "".join(f"{n}\n" for n in range(1, 5001))  # less than an agent is shown at a time
LONG = "".join(f"line {n} of a file that is longer than that\n" for n in range(1, 5001))

REFUSED = {"errno": errno.EPERM}
READ = ["read", "f"]
WRITE_BACK = ["write", "f", "$0"]

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="needs node")

Run = Callable[..., list[Any]]


class Agent:
    """`noclobber run` over a tree with the file `f`."""

    def __init__(self, guard: Any) -> None:
        self.guard = guard
        self.file = guard.tree / "f"
        self.file.write_text(OLD)
        self.said = ""

    def run(
        self, program: tuple[str, ...], *calls: list[str], args: tuple[str, ...] = ()
    ) -> list[Any]:
        """What the calls returned; `args` are noclobber's own."""
        done = self.start(program, *calls, args=args)
        self.said = done.stderr
        assert done.stdout, done.stderr
        found: list[Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def start(
        self, program: tuple[str, ...], *calls: list[str], args: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        words = ["run", "--session", "s", "--root", str(self.guard.tree), *args, "--", *program]
        done: subprocess.CompletedProcess[str] = self.guard.cli(*words, json.dumps(calls))
        return done


@pytest.fixture
def agent(guard: Any) -> Agent:
    return Agent(guard)


# What goes back is a part of what was read.


def test_what_the_read_tool_returned_does_not_go_back_for_the_whole(agent: Agent) -> None:
    before = agent.file.stat()
    assert agent.run(PYTHON, READ, WRITE_BACK)[1] == REFUSED
    assert agent.file.read_text() == OLD
    after = agent.file.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert "unseen: lines 1001-5000" in agent.said and "is a cut of" in agent.said
    (receipt,) = [r for r in agent.guard.receipts() if r["verdict"] == "deny"]
    assert (receipt["path"], receipt["op"], receipt["row"]) == (str(agent.file), "truncate", 9)
    assert (receipt["seen_lines"], receipt["total_lines"]) == (1000, 5000)


@pytest.mark.parametrize(
    "tool",
    [
        "write_in_pieces",
        "write_by_fd",
        "write_then_shrink",
        "empty_then_write",
        "write_atomically",
        "copy_over",
        "delete_then_write",
    ],
)
def test_whatever_way_it_is_written(agent: Agent, tool: str) -> None:
    assert agent.run(PYTHON, READ, [tool, "f", "$0"])[1] == REFUSED
    assert agent.file.read_text() == OLD
    assert [path.name for path in agent.guard.tree.iterdir()] == ["f"]


def test_lines_without_numbers_or_a_notice_are_a_part_no_less(agent: Agent) -> None:
    assert agent.run(PYTHON, ["read_plain", "f"], WRITE_BACK)[1] == REFUSED
    assert agent.file.read_text() == OLD


def test_what_is_left_open_is_looked_at_when_the_process_ends(agent: Agent) -> None:
    agent.run(PYTHON, READ, ["leave_open", "f", "$0"])
    assert agent.file.read_text() == OLD
    assert agent.guard.denied() == [str(agent.file)]


def test_a_file_that_git_holds_goes_back_no_less(agent: Agent) -> None:
    git = "git init -q && git add f && git -c user.name=n -c user.email=e commit -qm m"
    assert agent.guard.bare("bash", "-c", git).returncode == 0
    assert agent.run(PYTHON, READ, WRITE_BACK)[1] == REFUSED
    assert agent.file.read_text() == OLD
    assert [r["verdict"] for r in agent.guard.receipts()] == ["deny"]


def test_workers_that_it_forks_are_the_agent_too(agent: Agent) -> None:
    calls = [["in_worker", *READ], ["in_worker", *WRITE_BACK]]
    assert agent.run(PYTHON, *calls)[1] == REFUSED
    assert agent.file.read_text() == OLD


def test_a_second_try_is_refused_and_then_an_edit_passes(agent: Agent) -> None:
    edit = ["edit", "f", "\n4000\n", "\nfour thousand\n"]
    found = agent.run(PYTHON, READ, WRITE_BACK, WRITE_BACK, edit, WRITE_BACK)
    assert found[1:] == [REFUSED, REFUSED, "edited", REFUSED]
    assert agent.file.read_text() == OLD.replace("\n4000\n", "\nfour thousand\n")


@needs_node
@pytest.mark.parametrize("tool", ["read", "readPromised"])
@pytest.mark.parametrize(
    "how", ["write", "writePromised", "writeCalledBack", "writeStreamed", "writeAtomically"]
)
def test_node_is_refused_by_its_own_errors(agent: Agent, tool: str, how: str) -> None:
    assert agent.run(NODE, [tool, "f"], [how, "f", "$0"])[1] == REFUSED
    assert agent.file.read_text() == OLD


# What passes.


@pytest.mark.parametrize("program", [PYTHON, pytest.param(NODE, marks=needs_node)])
def test_an_edit_of_a_file_that_nobody_saw_whole_passes(
    agent: Agent, program: tuple[str, ...]
) -> None:
    agent.file.write_text(LONG)
    line = "line 4000 of a file"
    found = agent.run(program, ["read", "f"], ["edit", "f", line, "LINE 4000 of a file"])
    assert found[1] == "edited"
    assert agent.file.read_text() == LONG.replace(line, "LINE 4000 of a file")
    assert agent.guard.denied() == []


def test_a_rewrite_and_a_deletion_of_the_last_lines_pass_and_are_kept(agent: Agent) -> None:
    found = agent.run(PYTHON, READ, ["write", "f", "all new\n"])
    assert (found[1], agent.file.read_text()) == ("written", "all new\n")
    agent.file.write_text(OLD)
    tail = "".join(f"{n}\n" for n in range(4991, 5001))
    assert agent.run(PYTHON, ["edit", "f", tail, ""]) == ["edited"]
    kept = [r for r in agent.guard.receipts() if r["snapshot"]]
    assert [(r["row"], r["total_lines"]) for r in kept] == [(6, 5000), (6, 5000)]
    assert agent.guard.denied() == []


def test_a_rewrite_in_place_passes(agent: Agent) -> None:
    new = OLD.replace("\n77\n", "\n")
    assert agent.run(PYTHON, READ, ["write_then_shrink", "f", new])[1] == "written"
    assert agent.file.read_text() == new
    assert agent.guard.denied() == []


def test_its_own_files_outside_of_the_roots_are_its_own_business(agent: Agent) -> None:
    settings = agent.guard.home / ".agent.json"
    settings.write_text("".join(f'"{n}": 1,\n' for n in range(100)))
    found = agent.run(PYTHON, ["edit", str(settings), '"77": 1', '"77": 2'])
    assert found == ["edited"]


def test_what_a_child_writes_by_its_descriptor_is_no_business_of_the_agents(agent: Agent) -> None:
    """It closes its own descriptor of the file while head is still at it."""
    agent.file.with_name("g").write_text(OLD)
    text = "sleep 0.3; head -n 1000 g"
    assert agent.run(PYTHON, ["read", "g"], ["bash_into", "g", text])[1] == "done"


# What the agent takes in from its children.


PYTHON_WAYS = [
    "bash",
    "bash_by_event_loop",
    "bash_by_sockets",
    "bash_by_terminal",
    "bash_by_fork",
    "bash_by_spawn",
    "shell",
]
WAYS = [(PYTHON, way) for way in PYTHON_WAYS]
WAYS_OF_NODE = [(NODE, way) for way in ("bash", "bashSync", "bashSpawned")]
every_way = pytest.mark.parametrize(
    ("program", "way"), [*WAYS, *(pytest.param(*each, marks=needs_node) for each in WAYS_OF_NODE)]
)


@every_way
def test_after_its_commands_have_shown_it_whole_it_may_be_rewritten(
    agent: Agent, program: tuple[str, ...], way: str
) -> None:
    first, rest = [way, "sed -n 1,3000p f"], [way, "tail -n 2000 f"]
    found = agent.run(program, READ, first, WRITE_BACK, rest, WRITE_BACK)
    assert (found[2], found[4]) == (REFUSED, "written")
    assert agent.guard.denied() == [str(agent.file)]


@every_way
def test_what_one_command_showed_counts_for_the_next(
    agent: Agent, program: tuple[str, ...], way: str
) -> None:
    agent.run(program, [way, "head -n 2500 f"], [way, "tail -n 2500 f"], [way, "printf new > f"])
    assert agent.file.read_text() == "new"
    assert agent.guard.denied() == []


@every_way
def test_what_a_command_counted_or_printed_itself_does_not(
    agent: Agent, program: tuple[str, ...], way: str
) -> None:
    agent.run(program, [way, "grep -c 1 f"], [way, "cat f; printf new > f; true"])
    assert agent.file.read_text() == OLD
    assert agent.guard.denied() == [str(agent.file)]


def test_a_shell_that_stays_shows_each_command_anew(agent: Agent) -> None:
    """Together they print more than twice what is shown of one command."""
    lines = LONG.splitlines(keepends=True)[:1600]
    agent.file.write_text("".join(lines))
    pages = [["shell", f"sed -n {n + 1},{n + 400}p f"] for n in range(0, 1600, 400)]
    agent.run(PYTHON, *pages, ["shell", "printf new > f"])
    assert agent.file.read_text() == "new"


def test_of_a_command_no_more_counts_than_an_agent_is_shown(agent: Agent) -> None:
    agent.file.write_text(LONG)
    agent.run(PYTHON, ["bash", "cat f"], ["bash", "printf new > f; true"])
    assert agent.file.read_text() == LONG
    (receipt,) = [r for r in agent.guard.receipts() if r["verdict"] == "deny"]
    assert receipt["grade"] == "shown"
    assert receipt["seen_bytes"] == 30_000


def test_what_a_pump_carries_counts_once(agent: Agent) -> None:
    """Of equal lines as many are seen as were printed."""
    agent.file.write_text("the same\n" * 1000)
    agent.run(PYTHON, ["bash", "exec noclobber-exec -- head -n 400 f"], ["bash", "echo > f; true"])
    (receipt,) = [r for r in agent.guard.receipts() if r["verdict"] == "deny"]
    assert receipt["seen_lines"] == 400


def test_what_a_pumped_command_printed_itself_does_not_count(agent: Agent) -> None:
    text = "exec noclobber-exec -- bash -c 'cat f; printf new > f; true'"
    agent.run(PYTHON, ["bash", text])
    assert agent.guard.denied() == [str(agent.file)]
    agent.run(PYTHON, ["bash", "exec noclobber-exec -- cat f"], ["bash", "printf new > f"])
    assert agent.file.read_text() == "new"


# Which process is the agent.


def launchers(tree: Path) -> dict[str, tuple[str, ...]]:
    script = tree.parent / "an-agent"
    script.write_text(f"#!{sys.executable}\n" + (HARNESS / "agent.py").read_text())
    script.chmod(0o755)
    wrapper = tree.parent / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nhere=$(dirname "$0")\n"$here/{script.name}" "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    return {
        "env": ("env", "A=1", *PYTHON),
        "sh -c": ("sh", "-c", 'true; "$@"; exit $?', "sh", *PYTHON),
        "#!": (str(script),),
        "wrapper": (str(wrapper),),
        "timeout": ("timeout", "50", str(wrapper)),
    }


@pytest.mark.parametrize("how", ["env", "sh -c", "#!", "wrapper", "timeout"])
def test_the_agent_is_what_its_launchers_start(agent: Agent, how: str) -> None:
    program = launchers(agent.guard.tree)[how]
    calls = [READ, ["bash", "cat f; true"], ["edit", "f", "\n77\n", "\nx\n"], READ, WRITE_BACK]
    assert agent.run(program, *calls[:1], WRITE_BACK)[1] == REFUSED
    assert agent.file.read_text() == OLD
    assert agent.run(program, READ, ["bash", "cat f"], WRITE_BACK)[2] == "written"


@needs_node
def test_node_that_npx_starts_is_the_agent(agent: Agent) -> None:
    package = agent.guard.home / "package"
    package.mkdir()
    text = (HARNESS / "agent.js").read_text()
    (package / "agent.js").write_text("#!/usr/bin/env node\n" + text)
    (package / "agent.js").chmod(0o755)
    manifest = {"name": "an-agent", "version": "1.0.0", "bin": {"an-agent": "agent.js"}}
    (package / "package.json").write_text(json.dumps(manifest))
    modules = agent.guard.home / "node_modules"
    (modules / ".bin").mkdir(parents=True)
    (modules / "an-agent").symlink_to(package)
    (modules / ".bin" / "an-agent").symlink_to(package / "agent.js")
    npx = ("npx", "--offline", "--prefix", str(agent.guard.home), "--no-install", "an-agent")
    assert agent.run(npx, READ, WRITE_BACK)[1] == REFUSED
    assert agent.run(npx, READ, ["bash", "cat f"], WRITE_BACK)[2] == "written"


def test_a_program_that_the_agent_starts_is_not_the_agent(agent: Agent) -> None:
    """It reads all and puts back what it likes: a program's own logic."""
    (agent.guard.tree / "crop.py").write_text(
        "import pathlib; p = pathlib.Path('f'); p.write_text(p.read_text()[:3893])"
    )
    agent.run(PYTHON, ["bash", "python3 crop.py"])
    assert agent.file.read_text() == OLD[:3893]
    assert agent.guard.denied() == []


def test_agent_exe_says_otherwise(agent: Agent) -> None:
    crop = "import pathlib; p = pathlib.Path('f'); p.write_text(p.read_text()[:3893])"
    program = ("python3", "-c", f"import subprocess; subprocess.run(['an-agent', '-c', {crop!r}])")
    named = agent.guard.home / "an-agent"
    named.write_text(f'#!/bin/sh\nexec -a an-agent {sys.executable} "$@"\n'.replace("sh", "bash"))
    named.chmod(0o755)
    path = {**agent.guard.env, "PATH": f"{agent.guard.home}:{agent.guard.env['PATH']}"}
    words = ["run", "--session", "x", "--root", str(agent.guard.tree)]
    agent.guard.cli(*words, "--agent-exe", "an-agent", "--", *program, env=path)
    assert agent.guard.denied() == [str(agent.file)]
    assert agent.file.read_text() == OLD


# Whatever is killed, one of the two is there.


def test_a_guard_that_dies_while_the_agent_writes_has_kept_the_old_content(agent: Agent) -> None:
    status = "import json, sys; print(json.load(sys.stdin)['pid'])"
    kill = f'kill -9 $(noclobber status --json | {sys.executable} -c "{status}")'
    found = agent.run(PYTHON, READ, ["write_amid", "f", "$0", kill])
    assert found[1] == "written"
    (receipt,) = [r for r in agent.guard.receipts() if r["snapshot"]]
    done = agent.guard.cli("restore", "--id", receipt["id"])
    assert done.returncode == 0, done.stderr
    assert agent.file.read_text() == OLD


def test_an_agent_that_is_killed_amid_its_writing_leaves_the_old_content_kept(agent: Agent) -> None:
    agent.start(PYTHON, READ, ["write_and_die", "f", "$0"])
    assert agent.file.read_text() != OLD
    (receipt,) = [r for r in agent.guard.receipts() if r["snapshot"]]
    assert agent.guard.cli("restore", "--id", receipt["id"]).returncode == 0
    assert agent.file.read_text() == OLD
