"""Whole programs over a tree: what a session feels."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measure import Row, in_turn
from stage import Stage

FILES = 20_000
QUICK_FILES = 5_000
IN_FOLDER = 50
UNITS = 60  # of the C build
FUNCTIONS = 6  # in each unit
AIM = "x 1.03"
DELETED, QUICK_DELETED = 50_000, 5_000  # files that a deletion takes at once
PROTECTED_PART = 10  # of these are deleted where each has to be kept

# FOLDER COUNT: that many small files, a hundred in each folder below it.
_PLANT = """
import os, sys
for n in range(int(sys.argv[2])):
    folder = f"{sys.argv[1]}/{n // 100}"
    if n % 100 == 0:
        os.makedirs(folder)
    with open(f"{folder}/{n}", "w") as file:
        file.write(f"a line of file {n}\\n" * 20)
"""

_WORDS = (b"value", b"index", b"buffer", b"length", b"result", b"state", b"name", b"file")


@dataclass(frozen=True)
class Workload:
    """A command, the exit statuses that it may have, and what it needs done
    before each run."""

    name: str
    command: tuple[str, ...]
    statuses: tuple[int, ...] = (0,)
    before: Callable[[], object] = lambda: None
    aim: str = AIM


def grow(root: Path, files: int) -> None:
    """A git tree of that many files of 0.5 to 8 KB, all committed."""
    pick = random.Random(files)
    lines = [
        b"    " + pick.choice(_WORDS) + b"_%d = " % n + pick.choice(_WORDS) + b"(%d);\n" % n
        for n in range(4000)
    ]
    for n in range(files):
        folder = root / f"part{n // IN_FOLDER % 20:02}" / f"sub{n // IN_FOLDER:04}"
        if n % IN_FOLDER == 0:
            folder.mkdir(parents=True)
        begin = pick.randrange(3600)
        text = b"".join(lines[begin : begin + pick.choice((20, 40, 80, 300))])
        (folder / f"file{n}.c").write_bytes(text)
    (root / ".gitignore").write_text("/build/\n/big.txt\n")
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-C", str(root)]
    quiet = ["config", "gc.auto", "0"]  # nothing of git's in the background later
    for step in (["init", "-q"], quiet, ["add", "."], ["commit", "-qm", "A tree"], ["status"]):
        subprocess.run([*git, *step], check=True, stdout=subprocess.DEVNULL)


def sources(build: Path) -> None:
    """A C program of UNITS generated files, and its Makefile."""
    build.mkdir()
    for n in range(UNITS):
        text = ["#include <stdio.h>", "#include <string.h>", ""]
        for f in range(FUNCTIONS):
            text += [
                f"int unit{n}_{f}(const char *at)",
                "{",
                f"    char room[{64 + f}];",
                f"    int many = snprintf(room, sizeof room, \"%s {f}\", at);",
                f"    return many + (int)strlen(room) * {n};",
                "}",
            ]  # fmt: skip
        (build / f"unit{n}.c").write_text("\n".join(text) + "\n")
    (build / "main.c").write_text("int main(void) { return 0; }\n")
    (build / "Makefile").write_text(
        "objects := $(patsubst %.c,%.o,$(wildcard *.c))\n"
        "program: $(objects)\n\tcc -o $@ $^\n"
        "%.o: %.c\n\tcc -O1 -c -o $@ $<\n"
    )


def clean(build: Path) -> None:
    """Takes out what the build made, outside any session."""
    for made in [*build.glob("*.o"), build / "program"]:
        made.unlink(missing_ok=True)


def workloads(root: Path) -> list[Workload]:
    """All of them."""
    build = root / "build"
    tar = "tar c --exclude=.git . | cat"
    return [
        Workload("`grep -r`", ("grep", "-r", "--exclude-dir=.git", "no such words", "."), (1,)),
        Workload("`git status`", ("git", "status", "--short")),
        Workload("`make -j2` of 61 C files", ("make", "-sj2", "-C", str(build)),
                 before=partial(clean, build)),
        Workload("`tar c`", ("bash", "-c", tar)),
    ]  # fmt: skip


def deletions(stage: Stage, many: int) -> list[Workload]:
    """`rm -rf` of what git ignores, of what the session made, and of what is
    somebody's work."""

    def work(name: str, folder: str, count: int, aim: str, maker: list[str]) -> Workload:
        plant = [*maker, sys.executable, "-c", _PLANT, folder, str(count)]
        before = partial(subprocess.run, plant, cwd=stage.root, env=stage.env, check=True)
        return Workload(f"`rm -rf` of {count} {name}", ("rm", "-rf", folder), (0,), before, aim)

    return [
        work("ignored files", "build/many", many, "x 1.05", []),
        work("files of the session", "made", many, "x 1.05", stage.launcher()),
        work("protected files", "kept", many // PROTECTED_PART, "x 2", []),
    ]


@dataclass(frozen=True)
class Measured:
    """A workload's row, its processor time alone (which other work on the
    machine disturbs less), and what one guarded run cost the daemon."""

    row: Row
    processor: Row
    questions: float
    reports: float
    daemon: float  # s of processor time


def measure(stage: Stage, work: Workload, rounds: int, pid: int) -> Measured:
    """One workload, bare and guarded in turn."""
    used: dict[str, list[float]] = {"bare": [], "noclobber": []}

    def one(variant: str) -> float:
        work.before()
        stage.calm(pid)
        found = stage.micro(variant, "run", "/dev/null", *work.command, statuses=work.statuses)
        used[variant].append(found.second / 1e6)
        return found.first / 1e6

    asked, sent, busy = _so_far(stage, pid)
    taken = in_turn({v: partial(one, v) for v in used}, rounds)
    after, sent_after, busy_after = _so_far(stage, pid)
    runs = rounds + 1
    row = Row(work.name, "ms", taken, aim=work.aim)
    processor = Row(work.name, "ms", {v: found[1:] for v, found in used.items()})
    questions = (after - asked) / runs
    return Measured(row, processor, questions, (sent_after - sent) / runs,
                    (busy_after - busy) / runs)  # fmt: skip


def _so_far(stage: Stage, pid: int) -> tuple[int, int, float]:
    busy = stage.calm(pid)
    return int(stage.session().get("questions", 0)), stage.records(), busy
