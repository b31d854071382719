"""The command line, as people call it."""

import json
import os
import subprocess
import sys
import time

import pytest

from noclobber import coverage
from noclobber.cli import showing
from noclobber.rule import Verdict
from noclobber.wire import C

TEXT = b"".join(b"line %d\n" % number for number in range(1, 1001))


@pytest.fixture
def denied(running):
    """A session with one refusal and one snapshot."""
    for name in ("f", "g"):
        (running.tree / name).write_bytes(TEXT)
    running.talker().read(running.tree / "f", (0, 103))
    running.talker().ask(running.tree / "f")
    running.talker().ask(running.tree / "g")
    return running


def lines(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_log_works_without_a_daemon_and_can_be_filtered(denied):
    denied.cli("daemon", "stop")
    assert len(lines(denied.cli("log", "--json"))) == 2
    (deny,) = map(json.loads, lines(denied.cli("log", "--json", "--verdict", "deny")))
    assert deny["path"] == str(denied.tree / "f")
    assert lines(denied.cli("log", "--json", "--session", "other")) == []


def test_log_for_people_has_a_line_for_each_and_no_colours_in_a_pipe(denied):
    text = lines(denied.cli("log"))
    assert len(text) == 2 and "deny" in text[0] and "14 of 1000 lines" in text[0]
    assert "\x1b" not in "".join(text)


def test_log_says_so_where_there_is_nothing(running):
    assert "No receipts" in running.cli("log").stdout


def test_log_follow_prints_what_comes(denied):
    code = "from noclobber.cli import main; main()"
    follow = subprocess.Popen(
        [sys.executable, "-c", code, "log", "--json", "--follow", "--verdict", "deny"],
        env=denied.env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert json.loads(follow.stdout.readline())["path"].endswith("/f")
        denied.talker().ask(denied.tree / "f")
        assert json.loads(follow.stdout.readline())["verdict"] == "deny"
    finally:
        follow.kill()
        follow.wait()
        follow.stdout.close()


def test_explain_tells_walk_lineage_and_row(denied):
    text = denied.cli("explain", "f").stdout
    for part in (
        "deny, row 10",
        "The walk: direct",
        "runs",
        "puppet.py",
        "The lineage",
        "grade read",
    ):
        assert part in text, part
    found = json.loads(denied.cli("explain", "--json").stdout)
    assert found["verdict"] == "snapshot" and found["explain"]["walk"]


def test_explain_of_something_else_names_the_next_step(denied):
    done = denied.cli("explain", "nothing")
    assert done.returncode == 1 and "noclobber log" in done.stderr


def test_status_lists_sessions_with_their_grade(denied):
    denied.launch("seen", flags=C.NC_ATTESTED)
    denied.talker(session="seen")
    found = json.loads(denied.cli("status", "--json").stdout)
    grades = {each["session"]: each["grade"] for each in found["sessions"]}
    assert grades == {"s": "read", "seen": "shown"}
    text = denied.cli("status").stdout
    assert "seen" in text and "shown" in text and str(denied.tree) in text


def test_without_a_daemon_status_has_its_own_exit_status(stopped):
    for command in (["status"], ["daemon", "status"], ["show", "/dev/null"]):
        done = stopped.cli(*command)
        assert done.returncode == 3, command
        assert "noclobber daemon start" in done.stderr


def test_show_tells_ranges_and_draws_them(running):
    path = running.tree / "f"
    path.write_bytes(TEXT)
    reader = running.talker()
    reader.read(path, (0, 4000))
    with path.open("ab") as file:
        before = os.fstat(file.fileno())
        file.write(b"mine\n" * 100)
    opened = before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns
    reader.wrote(path, opened, C.NC_APPEND)
    reader.read(path, (0, 4000))
    found = json.loads(running.cli("show", str(path), "--json").stdout)
    assert found["read"] == [[0, 4000]]
    assert found["authored"] == [[len(TEXT), len(TEXT) + 500]]
    text = running.cli("show", str(path)).stdout
    strip = text.splitlines()[1]
    assert strip.startswith("|-") and "." in strip and strip.endswith("#|")
    assert "written by the session: 500 bytes, lines 1001-1100" in text


def test_show_of_a_session_that_is_not_there(running):
    done = running.cli("show", "--session", "nobody", __file__)
    assert done.returncode == 1 and "nobody" in done.stderr


def test_each_byte_is_in_one_layer_only():
    found = {"size": 100, "authored": [[50, 60]], "shown": [[0, 55]], "read": [[0, 80]]}
    parts = showing.layers(found)
    assert parts == {
        "authored": ((50, 60),), "shown": ((0, 50),), "read": ((60, 80),), "unseen": ((80, 100),),
    }  # fmt: skip
    assert sum(map(coverage.size, parts.values())) == 100


def test_the_picture_shows_the_weakest_of_a_cell():
    parts = {"authored": (), "shown": ((0, 99),), "read": (), "unseen": ((99, 100),)}
    cells = showing.strip(100, parts, 10)
    assert cells == ["shown"] * 9 + ["unseen"]
    assert len(showing.strip(3, {**parts, "shown": ((0, 3),), "unseen": ()}, 10)) == 3


def test_allow_lets_one_replacement_through(denied):
    file = denied.tree / "f"
    assert denied.cli("allow", str(file), "--reason", "tidy").returncode == 0
    answer = denied.talker().ask(file)
    assert (answer.verdict, answer.row) == (Verdict.SNAPSHOT.value, 7)
    assert denied.talker().ask(file).verdict == Verdict.DENY.value
    (receipt,) = [
        each for each in map(json.loads, lines(denied.cli("log", "--json"))) if each["row"] == 7
    ]
    assert "tidy" in receipt["reason"]


def test_an_override_outlives_the_daemon(denied):
    denied.cli("allow", str(denied.tree / "f"), "--reason", "tidy")
    denied.cli("daemon", "stop")
    denied.start()
    assert denied.talker().ask(denied.tree / "f").row == 7


def test_allow_from_within_a_session_is_refused(denied):
    denied.env["NOCLOBBER_SESSION"] = "s"
    done = denied.cli("allow", str(denied.tree / "f"), "--reason", "x")
    denied.env.pop("NOCLOBBER_SESSION")
    assert done.returncode == 1 and "outside" in done.stderr
    assert denied.talker().ask(denied.tree / "f").verdict == Verdict.DENY.value


def test_help_documents_the_exit_statuses(stopped):
    text = stopped.cli("--help").stdout
    assert "Exit status" in text and "3 no daemon runs" in text
    names = "run exec log show status explain daemon doctor allow restore"
    for name in names.split():
        assert f"  {name} " in text, name


def test_run_and_exec_hand_over_to_the_launcher(stopped, tmp_path):
    launcher = tmp_path / "noclobber-exec"
    launcher.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    launcher.chmod(0o755)
    stopped.env["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    code = (
        "import sys; sys.argv[0] = '/nowhere/noclobber'; sys.executable = '/nowhere/python';"
        "from noclobber.cli import main; main()"
    )
    words = ["run", "--session", "x", "--root", "a", "--root", "b", "--tier", "read-only", "--",
             "agent", "--flag", "-c"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=stopped.env, capture_output=True, text=True
    )
    assert done.returncode == 7
    assert done.stdout.split() == [
        "--tier=read-only", "--session=x", "--root=a", "--root=b", "--agent", "--",
        "agent", "--flag", "-c",
    ]  # fmt: skip
    words[0] = "exec"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=stopped.env, capture_output=True, text=True
    )
    assert "--agent" not in done.stdout


def test_doctor_says_what_is_missing_and_has_status_1_then(stopped):
    stopped.env["PATH"] = "/usr/bin:/bin"
    done = stopped.cli("doctor", "--json")
    found = json.loads(done.stdout)
    names = {each["name"]: each for each in found["findings"]}
    assert {"kernel", "libc", "launcher", "preload", "daemon", "state", "git"} <= set(names)
    assert done.returncode == (0 if found["whole"] else 1)
    (stopped.tree / "noclobber.toml").write_text("x = \n")
    done = stopped.cli("doctor")
    assert done.returncode == 1 and "noclobber.toml, line 1" in done.stdout


def test_a_start_that_fails_says_why(stopped):
    (stopped.home / "state").mkdir()
    (stopped.home / "state" / "noclobber").write_text("in the way")
    done = stopped.cli("daemon", "start")
    assert done.returncode == 1 and "state/noclobber" in done.stderr


def test_starting_is_over_when_the_socket_accepts(stopped):
    before = time.monotonic()
    stopped.start()
    assert stopped.cli("daemon", "status").returncode == 0
    assert time.monotonic() - before < 30
