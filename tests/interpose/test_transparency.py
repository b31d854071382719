"""Real programs, bare and guarded, in copies of one tree: the same output,
the same exit status, and the same files afterwards."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TEXT = "".join(f"{n} {n * 7919 % 1000} word{n % 17}\n" for n in range(1, 1200))
C_SOURCE = """#include <stdio.h>
#include "greeting.h"
int main(int many, char **words) { puts(many > 1 ? words[1] : GREETING); return many > 2; }
"""
MAKEFILE = """all: hello hello.txt
hello: hello.c greeting.h
\t$(CC) -O1 hello.c -o $@
hello.txt: hello
\t./hello > $@
"""
SCRIPT = """#!/bin/bash
set -u
while IFS=' ' read -r a b c; do [ $((a % 400)) = 0 ] && echo "$b-$c"; done < words > picked
mapfile -t lines < words; echo "${#lines[@]} ${lines[7]}" >> picked
exec 5< words; read -ru 5 first; read -ru 5 second; echo "$second $first"; exec 5<&-
diff <(sort words) <(sort -r words | sort) && echo same; trap 'echo bye' EXIT
( exit 3 ); echo $?; cat << END
here $((6 * 7))
END
f() { local x=$1; echo "$x" | tr a-z A-Z; }; f abc; echo x | { read -r y; echo "[$y]"; }
printf '%s\\n' *.txt; kill -TERM $$ & wait
"""

SECTION = re.compile(r"^### ([\w-]+)(?:: (\w+))?\n(.*?)(?=^###|\Z)", re.M | re.S)
CASES = {
    name: (text, needed)
    for name, needed, text in SECTION.findall(
        Path(__file__).with_name("transparent.sh").read_text()
    )
}
# Times and random names, in files that are compared by their names only.
INEXACT = (".git/", "a.tar", "a.zip", "d.db", "lib.a")


def plant(tree: Path) -> None:
    """The tree that each program finds."""
    if tree.exists():
        shutil.rmtree(tree)
    (tree / "sub" / "deep").mkdir(parents=True)
    files = {"words": TEXT, "sub/deep/more.txt": TEXT[::-1], "a.txt": "a\n", "hello.c": C_SOURCE}
    files |= {"greeting.h": '#define GREETING "hello"\n', "Makefile": MAKEFILE, "script.sh": SCRIPT}
    for name, text in files.items():
        path = tree / name
        path.write_text(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    (tree / "script.sh").chmod(0o755)


def snapshot(tree: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Every name below `tree` with its mode and content."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if name.startswith(".git/"):
            continue  # git's own, and full of times; `git fsck` judges it
        mode = path.lstat().st_mode
        content: bytes | str | None = None
        if stat.S_ISLNK(mode):
            content = str(path.readlink())
        elif stat.S_ISREG(mode) and not name.startswith(INEXACT):
            content = path.read_bytes()
        found[name] = (mode, content)
    return found


@pytest.fixture
def guard(shared_guard: Any, build: Any) -> Any:
    """The module's guard, with a git identity and fixed dates."""
    who = {"NAME": "n", "EMAIL": "n@example.org", "DATE": "@1700000000 +0000"}
    for role in ("AUTHOR", "COMMITTER"):
        shared_guard.env.update({f"GIT_{role}_{key}": value for key, value in who.items()})
    shared_guard.env.update(GIT_CONFIG_NOSYSTEM="1", PYTHONDONTWRITEBYTECODE="1")
    for name in ("RUSTUP_HOME", "CARGO_HOME"):  # HOME is another one here
        own = Path.home() / f".{name.split('_')[0].lower()}"
        shared_guard.env.setdefault(name, str(own))
    return shared_guard


@pytest.mark.parametrize("name", CASES)
def test_a_program_runs_as_it_does_bare(guard, build, name):
    text, needed = CASES[name]
    if needed and not shutil.which(needed):
        pytest.skip(f"needs {needed}")
    text = text.replace("FDS", str(build("fds")))
    results, trees = [], []
    for run in (guard.bare, lambda *c, **o: guard.run(*c, session=name, **o)):
        plant(guard.tree)
        done = run("bash", "-c", text, "bash", stdin=subprocess.DEVNULL)
        told = re.sub(r"(line \d+:) +\d+ ", r"\1 PID ", done.stderr)  # bash's "Killed"
        results.append((done.returncode, done.stdout, told))
        trees.append(snapshot(guard.tree))
    if "NOCLOBBER_PRELOAD" in os.environ and "AddressSanitizer" in f"{results[0]}":
        pytest.skip("the sanitizer stops the program itself")
    if "NOCLOBBER_PRELOAD" in os.environ and not results[0][1]:
        pytest.skip("the program does not run under the sanitizer's library")
    assert results[1] == results[0]
    assert trees[1] == trees[0]
    assert results[0][1], "a case that prints nothing tests little"


def test_a_harness_reads_the_same_through_its_pipes(guard):
    """Both streams apart, bytes that are no text, and standard input."""
    script = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d[::-1]); "
    script += "sys.stderr.buffer.write(b'\\xff\\0e'); sys.exit(len(d) % 251)"
    data = bytes(range(256)) * 4000
    plant(guard.tree)
    command = (sys.executable, "-c", script)
    bare = guard.bare(*command, input=data, text=False)
    guarded = guard.run(*command, session="pipes", input=data, text=False)
    assert (guarded.returncode, guarded.stdout) == (bare.returncode, bare.stdout)
    assert guarded.stderr == bare.stderr
    assert bare.stdout == data[::-1]


def test_the_guards_own_descriptors_are_high_and_end_with_the_image(guard):
    """A process that has asked keeps a connection: at 900 or above, and not
    into the next program."""
    plant(guard.tree)
    script = (
        "import os; t = open('words').read(); f = open('words', 'w'); f.write(t); f.close(); "
        "n = {x: os.readlink(f'/proc/self/fd/{x}') for x in map(int, os.listdir('/proc/self/fd')) "
        "if os.path.lexists(f'/proc/self/fd/{x}')}; "
        "s = [x for x in n if n[x].startswith('socket:')]; print(len(s), all(x >= 900 for x in s), "
        "any(os.get_inheritable(x) for x in s))"
    )
    done = guard.run("python3", "-c", script, session="high", stdin=subprocess.DEVNULL)
    assert done.stdout.split() == ["1", "True", "False"], done.stderr
