"""Overrides: who may let a replacement through, of what, for how long, and
what is written down of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noclobber import overrides, wire
from noclobber.config import Rule
from noclobber.overrides import Override, Overrides, Rules
from noclobber.rule import Verdict
from noclobber.wire import C

TEXT = b"".join(b"line %d\n" % number for number in range(1, 1001))
DENY, SNAPSHOT = Verdict.DENY.value, Verdict.SNAPSHOT.value


@pytest.fixture
def file(running) -> Path:
    """A file of which the session has seen a part: its replacement is refused."""
    path = running.tree / "f"
    path.write_bytes(TEXT)
    running.talker().read(path, (0, 103))
    assert running.talker().ask(path).verdict == DENY
    return path


def told(running) -> list[dict]:
    lines = running.cli("log", "--json").stdout.splitlines()
    return [each for each in map(json.loads, lines) if each["row"] == 7]


def allow(running, *words: str | Path) -> None:
    done = running.cli("allow", *map(str, words))
    assert done.returncode == 0, done.stderr


def test_the_receipt_of_a_use_says_who_when_and_why(running, file):
    before = time.time()
    allow(running, file, "--reason", "it is generated", "--for", "10m")
    assert running.talker().ask(file).row == 7
    assert running.talker().ask(file).verdict == DENY
    (receipt,) = told(running)
    override = receipt["override"]
    assert (override["reason"], override["path"]) == ("it is generated", str(file))
    assert before <= override["since"] <= time.time()
    assert override["until"] == pytest.approx(override["since"] + 600)
    assert "process" in override["by"] and override["by"] in receipt["reason"]
    assert (running.state / "snapshots" / receipt["snapshot"]).read_bytes() == TEXT


def test_what_needs_no_override_uses_none_up(running, file):
    allow(running, file, "--reason", "x")
    transform = running.talker()
    transform.read(file)
    assert transform.ask(file).verdict != DENY
    assert told(running) == []
    assert len(running.cli("allow", "--json").stdout.splitlines()) == 1


def test_its_time_ends(running, file):
    allow(running, file, "--reason", "x", "--for", "1s")
    until = json.loads(running.cli("allow", "--json").stdout)["until"]
    time.sleep(max(0.0, until - time.time()) + 0.01)
    assert running.talker().ask(file).verdict == DENY
    assert running.cli("allow", "--list").stdout == "No override stands.\n"


def test_it_is_listed_and_taken_back(running, file):
    allow(running, file, "--reason", "tidy up")
    listed = running.cli("allow", "--list").stdout
    assert str(file) in listed and "tidy up" in listed
    allow(running, file, "--revoke")
    assert running.talker().ask(file).verdict == DENY
    again = running.cli("allow", str(file), "--revoke")
    assert again.returncode == 1 and "no override stands" in again.stderr


def test_one_that_was_used_or_taken_back_does_not_come_again_with_the_daemon(running, file):
    other = running.tree / "other"
    other.write_bytes(TEXT)
    allow(running, file, "--reason", "x")
    allow(running, other, "--reason", "x")
    assert running.talker().ask(file).row == 7
    allow(running, other, "--revoke")
    pid = json.loads(running.cli("status", "--json").stdout)["pid"]
    os.kill(pid, 9)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    running.start()
    assert running.cli("allow", "--list").stdout == "No override stands.\n"
    assert running.talker().ask(file).verdict == DENY


def test_a_file_that_was_deleted_first_may_be_made_again(running, file):
    """The replacement that is let through is then the creation."""
    running.launch(command="d", flags=C.NC_ATTESTED)
    running.shown(TEXT[:200], command="d")
    running.talker(command="d").read(file, (0, 200))
    allow(running, file, "--reason", "begin anew")
    writer = running.talker("voiced")
    assert writer.ask(file, C.NC_OP_DELETE).verdict == SNAPSHOT
    file.unlink()
    file.touch()
    answer = writer.ask(file, C.NC_OP_CREATE)
    assert (answer.verdict, answer.row, file.read_bytes()) == (SNAPSHOT, 7, b"")
    (receipt,) = told(running)
    assert receipt["op"] == "create" and receipt["override"]["reason"] == "begin anew"
    assert (running.state / "snapshots" / receipt["snapshot"]).read_bytes() == TEXT


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "is not there"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.symlink_to("f"), "is a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "is a symbolic link"),
        (lambda path: os.mkfifo(path), "is no regular file"),
    ],
)
def test_what_cannot_be_allowed_is_said(running, file, make, why):
    make(running.tree / "x")
    done = running.cli("allow", str(running.tree / "x"), "--reason", "x")
    assert done.returncode == 1 and why in done.stderr
    assert running.cli("allow", "--json").stdout == ""


def test_a_file_where_nobody_is_refused_needs_none(running, file):
    outside = Path(f"/var/tmp/noclobber-{os.getpid()}")
    outside.write_bytes(TEXT)
    try:
        done = running.cli("allow", str(outside), "--reason", "x")
    finally:
        outside.unlink()
    assert done.returncode == 1 and "temp, cache or runtime directory" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["f"],
        ["f", "--reason", " "],
        ["f", "--list"],
        ["--revoke"],
        ["f", "--reason", "x", "--for", "10"],
        ["f", "--reason", "x", "--for", "0m"],
        ["f", "--reason", "x", "--for", "8d"],
    ],
)
def test_wrong_usage_is_status_2(stopped, words):
    assert stopped.cli("allow", *words).returncode == 2


def config(running, text: str) -> None:
    path = running.home / "config" / "noclobber" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_inside_of_a_session_it_takes_the_users_configuration(running, file):
    config(running, "allow_inside = true\n")
    running.cli("daemon", "stop")
    running.start()
    running.env["NOCLOBBER_SESSION"] = "s"
    allow(running, file, "--reason", "x")
    del running.env["NOCLOBBER_SESSION"]
    assert running.talker().ask(file).row == 7
    assert "within a session" in told(running)[0]["override"]["by"]


def test_the_tree_that_the_agent_works_in_cannot_permit_it(running, file):
    (running.tree / "noclobber.toml").write_text("allow_inside = true\n")
    running.env["NOCLOBBER_SESSION"] = "s"
    done = running.cli("allow", str(file), "--reason", "x")
    del running.env["NOCLOBBER_SESSION"]
    assert done.returncode == 1 and "outside of the session" in done.stderr


def test_what_the_configuration_names_may_always_be_replaced(running, file):
    golden = running.tree / "testdata" / "a.golden"
    golden.parent.mkdir()
    golden.write_bytes(TEXT)
    running.talker().read(golden, (0, 103))
    assert running.talker().ask(golden).verdict == DENY
    (running.tree / "noclobber.toml").write_text(
        '[[allow]]\npaths = ["testdata/*.golden"]\nreason = "made anew by the tests"\n'
    )
    time.sleep(1.1)  # the daemon looks at its configuration once a second
    allow(running, golden, "--reason", "one time")
    for _ in range(2):
        assert running.talker().ask(golden).row == 7
    assert running.talker().ask(file).verdict == DENY
    for receipt in told(running):
        assert receipt["override"]["by"] == "the configuration"
        assert "made anew by the tests" in receipt["reason"]
    assert len(running.cli("allow", "--json").stdout.splitlines()) == 1  # not used up


def test_globs_are_relative_to_the_root_or_to_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    rules = Rules([Rule(("/gen/", "*.snap", "~/notes/*.md"), "why")])
    for path, root in (
        (b"/r/gen/x", b"/r"), (b"/r/a/b.snap", b"/r"), (b"/home/me/notes/a.md", None),
        (b"/home/me/notes/a.md", b"/home/me/notes"),
    ):  # fmt: skip
        found = rules.get(path, root)
        assert found is not None and found.path == os.fsdecode(path), path
    for path, root in (
        (b"/r/a/gen/x", b"/r"), (b"/r/b.snap", None), (b"/r/b.snap", b"/other"),
        (b"/home/me/b.snap", None), (b"/home/you/notes/a.md", None),
    ):  # fmt: skip
        assert rules.get(path, root) is None, path


def test_an_override_comes_back_as_it_was_kept():
    standing = Overrides()
    one = Override("/we\udcffird", "why", "who", time.time() + 60, time.time())
    standing.load(one.packed())
    assert standing.all() == [one] and standing.get(b"/we\xffird") == one
    standing.load(json.dumps({"path": "/a", "reason": "r", "by": "b", "until": 2e10}).encode())
    assert len(standing.all()) == 2  # as an earlier release kept it


# Who is inside.


def asked_by(puppet, running, file: Path) -> dict:
    """The reply where that process asks for an override."""
    request = {"do": "allow", "path": str(file), "reason": "x"}
    with puppet.connect(running.socket) as end:
        end.sendall(wire.record(C.NC_REQUEST, wire.RECORD, tail=json.dumps(request).encode()))
        got = b""
        while not (found := wire.records(got, len(got))[0]):
            got += end.recv(65536)
    return json.loads(got[wire.RECORD_SIZE : found[0][3]].rstrip(b"\0"))


def test_who_reported_in_a_session_is_inside_whatever_its_environment(running, file):
    assert asked_by(running.puppet(), running, file)["by"]
    allow(running, file, "--revoke")
    reported = running.talker().puppet  # that said hello once, and went on
    assert "outside of the session" in asked_by(reported, running, file)["error"]
    assert running.cli("allow", "--json").stdout == ""


def test_a_child_of_a_sessions_command_is_inside(running, file):
    command = running.puppet()
    running.launch(command="d", pid=command.process.pid)
    assert "outside of the session" in asked_by(command, running, file)["error"]


def test_who_cannot_be_looked_at_is_taken_for_no_person():
    assert overrides.is_inside(0, [], [])


def test_below_a_process_with_a_sessions_name_is_inside(running, file):
    """The variable stands in the environment of an ancestor, and the asking
    process has none of it."""
    code = (
        "import os, subprocess, sys; os.environ.pop('NOCLOBBER_SESSION');"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    )
    cli = [sys.executable, "-c", "from noclobber.cli import main; main()"]
    for session, status in (("s", 1), ("somebody-elses", 0)):
        done = subprocess.run(
            [sys.executable, "-c", code, *cli, "allow", str(file), "--reason", "x"],
            env={**running.env, "NOCLOBBER_SESSION": session}, capture_output=True,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
