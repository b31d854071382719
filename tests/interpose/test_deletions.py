"""Deletions: what the session did not make is kept, thousands of them without
a question for each, and a name that was deleted is not free for everything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TEXT = b"".join(b"line %d of what is there\n" % n for n in range(900))
MANY = 120
WAIT = 30.0  # s


def store(guard: Any) -> Path:
    return Path(guard.home) / "state" / "noclobber" / "snapshots"


def settled(guard: Any) -> list[dict[str, Any]]:
    """The receipts, when nothing waits to be worked out any more."""
    until = time.monotonic() + WAIT
    while list((store(guard) / "incoming").iterdir()):
        assert time.monotonic() < until, "never worked out"
        time.sleep(0.02)
    time.sleep(0.05)
    found: list[dict[str, Any]] = guard.receipts()
    return found


def questions(guard: Any) -> int:
    return sum(json.loads(guard.cli("status", "--json").stdout)["answers"].values())


def plant(folder: Path, count: int = MANY) -> dict[str, bytes]:
    folder.mkdir(parents=True)
    texts = {f"f{n}": b"%d\n" % n + TEXT for n in range(count)}
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return texts


def test_many_deletions_need_few_questions_and_all_come_back(guard):
    texts = plant(guard.tree / "d")
    (guard.tree / "d" / "f99").chmod(0o640)
    assert guard.run("rm", "-rf", "d").returncode == 0
    found = settled(guard)
    assert questions(guard) < 12 and not (guard.tree / "d").exists()
    assert {Path(r["path"]).name for r in found} == set(texts)
    assert all((r["op"], r["verdict"]) == ("delete", "snapshot") for r in found)
    (guard.tree / "d").mkdir()
    assert guard.cli("restore", "--session", "s").returncode == 0
    assert {p.name: p.read_bytes() for p in (guard.tree / "d").iterdir()} == texts
    assert (guard.tree / "d" / "f99").stat().st_mode & 0o777 == 0o640


def test_what_the_session_made_is_nobodys_question(guard):
    make = f"for n in range({MANY}): open(f'm{{n}}', 'w').write('mine')"
    guard.run(sys.executable, "-c", make)
    before = questions(guard)
    assert guard.shell("rm -f m*").returncode == 0
    assert questions(guard) == before and settled(guard) == []
    assert list(guard.tree.iterdir()) == []


def test_what_somebody_else_changed_since_is_kept(guard):
    guard.shell("echo mine > a; echo mine > b")
    (guard.tree / "b").write_bytes(TEXT)
    assert guard.shell("rm a b").returncode == 0
    (receipt,) = settled(guard)
    assert receipt["path"].endswith("/b")
    assert (store(guard) / receipt["snapshot"]).read_bytes() == TEXT


@pytest.mark.parametrize("copy", ["cp f g", "cat f > g", "{ cat f; } > g", "tee g < f > /dev/null"])
def test_a_copy_of_something_is_kept(guard, copy):
    """The session made the file, and not what it holds."""
    (guard.tree / "f").write_bytes(TEXT)
    assert guard.shell(f"{copy}; sed -i 1d f").returncode == 0
    assert guard.shell("rm g").returncode == 0
    (receipt,) = [r for r in settled(guard) if r["op"] == "delete"]
    assert (store(guard) / receipt["snapshot"]).read_bytes() == TEXT


def test_another_sessions_files_are_kept(guard):
    guard.shell("echo theirs > a", session="other")
    assert guard.shell("rm a").returncode == 0
    assert len(settled(guard)) == 1


def test_what_git_ignores_is_not_kept(guard):
    subprocess.run(["git", "init", "-q", str(guard.tree)], check=True)
    (guard.tree / ".gitignore").write_text("/d/\n")
    plant(guard.tree / "d")
    assert guard.run("rm", "-rf", "d").returncode == 0
    assert settled(guard) == [] and questions(guard) < 3


def test_a_deletion_that_fails_keeps_nothing(guard):
    plant(guard.tree / "d", 30)
    code = (
        "import os, ctypes\nfor n in range(20): os.unlink(f'd/f{n}')\n"
        "try: os.unlink('d/f25/x')\nexcept OSError as error: print(error.errno)\n"
    )
    done = guard.run(sys.executable, "-c", code)
    assert done.stdout == "20\n", done
    assert len(settled(guard)) == 20 and (guard.tree / "d" / "f25").exists()


def test_other_names_of_a_file_can_be_written_afterwards(guard):
    """A link in the store would change with them: it is a copy then."""
    plant(guard.tree / "d", 30)
    for n in range(30):
        os.link(guard.tree / "d" / f"f{n}", guard.tree / f"l{n}")
    assert guard.run("rm", "-rf", "d").returncode == 0
    for n in range(30):
        (guard.tree / f"l{n}").write_bytes(b"changed\n")
    for receipt in settled(guard):
        number = int(Path(receipt["path"]).name[1:])
        assert (store(guard) / receipt["snapshot"]).read_bytes() == b"%d\n" % number + TEXT


BULK = """
import os, sys
for n in range(60): os.unlink(f"d/f{n}")
try:
    open("d/f50", "w").write("all new")
except PermissionError:
    sys.exit(7)
