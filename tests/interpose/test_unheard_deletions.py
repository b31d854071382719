"""Deletions that no daemon hears of in time: one that is killed, stopped, or
not yet done with thousands of them. What went comes back all the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

TEXT = b"".join(b"line %d of what is there\n" % n for n in range(300))


def plant(folder: Path, count: int) -> dict[str, bytes]:
    folder.mkdir(parents=True)
    texts = {f"f{n}": b"%d\n" % n + TEXT for n in range(count)}
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return texts


def status(guard: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(guard.cli("status", "--json").stdout)
    return found


def incoming(guard: Any) -> Path:
    return Path(guard.home) / "state" / "noclobber" / "snapshots" / "incoming"


def kept(guard: Any) -> dict[str, bytes]:
    """What can be restored, by its name."""
    done = guard.cli("restore", "--json")
    assert done.returncode == 0 and done.stderr == "", done
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(one["path"]).name: Path(one["content"]).read_bytes() for one in found}


@pytest.fixture
def down(guard: Any) -> str:
    """A piece of shell that kills the daemon."""
    guard.shell("true")
    return f"kill -9 {status(guard)['pid']}; while kill -0 {status(guard)['pid']} 2>&-; do :; done"


@pytest.mark.parametrize(
    "how",
    [
        "rm f",
        f"{sys.executable} -c 'import os; os.unlink(\"f\")'",
        "rm -f nothing f",
        "mv f g; rm g",
    ],
)
def test_what_is_deleted_while_no_daemon_runs_comes_back(guard, down, how):
    file = guard.tree / "f"
    file.write_bytes(TEXT)
    assert guard.shell(f"{down}; {how}").returncode == 0
    assert list(guard.tree.iterdir()) == []
    name = "g" if "g" in how.split() else "f"
    assert guard.cli("restore", name).returncode == 0
    assert (guard.tree / name).read_bytes() == TEXT
    assert list(incoming(guard).iterdir()) == []


def test_half_seen_text_that_no_daemon_saw_go_may_not_be_made_anew_later(guard, down):
    file = guard.tree / "f"
    file.write_bytes(TEXT)
    guard.shell("head -n 20 f")
    assert guard.shell(f"{down}; rm f").returncode == 0
    done = guard.shell("echo new > f")
    assert done.returncode != 0 and "stands there again" in done.stderr
    assert file.read_bytes() == TEXT


def test_a_deletion_that_fails_while_no_daemon_runs_keeps_nothing(guard, down):
    (guard.tree / "d").mkdir()
    (guard.tree / "f").write_bytes(TEXT)
    assert guard.shell(f"{down}; rm f/x d").returncode == 1
    assert (guard.tree / "f").read_bytes() == TEXT and kept(guard) == {}


def test_thousands_deleted_under_a_stopped_daemon_all_come_back(guard):
    """More than its socket holds."""
    texts = plant(guard.tree / "d", 3000)
    code = (
        "import os, signal, sys\n"
        "os.kill(int(sys.argv[1]), signal.SIGSTOP)\n"
        "for n in range(3000): os.unlink(f'd/f{n}')\n"
    )
    guard.shell("true")
    pid = status(guard)["pid"]
    try:
        done = guard.run(sys.executable, "-c", code, str(pid))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert done.returncode == 0, done
    assert kept(guard) == texts


def test_what_was_deleted_a_moment_ago_can_be_restored(guard):
    """The daemon works through it when it has time, and a list had a part."""
    texts = plant(guard.tree / "d", 2000)
    assert guard.run("rm", "-rf", "d").returncode == 0
    assert kept(guard) == texts


@pytest.fixture
def elsewhere(guard: Any) -> Iterator[Any]:
    """The guard, with a tree on another file system than its store."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == guard.home.stat().st_dev:
        pytest.skip("needs another file system")
    tree = Path(tempfile.mkdtemp(prefix="nc-", dir=memory))
    yield replace(guard, tree=tree)
    shutil.rmtree(tree)


def test_what_cannot_be_kept_while_no_daemon_runs_is_not_deleted(elsewhere, down):
    file = elsewhere.tree / "f"
    file.write_bytes(TEXT)
    done = elsewhere.shell(f"{down}; rm f")
    assert done.returncode == 1 and "the guard does not answer" in done.stderr
    assert file.read_bytes() == TEXT
    assert elsewhere.shell("rm f").returncode == 0 and kept(elsewhere) == {"f": TEXT}


def test_thousands_on_another_file_system_all_come_back(elsewhere):
    texts = plant(elsewhere.tree / "d", 300)
    assert elsewhere.run("rm", "-rf", "d").returncode == 0
    assert kept(elsewhere) == texts


def test_what_no_word_came_of_is_told_of_and_let_go_when_it_is_old(guard):
    guard.shell("true")
    lost = incoming(guard) / "ab12-7"
    lost.write_bytes(TEXT)
    guard.cli("daemon", "stop")
    guard.shell("true")
    (trouble,) = status(guard)["troubles"]
    assert str(lost.parent) in trouble and "1 deleted file" in trouble
    assert kept(guard) == {} and lost.read_bytes() == TEXT
