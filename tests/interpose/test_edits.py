"""Files opened to be written in place: an edit is never refused, what text held
before is kept, and goes back in where the program then cuts the rest off."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

TEXT = b"".join(b"line %d of what is there\n" % n for n in range(900))
SHORTER = """
import sys
with open("f", "r+") as file:
    file.write("all new\\n")
    try:
        file.truncate()
    except PermissionError:
        sys.exit(7)
"""


@pytest.fixture
def file(guard: Any) -> Path:
    path: Path = guard.tree / "f"
    path.write_bytes(TEXT)
    return path


def kept(guard: Any, receipt: dict[str, Any]) -> bytes:
    store = guard.home / "state" / "noclobber" / "snapshots"
    return bytes((store / receipt["snapshot"]).read_bytes())


def questions(guard: Any) -> int:
    return sum(json.loads(guard.cli("status", "--json").stdout)["answers"].values())


def test_a_refused_cut_brings_back_what_was_written_over(guard, file):
    guard.shell("head -n 5 f")
    file.chmod(0o640)
    before = file.stat()
    done = guard.run(sys.executable, "-c", SHORTER)
    assert done.returncode == 7 and "taken back" in done.stderr, done
    assert file.read_bytes() == TEXT
    after = file.stat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino, before.st_mode, before.st_mtime_ns,
    )  # fmt: skip
    opened, cut = guard.receipts()
    assert (opened["op"], opened["verdict"]) == ("update", "snapshot")
    assert (cut["op"], cut["verdict"]) == ("shrink", "deny")
    assert kept(guard, opened) == TEXT and kept(guard, cut) == b"all new\n" + TEXT[8:]


def test_through_a_descriptor_of_the_shells_too(guard, file):
    cut = f"{sys.executable} -c 'import os; os.ftruncate(3, 8)'"
    done = guard.shell(f"head -n 5 f; exec 3<>f; printf 'all new\\n' >&3; {cut}")
    assert "PermissionError" in done.stderr and file.read_bytes() == TEXT, done


def test_a_later_command_takes_nothing_back(guard, file):
    guard.shell("head -n 5 f; printf 'AN EDIT\\n' 1<>f")
    edited = b"AN EDIT\n" + TEXT[8:]
    done = guard.shell("truncate -s 100 f")
    assert done.returncode != 0 and file.read_bytes() == edited
    assert guard.receipts()[-1]["snapshot"] == ""


@pytest.mark.parametrize(
    "command",
    [
        "printf new 1<>f",
        "printf new | dd of=f conv=notrunc status=none",
        f'{sys.executable} -c \'open("f", "r+").write("new")\'',
        'perl -e \'open F, "+<", "f"; print F "new"\'',
        "touch f",
    ],
)
def test_an_edit_passes_and_can_be_undone(guard, file, command):
    words = command.split()
    if not (shutil.which(words[0]) or words[0] == "printf"):
        pytest.skip(f"needs {words[0]}")
    if "dd" in words and "NOCLOBBER_PRELOAD" in os.environ:
        pytest.skip("the sanitizer stops dd itself")
    done = guard.shell(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert file.read_bytes() == (TEXT if words[0] == "touch" else b"new" + TEXT[3:])
    (receipt,) = guard.receipts()
    assert (receipt["op"], receipt["verdict"]) == ("update", "snapshot")
    assert kept(guard, receipt) == TEXT
    if words[0] != "touch":
        assert guard.cli("restore", "f").returncode == 0
    assert file.read_bytes() == TEXT


def test_what_is_known_is_not_kept(guard, file):
    guard.shell("cat f")
    assert guard.shell("printf new 1<>f").returncode == 0
    guard.shell("echo mine > g")
    assert guard.shell("printf new 1<>g").returncode == 0
    assert guard.receipts() == []


def test_appending_creating_and_binaries_are_nobodys_question(guard, file):
    db = guard.tree / "db"
    with sqlite3.connect(db) as made:
        made.execute("CREATE TABLE t (x)")
    made.close()
    text = (
        "import sqlite3; c = sqlite3.connect('db'); "
        "c.execute('PRAGMA journal_mode = MEMORY'); c.execute('DELETE FROM t'); c.commit()"
    )
    guard.shell("true")
    before = questions(guard)
    done = guard.shell(f'echo x >> f; : > new; {sys.executable} -c "{text}"')
    assert done.returncode == 0, done.stderr
    assert questions(guard) == before


def test_a_driven_program_asks_once(guard):
    for n in range(40):
        (guard.tree / f"t{n}").write_bytes(TEXT)
    program = "for n in range(40): open(f't{n}', 'r+').write('new')"
    (guard.tree / "all.py").write_text(program + "\n")
    (guard.tree / "Makefile").write_text(f"all:\n\t{sys.executable} all.py\n")
    if not shutil.which("make"):
        pytest.skip("needs make")
    guard.shell("true")
    before = questions(guard)
    assert guard.run("make", "-s").returncode == 0
    assert questions(guard) == before + 1
    assert guard.receipts() == [] and (guard.tree / "t39").read_bytes() == b"new" + TEXT[3:]


def test_without_a_daemon_an_edit_passes(guard, file):
    done = guard.shell("noclobber daemon stop; printf new 1<>f")
    assert done.returncode == 0 and file.read_bytes() == b"new" + TEXT[3:], done


def test_a_large_file_is_not_copied(guard):
    path = guard.tree / "large"
    path.write_bytes(b"x\n" * (9 << 20))
    assert guard.shell("printf new 1<>large").returncode == 0
    assert guard.receipts() == []
