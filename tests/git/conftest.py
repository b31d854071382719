"""A repository in which the host has work under way, and sessions over it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

NAMES = itertools.count()
GIT = {
    "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "n@example.org", "GIT_COMMITTER_NAME": "n",
    "GIT_COMMITTER_EMAIL": "n@example.org", "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


def content(top: Path) -> dict[str, bytes]:
    """Every file below `top` but git's own, with what it holds."""
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(top).parts
    }


@dataclass
class Repo:
    """The tree of a guard, as a repository; `session` names a session of this
    test's own."""

    guard: Any
    session: str = field(default_factory=lambda: f"git-{next(NAMES)}")
    args: tuple[str, ...] = ()

    @property
    def tree(self) -> Path:
        return self.guard.tree

    def bare(self, text: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Unguarded, as a person; it must work."""
        done = self.guard.bare("bash", "-ec", text, **options)
        assert done.returncode == 0, done.stderr
        return done

    def shell(self, text: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """One command of the session."""
        return self.guard.run("bash", "-c", text, session=self.session, args=self.args, **options)

    def receipts(self, verdict: str = "deny") -> list[dict[str, Any]]:
        """Of this session alone."""
        kept = self.guard.home / "state/noclobber/receipts.jsonl"
        lines = kept.read_text().splitlines() if kept.exists() else []
        found = [json.loads(line) for line in lines if f'"{self.session}"' in line]
        return [receipt for receipt in found if receipt["verdict"] == verdict]

    def refused(self) -> list[str]:
        """The paths that the session was refused, from the top."""
        return sorted({os.path.relpath(r["path"], self.tree) for r in self.receipts()})

    def content(self) -> dict[str, bytes]:
        return content(self.tree)


def empty(tree: Path) -> None:
    for old in tree.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()


@pytest.fixture
def repo(shared_guard: Any) -> Iterator[Repo]:
    """Two commits on `main`, a branch `side` that has `draft.txt`, `f` and `sub/g`
    changed, `s` in the index alone, `draft.txt` not tracked, `own` clean."""
    guard = replace(shared_guard, env=shared_guard.env | GIT)
    empty(guard.tree)
    repo = Repo(guard)
    repo.bare(
        "git init -q -b main; mkdir sub; seq 50 > f; seq 60 > s; seq 70 > sub/g; seq 80 > own;"
        "git add .; git commit -qm one; git checkout -qb side; echo side > draft.txt;"
        "echo x > other; git add .; git commit -qm side; git checkout -q main; seq 3000 > f;"
        "seq 600 > s; git add s; seq 700 > sub/g; seq 99 > draft.txt"
    )
    yield repo
    empty(guard.tree)


@pytest.fixture
def clean(repo: Repo) -> Repo:
    """The same with nothing under way."""
    repo.bare("git reset -q --hard; git clean -qfd")
    return repo
