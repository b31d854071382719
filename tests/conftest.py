"""What every test shares: a tree, a home of its own, and the guard over it.

The programs under test come from $NOCLOBBER_BIN (default: this venv's bin);
`make sanitize` names its own build there, and in $NOCLOBBER_PRELOAD the
sanitizer's library, which wants to be first. Nothing of the user's own state is
touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

VENV_BIN = Path(sys.executable).parent
BIN = Path(os.environ.get("NOCLOBBER_BIN", VENV_BIN))
LIMIT = 60  # seconds; a command that takes longer hangs

# The machine may be busy: a slow example is no failure.
settings.register_profile("noclobber", deadline=None)
if not os.environ.get("CI"):
    settings.load_profile("noclobber")


@dataclass(frozen=True)
class Guard:
    """A work tree, and commands in it with and without the guard."""

    home: Path
    tree: Path
    env: dict[str, str]

    def command(self, *command: str, session: str = "s", args: tuple[str, ...] = ()) -> list[str]:
        """`command` as the argv of noclobber-exec; `args` are its own options."""
        launcher = str(BIN / "noclobber-exec")
        return [launcher, "--session", session, "--root", str(self.tree), *args, "--", *command]

    def run(
        self, *command: str, session: str = "s", args: tuple[str, ...] = (), **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Run `command` under the guard. Output is captured as text unless
        `options` (of subprocess.run) say otherwise."""
        return self.bare(*self.command(*command, session=session, args=args), **options)

    def bare(self, *command: str, **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run `command` in the same tree and environment, unguarded."""
        defaults: dict[str, Any] = {"cwd": self.tree, "env": self.env, "timeout": LIMIT}
        defaults |= {"capture_output": True, "text": True}
        return subprocess.run(command, **(defaults | options))

    def shell(self, text: str, **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run `text` by `bash -c` under the guard."""
        return self.run("bash", "-c", text, **options)

    def cli(self, *args: str, **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run `noclobber ARGS`."""
        return self.bare("noclobber", *args, **options)

    def receipts(self) -> list[dict[str, Any]]:
        """All receipts so far, oldest first."""
        done = self.cli("log", "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def denied(self) -> list[str]:
        """The paths that were refused, oldest first."""
        return [r["path"] for r in self.receipts() if r["verdict"] == "deny"]


def environment(home: Path) -> dict[str, str]:
    """The caller's environment, with every directory of noclobber's in `home`
    and nothing of a session that the tests themselves may run in."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NOCLOBBER_", "LD_"))}
    path = [str(BIN), str(VENV_BIN), env.get("PATH", os.defpath)]
    env |= {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "LC_ALL": "C.UTF-8",
    }
    if preload := os.environ.get("NOCLOBBER_PRELOAD"):
        env["LD_PRELOAD"] = preload
    return env


@contextlib.contextmanager
def new_home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="nc-")).resolve()
    (path / "run").mkdir(mode=0o700)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def home() -> Iterator[Path]:
    """A short-named home directory that is gone after the test."""
    with new_home() as path:
        yield path


@contextlib.contextmanager
def guarded(home: Path) -> Iterator[Guard]:
    """An empty tree under the guard; the daemon that it starts ends with it."""
    tree = home / "tree"
    tree.mkdir()
    guard = Guard(home, tree, environment(home))
    yield guard
    guard.cli("daemon", "stop")


@pytest.fixture
def guard(home: Path) -> Iterator[Guard]:
    """A guard of the test's own."""
    with guarded(home) as guard:
        yield guard


@pytest.fixture(scope="module")
def shared_guard() -> Iterator[Guard]:
    """One guard, and one daemon, for the tests of a module: each has to give
    its session a name of its own and to leave the tree empty."""
    with new_home() as home, guarded(home) as guard:
        yield guard
