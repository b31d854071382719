"""`noclobber doctor`: who asks before relying on the guard gets the whole truth."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

GO = """
__asm__(".pushsection .note.go.buildid,\\"a\\",@note\\n"
        ".long 4, 4, 4\\n.ascii \\"Go\\\\0\\\\0\\"\\n.ascii \\"abcd\\"\\n"
        ".popsection");
"""
AS_NOBODY = """
import json, os, sys
from dataclasses import asdict
from noclobber.cli.doctor import cover
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps(asdict(cover(sys.argv[1], {"preload": True}))))
"""

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@pytest.fixture
def program(tmp_path: Path) -> Any:
    """`program(FLAG..., compiler=CC, more=TEXT)` compiles one and gives its path."""

    def compiled(*flags: str, compiler: str = "cc", more: str = "") -> Path:
        if not shutil.which(compiler):
            pytest.skip(f"needs {compiler}")
        source = tmp_path / "main.c"
        source.write_text(f"{more}int main(void) {{ return 0; }}\n")
        out = tmp_path / "compiled"
        subprocess.run([compiler, str(source), *flags, "-o", str(out)], check=True)
        return out

    return compiled


def asked(stopped: Any, *names: Path | str) -> tuple[dict[str, Any], int]:
    """The report on these programs, and the exit status."""
    done = stopped.cli("doctor", "--json", *map(str, names))
    assert done.stderr == ""
    return json.loads(done.stdout), done.returncode


@dataclass(frozen=True)
class About:
    """What is said of one program, and which mechanisms work here."""

    way: list[str]
    kind: str
    by: str
    good: bool
    detail: str
    working: set[str]

    @property
    def is_supervised(self) -> bool:
        """Whether it says what is true of all that the preload cannot enter."""
        if {"seccomp user notification", "supervisor"} <= self.working:
            return (self.by, self.good) == ("supervisor", True)
        return (self.by, self.good) == ("none", False) and "see " in self.detail


def about(stopped: Any, name: Path | str) -> About:
    report, status = asked(stopped, name)
    machine = all(found["good"] is not False for found in report["findings"])
    [found] = report["programs"]
    assert found.pop("name") == str(name)
    assert report["whole"] == (machine and found["good"])
    assert status == (0 if report["whole"] else 1)
    return About(**found, working={each["name"] for each in report["findings"] if each["good"]})


def test_each_mechanism_is_tried(stopped):
    report, _ = asked(stopped)
    found = {each["name"]: each for each in report["findings"]}
    assert list(found) == [
        "kernel", "libc", "launcher", "preload", "preload for musl",
        "seccomp user notification", "supervisor", "Unix sockets", "pagemap",
        "daemon", "state", "configuration", "git", "dynamic programs",
    ]  # fmt: skip
    assert found["Unix sockets"]["good"] is True
    assert 'supervisor = "always"' in found["dynamic programs"]["detail"]
    assert report["programs"] == []


def test_the_trial_of_seccomp_leaves_no_filter_behind(stopped):
    code = (
        "from noclobber.cli.mechanisms import examine; list(examine());"
        "print(open('/proc/self/status').read())"
    )
    env = stopped.env
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    before = Path("/proc/self/status").read_text()
    for line in ("NoNewPrivs", "Seccomp"):
        [was] = [text for text in before.splitlines() if text.startswith(f"{line}:")]
        assert was in done.stdout.splitlines()


def test_a_name_is_looked_for_on_path(stopped):
    found = about(stopped, "sh")
    assert found.way == [shutil.which("sh")]
    assert (found.kind, found.by, found.good) == ("glibc", "preload", True)


def test_a_dynamic_program(stopped, program):
    found = about(stopped, program())
    assert (found.kind, found.by, found.good) == ("glibc", "preload", True)


def test_a_static_program(stopped, program):
    found = about(stopped, program("-static"))
    assert found.kind == "static"
    assert found.is_supervised


def test_a_program_that_go_made(stopped, program):
    found = about(stopped, program(more=GO))
    assert found.kind == "Go"
    assert found.is_supervised


def test_a_program_of_musl(stopped, program):
    found = about(stopped, program(compiler="musl-gcc"))
    assert found.kind == "musl"
    if "preload for musl" in found.working:
        assert (found.by, found.good) == ("preload", True)
    else:
        assert found.is_supervised


def test_a_script_is_what_its_interpreter_is(stopped, program, tmp_path):
    static = program("-static")
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    outer.write_text(f"#! {inner} -x\n")
    inner.write_text(f"#!{static}\n")
    for path in (outer, inner):
        path.chmod(0o755)
    found = about(stopped, outer)
    assert found.way == [str(path) for path in (outer, inner, static)]
    assert found.kind == "static"


@pytest.mark.parametrize(
    "words", ["tool", "-S tool -x", "-S -i A=1 -u B tool", "-S'A=1' tool", "--split-string=tool x"]
)
def test_what_env_starts_for_a_script_is_followed(stopped, program, tmp_path, words):
    program("-static").rename(tmp_path / "tool")
    stopped.env["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    script = tmp_path / "script"
    script.write_text(f"#!/usr/bin/env {words}\n")
    script.chmod(0o755)
    found = about(stopped, script)
    assert found.way == [str(script), "/usr/bin/env", str(tmp_path / "tool")]
    assert found.kind == "static"


def test_a_script_whose_interpreter_is_gone(stopped, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env no-such-tool\n")
    script.chmod(0o755)
    found = about(stopped, script)
    assert found.way[-1] == "no-such-tool"
    assert (found.kind, found.good) == ("missing", False)


def test_scripts_that_lead_in_a_circle(stopped, tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!{script}\n")
    script.chmod(0o755)
    assert not about(stopped, script).good


def test_text_without_a_mark_is_the_shells(stopped, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    found = about(stopped, script)
    assert (found.by, found.good) == ("preload", True)
    script.write_bytes(b"\x7fELF\0\0 and nothing that makes sense")
    assert not about(stopped, script).good


@needs_root
def test_a_program_that_becomes_another_user(stopped, program):
    path = program()
    os.chown(path, 65534, 65534)
    path.chmod(0o4755)
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        pytest.skip("the temporary directory's mount has nosuid")
    found = about(stopped, path)
    assert (found.kind, found.by, found.good) == ("set-ID", "none", False)


@needs_root
def test_a_program_that_may_not_be_read(program):
    path = program()
    path.chmod(0o711)
    for folder in path.parents[:3]:
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(path)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert (found["kind"], found["by"], found["good"]) == ("unreadable", "preload", False)


def test_what_cannot_be_started(stopped, tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(Path("/bin/sh").read_bytes())
    os.mkfifo(tmp_path / "fifo")
    kinds = {
        "no-such-program": "missing",
        str(tmp_path / "none"): "missing",
        str(tmp_path): "no file",
        str(tmp_path / "fifo"): "no file",
        str(plain): "glibc",
    }
    report, status = asked(stopped, *kinds)
    assert status == 1
    assert [(p["name"], p["kind"]) for p in report["programs"]] == list(kinds.items())
    assert all((p["by"], p["good"]) == ("none", False) for p in report["programs"])


def test_people_are_told_the_same(stopped, tmp_path):
    odd = tmp_path / "odd [red]\x1b name"
    odd.write_text("#!/bin/sh\n")
    odd.chmod(0o755)
    done = stopped.cli("doctor", str(odd), str(tmp_path))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "by the preload: dynamic, of glibc" in lines[-2] and "[red]" in lines[-2]
    assert "\x1b" not in done.stdout
    assert "is no file that can be executed" in lines[-1]
