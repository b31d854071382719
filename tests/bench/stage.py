"""A home of its own for the bench: programs, tree, daemon. Nothing of the
user's is touched, and nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get("NOCLOBBER_BIN", Path(sys.executable).parent))
LIMIT = 300  # s; what takes longer hangs
SESSION = "bench"
VARIANTS = ("bare", "empty preload", "noclobber")

_TICKS = os.sysconf("SC_CLK_TCK")
_CALM = 0.05  # s without the daemon working: it has taken all in
_CALM_LIMIT = 20.0  # s


@dataclass(frozen=True)
class Figures:
    """What a run of `micro` printed, in ns: see micro.c."""

    first: float
    second: float


@dataclass
class Stage:
    """Where everything happens. `root` and `memory` are the session's roots;
    `memory` is a file system that never waits for a disk, where there is one."""

    home: Path
    memory: Path
    env: dict[str, str]

    @property
    def built(self) -> Path:
        """The programs and libraries of the bench."""
        return self.home / "built"

    @property
    def root(self) -> Path:
        """The session's root."""
        return self.home / "tree"

    @property
    def outside(self) -> Path:
        """A directory in the temporary one, which is never protected."""
        return self.home / "outside"

    def micro(self, variant: str, *args: str, statuses: tuple[int, ...] = (0,)) -> Figures:
        """Runs `micro ARGS` under a variant, in the root, below a shell as an
        agent's commands are. Raises RuntimeError where it fails."""
        command = ["bash", "-c", 'exec "$@"', "bash", str(self.built / "micro"), *args]
        env = self.env
        if variant == "noclobber":
            command = [*self.launcher(), *command]
        elif variant == "empty preload":
            env = env | {"LD_PRELOAD": str(self.built / "empty.so")}
        done = subprocess.run(
            command, env=env, cwd=self.root, capture_output=True, text=True, timeout=LIMIT
        )
        if done.returncode not in statuses or not done.stdout:
            raise RuntimeError(f"{variant}: {args}: {done.returncode}: {done.stderr}")
        first, second = done.stdout.split()
        return Figures(float(first), float(second))

    def launcher(self) -> list[str]:
        """The beginning of a guarded command."""
        launcher = str(BIN / "noclobber-exec")
        roots = ["--root", str(self.root), "--root", str(self.memory)]
        return [launcher, "--session", SESSION, *roots, "--"]

    def cli(self, *args: str) -> str:
        """What `noclobber ARGS` prints."""
        done = subprocess.run(
            ["noclobber", *args], env=self.env, capture_output=True, text=True, timeout=LIMIT
        )
        if done.returncode:
            raise RuntimeError(f"noclobber {' '.join(args)}: {done.stderr}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        """`noclobber status --json`."""
        found: dict[str, Any] = json.loads(self.cli("status", "--json"))
        return found

    def session(self) -> dict[str, Any]:
        """Our session's part of the status."""
        found = [s for s in self.status()["sessions"] if s["session"] == SESSION]
        one: dict[str, Any] = found[0] if found else {}
        return one

    def records(self) -> int:
        """How many reports the daemon has written down."""
        from noclobber.journal import RECORDS

        ledger = Path(self.status()["state"]) / "ledger.db"
        with closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT data FROM entries WHERE kind = ?", (RECORDS,))
            return sum(_count(data) for (data,) in rows)

    def calm(self, pid: int) -> float:
        """Waits until the daemon has nothing to do, lest it take processor
        time from what is measured next. Its processor time so far, in s."""
        until = time.monotonic() + _CALM_LIMIT
        used = _processor(pid)
        while time.monotonic() < until:
            time.sleep(_CALM)
            now = _processor(pid)
            if now == used:
                break
            used = now
        return used


def _count(data: bytes) -> int:
    """The records in some whole ones."""
    from noclobber.wire import RECORD

    found = at = 0
    while at < len(data):
        at += RECORD.unpack_from(data, at)[0]
        found += 1
    return found


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _build(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    cc = os.environ.get("CC", "cc")
    common = [cc, "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*common, str(HERE / "micro.c"), "-o", str(out / "micro"), "-ldl"], check=True)
    shared = [*common, "-shared", "-fPIC", str(HERE / "empty.c"), "-o", str(out / "empty.so")]
    subprocess.run(shared, check=True)


def _environment(home: Path) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NOCLOBBER_", "LD_", "MAKE"))}
    path = [str(BIN), str(Path(sys.executable).parent), env.get("PATH", os.defpath)]
    return env | {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "LC_ALL": "C.UTF-8",
    }


@contextmanager
def stage() -> Iterator[Stage]:
    """The stage with its daemon running; both are gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="nc-bench-")).resolve()
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else home
    memory = Path(tempfile.mkdtemp(prefix="nc-bench-", dir=fast)).resolve()
    made = Stage(home, memory, _environment(home))
    try:
        _build(made.built)
        for folder in (made.root, made.outside, home / "run"):
            folder.mkdir(mode=0o700)
        made.cli("daemon", "start")
        yield made
    finally:
        subprocess.run(["noclobber", "daemon", "stop"], env=made.env, capture_output=True)
        for folder in (memory, home):
            shutil.rmtree(folder, ignore_errors=True)
