"""The daemon's own life, with the shim and the launcher around it."""

from __future__ import annotations

import json
from pathlib import Path


def status(guard):
    done = guard.cli("status", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_daemon_started_within_a_session_is_no_part_of_it(guard):
    first = guard.shell("noclobber daemon stop && noclobber daemon start")
    assert first.returncode == 0, first.stderr
    pid = status(guard)["pid"]
    assert "libnoclobber" not in Path(f"/proc/{pid}/maps").read_text()
    environ = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"NOCLOBBER_" not in environ and b"libnoclobber" not in environ
    (guard.tree / "f").write_text("".join(f"line {n}\n" for n in range(1000)))
    assert guard.shell("head -n 5 f").returncode == 0
    assert guard.shell("echo x > f").returncode != 0
    assert guard.denied() == [str(guard.tree / "f")]


def test_allow_from_within_a_session_is_refused_whatever_it_does_to_its_environment(guard):
    (guard.tree / "f").write_text("".join(f"line {n}\n" for n in range(1000)))
    for text in (
        "noclobber allow f --reason x",
        "env -u NOCLOBBER_SESSION noclobber allow f --reason x",
        "env -u NOCLOBBER_SESSION -u LD_PRELOAD noclobber allow f --reason x",
        "env -i PATH=$PATH HOME=$HOME XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR "
        "noclobber allow f --reason x",
        "setsid -f noclobber allow f --reason x 2>said; until [ -s said ]; do sleep 1; done; false",
    ):
        assert guard.shell(text).returncode != 0, text
    assert "only a person" in (guard.tree / "said").read_text()
    assert guard.cli("allow", "--json").stdout == ""
    assert guard.shell("echo x > f").returncode != 0
    assert guard.cli("allow", str(guard.tree / "f"), "--reason", "x").returncode == 0
    assert guard.shell("echo x > f").returncode == 0


def test_doctor_finds_the_preload_at_work(guard):
    done = guard.cli("doctor", "--json")
    found = {each["name"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["preload"]["good"] is True, found["preload"]
    assert found["launcher"]["good"] is True


def test_run_is_one_session_with_the_agent_in_it(guard):
    text = "head -n 5 f; echo x > f; echo $NOCLOBBER_SESSION"
    (guard.tree / "f").write_text("".join(f"line {n}\n" for n in range(1000)))
    done = guard.cli("run", "--session", "r", "--root", str(guard.tree), "--", "bash", "-c", text)
    assert done.stdout.splitlines()[-1] == "r"
    (session,) = status(guard)["sessions"]
    assert (session["session"], session["commands"]) == ("r", 1)
    assert guard.denied() == [str(guard.tree / "f")]