"""


@pytest.mark.parametrize("how", ["within", "afterwards"])
def test_a_name_deleted_among_many_is_not_free(guard, how):
    texts = plant(guard.tree / "d")
    guard.shell("head -n 20 d/f50")
    if how == "within":
        done = guard.run(sys.executable, "-c", BULK)
        assert done.returncode == 7, done
    else:
        done = guard.shell("rm d/*; echo new > d/f50")
        assert "stands there again" in done.stderr, done
        assert done.returncode != 0
    assert (guard.tree / "d" / "f50").read_bytes() == texts["f50"]
    assert [Path(path).name for path in guard.denied()] == ["f50"]


def test_tombstones_end_with_their_directory(guard):
    plant(guard.tree / "d")
    plant(guard.tree / "src")
    guard.shell("head -n 20 d/f50")
    assert guard.shell("rm -rf d && cp -r src d").returncode == 0
    assert len(settled(guard)) == MANY and guard.denied() == []


def test_a_killed_daemon_comes_to_what_was_left(guard):
    plant(guard.tree / "d")
    code = (
        "import os, signal, subprocess, sys\n"
        "for n in range(20): os.unlink(f'd/f{n}')\n"
        "os.kill(int(sys.argv[1]), signal.SIGSTOP)\n"
        "for n in range(20, 31): os.unlink(f'd/f{n}')\n"
        "os.kill(int(sys.argv[1]), signal.SIGKILL)\n"
    )
    guard.shell("true")
    pid = json.loads(guard.cli("status", "--json").stdout)["pid"]
    assert guard.run(sys.executable, "-c", code, str(pid)).returncode == 0
    kept = len(list((store(guard) / "incoming").iterdir())) + len(guard.receipts())
    assert kept >= 31
    assert guard.cli("daemon", "start").returncode == 0
    time.sleep(0.2)
    contents = {path.read_bytes() for path in store(guard).rglob("*") if path.is_file()}
    assert {b"%d\n" % n + TEXT for n in range(31)} <= contents


# Programs that move a file aside, or delete it, before they write it anew.

DANCES = {
    "perl": ("perl", "perl -i -pe 's/line 5 /LINE 5 /' f"),
    "perl with a backup": ("perl", "perl -i.bak -pe 's/line 5 /LINE 5 /' f"),
    "fileinput": ("python3", "python3 -c 'import fileinput\nfor l in fileinput.input(\"f\", "
                  "inplace=True): print(l.replace(\"line 5 \", \"LINE 5 \"), end=\"\")'"),
    "vim": ("vim", "vim -Nu NONE -es -c 'set backup backupcopy=no' "
            "-c '%s/line 5 /LINE 5 /' -c wq f"),
    "vim without backup": ("vim", "vim -Nu NONE -es -c 'set nowritebackup' "
                           "-c '%s/line 5 /LINE 5 /' -c wq f"),
    "emacs": ("emacs", "emacs -Q --batch f --eval '(progn (replace-string \"line 5 \" \"LINE 5 \") "
              "(save-buffer))'"),
    "mv and sed": ("sed", "mv f f.bak && sed 's/line 5 /LINE 5 /' f.bak > f"),
    "sed -i": ("sed", "sed -i 's/line 5 /LINE 5 /' f"),
}  # fmt: skip


@pytest.mark.parametrize("name", DANCES)
def test_a_program_that_has_read_it_all_may_create_it_anew(guard, name):
    needed, command = DANCES[name]
    if not shutil.which(needed):
        pytest.skip(f"needs {needed}")
    file = guard.tree / "f"
    file.write_bytes(TEXT)
    guard.shell("head -n 20 f")
    done = guard.shell(command)
    assert done.returncode == 0 and guard.denied() == [], done
    assert file.read_bytes() == TEXT.replace(b"line 5 ", b"LINE 5 ")


def test_git_may_check_out_what_was_deleted_and_half_seen(guard):
    git = ["git", "-C", str(guard.tree), "-c", "user.name=n", "-c", "user.email=n@x"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    file = guard.tree / "f"
    for text in (TEXT, TEXT[::-1]):
        file.write_bytes(text)
        subprocess.run([*git, "add", "f"], check=True)
        subprocess.run([*git, "commit", "-qm", "x"], check=True)
    done = guard.shell(
        "head -n 20 f; git checkout -q HEAD~1; git checkout -q main; rm f; git checkout -q -- f"
    )
    assert done.returncode == 0 and guard.denied() == [], done
    assert file.read_bytes() == TEXT[::-1]


@pytest.mark.parametrize(
    "again",
    [
        "echo new > f",
        "echo new | tee f",
        "echo new > g && mv g f",
        "echo new > g && ln g f",
        f'{sys.executable} -c \'open("f", "w").write("new")\'',
    ],
)
@pytest.mark.parametrize("gone", ["rm f", "mv f old && rm old"])
def test_deleting_half_seen_text_first_makes_it_no_less_of_a_loss(guard, gone, again):
    file = guard.tree / "f"
    file.write_bytes(TEXT)
    file.chmod(0o640)
    guard.shell("head -n 20 f")
    assert guard.shell(gone).returncode == 0 and not file.exists()
    assert guard.shell(again).returncode != 0
    assert file.read_bytes() == TEXT and file.stat().st_mode & 0o777 == 0o640
    assert set(guard.denied()) == {str(file)}
