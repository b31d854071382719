"""Ordinary work of a session: nothing is refused, and the results are those of
a bare run. No network."""

from __future__ import annotations

import io
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

ALONE = "--no-index --no-build-isolation --no-deps"
LIMIT = 240  # seconds
Tree = dict[str, tuple[int, bytes]]

SOURCE = "int f{n}(int x) {{ return x * {n}; }}\n"
MAKEFILE = """
N := $(shell seq 12)
app: main.o libf.a
\t$(CC) -o $@ main.o -L. -lf
\tstrip $@
libf.a: $(N:%=f%.o)
\trm -f $@ && ar rcsD $@ $^
%.o: %.c f.h
\t$(CC) -O1 -c $< -o $@ -MMD
f.h: gen.sh
\tsh gen.sh > $@
-include *.d
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
# A wheel is a zip file: no build tool has to be installed.
BACKEND = """
import pathlib, zipfile
FILES = {{
    "METADATA": "Metadata-Version: 2.1\\nName: small\\nVersion: {version}\\n",
    "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "entry_points.txt": "[console_scripts]\\nsmall = small:main\\n",
    "RECORD": "",
}}
def build_wheel(folder, settings=None, metadata=None):
    name = "small-{version}-py3-none-any.whl"
    about = "small-{version}.dist-info/"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for path in sorted(pathlib.Path("small").glob("*.py")):
            wheel.write(path)
        for part, text in FILES.items():
            wheel.writestr(about + part, text)
    return name
"""


def write(base: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def c_project(base: Path) -> None:
    numbers = range(1, 13)
    files = {f"f{n}.c": '#include "f.h"\n' + SOURCE.format(n=n) for n in numbers}
    calls = " + ".join(f"f{n}(1)" for n in numbers)
    files["main.c"] = (
        f'#include "f.h"\n#include <stdio.h>\nint main(void) {{ printf("%d\\n", {calls}); }}\n'
    )
    files["gen.sh"] = 'for i in $(seq 12); do echo "int f$i(int);"; done\n'
    files["Makefile"] = MAKEFILE
    write(base, files)


def git_project(base: Path) -> None:
    c_project(base / "origin")
    git = ["git", "-C", str(base / "origin"), "-c", "user.name=n", "-c", "user.email=n@x"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(git + words, check=True)
    (base / "origin" / "main.c").write_text("int main(void) { return 0; }\n" * 30)
    subprocess.run([*git, "commit", "-qam", "two"], check=True)


def npm_project(base: Path) -> None:
    package = '{"name": "small", "version": "1.0.0", "main": "i.js", "bin": {"small": "i.js"}}'
    files = {"package.json": package, "i.js": "#!/usr/bin/env node\nconsole.log('small');\n"}
    files |= {f"lib/m{n}.js": f"module.exports = {n};\n" * 40 for n in range(150)}
    with tarfile.open(base / "small-1.0.0.tgz", "w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o755 if name == "i.js" else 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    write(base, {"package.json": '{"name": "host", "version": "1.0.0", "private": true}\n'})


def pip_project(base: Path) -> None:
    for version in ("1.0", "2.0"):
        code = f"def main():\n    print('small {version}')\n"
        files = {"pyproject.toml": PYPROJECT, "small/__init__.py": code}
        files["backend.py"] = BACKEND.format(version=version)
        files |= {f"small/m{n}.py": f"X = {n}\n" * 30 for n in range(60)}
        write(base / f"v{version}", files)


def cargo_project(base: Path) -> None:
    manifest = '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n'
    write(base, {"Cargo.toml": manifest, "src/m.rs": "pub fn f() -> u32 { 42 }\n"})
    write(base, {"src/main.rs": 'mod m;\nfn main() { println!("{}", m::f()); }\n'})


def text_files(base: Path) -> None:
    write(base, {f"t{n}.txt": "".join(f"line {i}\n" for i in range(800)) for n in range(4)})


def archive(base: Path) -> None:
    text_files(base / "in")
    for n in range(200):
        write(base / "in", {f"many/d{n % 10}/f{n}": f"{n}\n" * 100})
    with tarfile.open(base / "a.tar.gz", "w:gz") as tar:
        tar.add(base / "in", "out")


# Of each: what it needs, what stands there before, and the commands of the
# session.
WORK = {
    "git-clone": ("git", git_project, [
        "git clone -q origin copy && cd copy && git log --oneline --format=%s",
        "cd copy && git checkout -q HEAD~1 && head -n 3 main.c && git checkout -q main",
        "cd copy && git -c user.name=n -c user.email=n@x stash list; git status -s; git fetch -q",
        "cd origin && git worktree add -q ../tree HEAD~1 && ls ../tree",
    ]),
    "make": ("make", c_project, [
        "make -j2 && ./app", "head -n 2 f3.c; sed -i 's/x \\* 3/x * 30/' f3.c && make && ./app",
        "make -B && ./app", "touch gen.sh && make && rm *.o && make && ./app",
    ]),
    "npm-install": ("npm", npm_project, [
        "npm install --offline $NPM ./small-1.0.0.tgz >/dev/null && ls node_modules/small/lib",
        "npx --offline small; head -n 3 node_modules/small/lib/m1.js",
        "npm ci --offline $NPM >/dev/null && ls node_modules/.bin",
        "npm uninstall $NPM small > /dev/null; cat package.json",
    ]),
    "pip-install": ("python3", pip_project, [
        "$PY -m venv --system-site-packages --without-pip e",
        "$PIP ./v1.0 && e/bin/small",
        "head -n 2 e/lib/python*/site-packages/small/m1.py",
        "$PIP -U ./v2.0 && e/bin/small",
    ]),
    "cargo-build": ("cargo", cargo_project, [
        "cargo build -q --offline && target/debug/small", "head -n 1 src/m.rs",
        "sed -i s/42/43/ src/m.rs && cargo build -q --offline && target/debug/small",
    ]),
    "vim": ("vim", text_files, [
        "for f in t*.txt; do head -n 3 $f; $VIM -c '%s/line/LINE/' -c 'wq' $f; done; cat t*.txt",
        "$VIM -c 'set backup nowritebackup' -c '1d' -c 'wq' t1.txt; ls -A; head -n 1 t1.txt",
        "$VIM -c 'set backupcopy=yes' -c '$d' -c 'wq' t2.txt; tail -n 1 t2.txt",
    ]),
    "tar": ("tar", archive, [
        "tar xzf a.tar.gz && find out -type f | wc -l", "tar xzf a.tar.gz",
        "rm -rf out && tar xzf a.tar.gz && md5sum out/t*.txt",
    ]),
}  # fmt: skip
# Holds times, and differs from one bare run to the next.
VOLATILE = re.compile(
    r"(^|/)(\.git|target|__pycache__|\.package-lock\.json|.*\.dist-info|e/bin)(/|$)"
)


def snapshot(tree: Path) -> Tree:
    found: Tree = {}
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if VOLATILE.search(name) or name.endswith((".tgz", ".tar.gz")):
            continue
        mode = path.lstat().st_mode
        found[name] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


@pytest.mark.parametrize("name", WORK)
def test_work_is_done_as_bare_and_nothing_is_refused(guard: Any, name: str) -> None:
    needed, plant, commands = WORK[name]
    if not shutil.which(needed):
        pytest.skip(f"needs {needed}")
    for variable in ("RUSTUP_HOME", "CARGO_HOME"):  # HOME is another one here
        own = Path.home() / f".{variable.split('_')[0].lower()}"
        guard.env.setdefault(variable, str(own))
    guard.env["VIM"] = "vim -Nu NONE -es"
    guard.env["PY"] = sys.executable
    guard.env["PIP"] = f"{sys.executable} -m pip --python e/bin/python install -q {ALONE}"
    guard.env["NPM"] = "--no-audit --no-fund"
    guard.env["npm_config_update_notifier"] = "false"
    results: list[list[tuple[int, str]]] = []
    trees: list[Tree] = []
    for run in (guard.bare, guard.run):
        shutil.rmtree(guard.tree)
        guard.tree.mkdir()
        plant(guard.tree)
        if plant is not git_project and shutil.which("git"):
            subprocess.run(["git", "init", "-q", str(guard.tree)], check=True)
        done = []
        for command in commands:
            one = run("bash", "-c", command, stdin=subprocess.DEVNULL, timeout=LIMIT)
            done.append((one.returncode, one.stdout + one.stderr))
        results.append(done)
        trees.append(snapshot(guard.tree))
    assert [code for code, _ in results[0]] == [0] * len(commands), results[0]
    assert results[1] == results[0]
    assert sorted(trees[1]) == sorted(trees[0])
    assert {n for n in trees[0] if trees[0][n] != trees[1][n]} == set()
    assert guard.denied() == []
