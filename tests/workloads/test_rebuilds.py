"""Outputs that were there before the session are looked at, and made anew by
what makes them: a build, a generator, git, an editor. Nothing is refused, and
the results are those of a bare run. In trees that git does not know, that it
tracks whole (outputs as well), and where it ignores the outputs."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LIMIT = 240  # seconds
GIT = ("git", "-c", "user.name=n", "-c", "user.email=n@x", "-c", "core.hooksPath=/dev/null")
Files = dict[str, str]


@dataclass(frozen=True)
class Workload:
    """What it takes: a program, files, a command that makes the outputs before
    the session, the outputs' names, and the commands of the session after each
    output was peeked at."""

    needs: str
    files: Files
    before: str
    outputs: tuple[str, ...]
    session: tuple[str, ...]


LINES = "".join(f"line {n}\n" for n in range(600))
PROTO = "".join(f"message M{n} {{ int32 field_{n} = {n}; }}\n" for n in range(300))
GENERATOR = """
import pathlib, re, sys
out = pathlib.Path(sys.argv[2])
out.mkdir(exist_ok=True)
text = pathlib.Path(sys.argv[1]).read_text()
for part in range(3):
    found = re.findall(r"message (\\w+)", text)[part::3]
    (out / f"part{part}_pb.py").write_text("".join(f"class {n}:\\n    pass\\n" for n in found))
"""
COMPILER = """
const fs = require('fs'), path = require('path');
fs.mkdirSync('dist', { recursive: true });
for (const name of fs.readdirSync('src')) {
  const text = fs.readFileSync(path.join('src', name), 'utf8').replace(/: number/g, '');
  const base = path.join('dist', name.replace(/\\.ts$/, ''));
  fs.writeFileSync(base + '.js', '"use strict";\\n' + text);
  fs.writeFileSync(base + '.d.ts', text.split('\\n').map(l => 'declare ' + l).join('\\n'));
}
fs.promises.writeFile('dist/.info', JSON.stringify(fs.readdirSync('dist')));
"""
CONFIGURE = r"""#!/bin/sh
: "${CC:=cc}"
rm -f config.h config.status
exec 5>config.trace
cat > config.h <<END
/* made by configure */
$(i=0; while [ $i -lt 200 ]; do echo "#define HAVE_$i 1"; i=$((i + 1)); done)
END
echo "checked" >&5
sed -e "s|@CC@|$CC|" Makefile.in > Makefile.new
cmp -s Makefile.new Makefile && rm Makefile.new || mv -f Makefile.new Makefile
cat > config.status <<END
#!/bin/sh
sed 's/1$/2/' config.h > config.h.t; mv config.h.t config.h
$(i=0; while [ $i -lt 100 ]; do echo "# status $i"; i=$((i + 1)); done)
END
chmod +x config.status
./config.status
"""
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(small C)
configure_file(version.h.in version.h)
add_custom_command(OUTPUT table.c COMMAND sh ${CMAKE_SOURCE_DIR}/table.sh > table.c
                   DEPENDS ${CMAKE_SOURCE_DIR}/table.sh)
file(GENERATE OUTPUT notes.txt CONTENT "$<JOIN:a;b;c,\\n>\\n")
add_library(parts STATIC part.c table.c)
target_include_directories(parts PUBLIC ${CMAKE_BINARY_DIR})
add_executable(app main.c)
target_link_libraries(app parts)
"""
BUILD_RS = """
use std::{env, fs, path::Path};
fn main() {
    let text: String = (0..400).map(|n| format!("pub const C{n}: u32 = {n};\\n")).collect();
    fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join("table.rs"), &text).unwrap();
    fs::write("src/table.rs", &text).unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
"""
GOLDEN = """
import pathlib, pytest
@pytest.mark.parametrize("name", ["a", "b"])
def test_golden(name):
    golden = pathlib.Path(__file__).parent / "golden" / f"{name}.txt"
    golden.parent.mkdir(exist_ok=True)
    golden.write_text("".join(f"{name} {n}\\n" for n in range(500)))
    pathlib.Path("report.txt").write_text("ok\\n" * 300)
"""

WORKLOADS = {
    "make-and-gcc": Workload(
        "make",
        {
            "Makefile": "app: main.c gen.h\n\t$(CC) -o $@ main.c\n"
            "gen.h: gen.sh\n\tsh gen.sh > $@.t && mv $@.t $@\n"
            "list.txt: gen.sh\n\tsh gen.sh | sort > $@\n"
            "all: app list.txt\n",
            "gen.sh": 'for i in $(seq 300); do echo "#define N$i $i"; done\n',
            "main.c": '#include "gen.h"\nint main(void) { return N0 + N1 - 1; }\n#define N0 0\n',
        },
        "sed -i 's/N0 + //' main.c && make all",
        ("gen.h", "list.txt", "app"),
        ("make -B all", "touch gen.sh && make all && ./app", "make -j4 -B all"),
    ),
    "cmake-and-ninja": Workload(
        "cmake",
        {
            "CMakeLists.txt": CMAKE,
            "version.h.in": "".join(f"#define V{n} {n}\n" for n in range(200)),
            "table.sh": "for i in $(seq 300); do echo \"int t$i = $i;\"; done\n",
            "part.c": '#include "version.h"\nint part(void) { return V7; }\n',
            "main.c": "int part(void);\nint main(void) { return part() - 7; }\n",
        },
        "cmake -G Ninja -S . -B build >/dev/null && ninja -C build >/dev/null",
        ("build/version.h", "build/table.c", "build/notes.txt", "build/build.ninja"),
        (
            "echo '#define MORE' >> version.h.in && ninja -C build >/dev/null && build/app",
            "echo 'echo \"int more;\"' >> table.sh && ninja -C build >/dev/null && build/app",
            "cmake --fresh -G Ninja -S . -B build >/dev/null && ninja -C build >/dev/null",
            "ninja -C build -t clean >/dev/null && ninja -C build >/dev/null && build/app",
        ),
    ),
    "cargo-build-script": Workload(
        "cargo",
        {
            "Cargo.toml": '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n',
            "build.rs": BUILD_RS,
            "src/main.rs": "mod table;\nfn main() { println!(\"{}\", table::C42); }\n",
            "src/table.rs": "pub const C42: u32 = 0;\n",
        },
        "cargo build -q --offline 2>/dev/null",
        ("src/table.rs",),
        (
            "sed -i s/400/500/ build.rs && cargo build -q --offline 2>/dev/null",
            "cargo run -q --offline 2>/dev/null",
        ),
    ),
    "typescript-like": Workload(
        "npm",
        {
            "package.json": '{"name": "small", "version": "1.0.0", '
            '"scripts": {"build": "node build.js", "clean": "rm -rf dist"}}\n',
            "build.js": COMPILER,
            **{
                f"src/m{n}.ts": "".join(f"const v{i}: number = {i};\n" for i in range(200))
                for n in range(4)
            },
        },
        "npm run -s build",
        ("dist/m0.js", "dist/m1.d.ts", "dist/.info"),
        (
            "npm run -s build",
            "sed -i s/const/let/ src/m0.ts && npm run -s build",
            "npm run -s clean && npm run -s build",
            "npm version --no-git-tag-version patch && cat package.json",
        ),
    ),
    "protoc-like": Workload(
        "make",
        {
            "all.proto": PROTO,
            "gen.py": GENERATOR,
            "Makefile": "all: pb/part0_pb.py\npb/part0_pb.py: all.proto gen.py\n"
            "\tpython3 gen.py all.proto pb\n",
        },
        "make all",
        ("pb/part0_pb.py", "pb/part1_pb.py", "pb/part2_pb.py"),
        ("echo 'message New {}' >> all.proto && make all", "make -B all"),
    ),
    "configure": Workload(
        "make",
        {
            "configure": CONFIGURE,
            "Makefile.in": "CC = @CC@\nall:\n\t@echo built\n" + "# more\n" * 200,
        },
        "sh configure",
        ("config.h", "Makefile", "config.status"),
        ("chmod +x configure; ./configure && make", "CC=gcc ./configure", "./config.status"),
    ),
    "pytest-golden-files": Workload(
        "python3",
        {"tests/test_golden.py": GOLDEN},
        f"{sys.executable} -m pytest -q >/dev/null",
        ("tests/golden/a.txt", "report.txt", ".pytest_cache/README.md"),
        (
            f"{sys.executable} -m pytest -q >/dev/null",
            f"{sys.executable} -m pytest -q --lf >/dev/null",
            f"{sys.executable} -m pytest -q --cache-clear >/dev/null",
        ),
    ),
    "editors": Workload(
        "vim",
        {f"t{n}.txt": LINES for n in range(6)},
        "true",
        tuple(f"t{n}.txt" for n in range(6)),
        (
            "vim -Nu NONE -es -c '%s/line/LINE/' -c wq t0.txt; head -n 1 t0.txt",
            "printf '1d\\nw\\nq\\n' | ed -s t1.txt",
            "perl -i -pe 's/line/l/' t2.txt; perl -i.bak -pe 's/l/m/' t2.txt; ls t2*",
            "sed -i.orig -e 5d t3.txt; ls t3*",
            "cp t4.txt new && sed -i 's/line 300$/changed/' new;"
            " diff -u --label t4.txt --label new t4.txt new > p;"
            " patch -s t4.txt p && grep -n changed t4.txt",
            "sort -o t5.txt t5.txt && head -n 2 t5.txt",
        ),
    ),
    "formatters": Workload(
        "clang-format",
        {
            "a.c": "".join(f"int  f{n}( void ){{return {n};}}\n" for n in range(300)),
            "b.py": "".join(f"x{n}  =  {n}\n" for n in range(300)),
            "c.json": "[" + ",".join(map(str, range(900))) + "]",
        },
        "true",
        ("a.c", "b.py", "c.json"),
        (
            "clang-format -i a.c && head -n 2 a.c",
            "ruff format -q --isolated b.py && head -n 2 b.py",
            "jq . c.json > t && mv t c.json && head -n 2 c.json",
            "dos2unix -q a.c; unix2dos -q a.c; dos2unix -q a.c; tail -n 1 a.c",
        ),
    ),
}  # fmt: skip


def plant(tree: Path, workload: Workload, kind: str) -> None:
    for name, text in workload.files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if kind != "plain":
        subprocess.run([*GIT, "init", "-q", "-b", "main", str(tree)], check=True)
    if kind == "ignoring":
        ignored = {"/" + name.split("/")[0] for name in workload.outputs}
        ignored -= {f"/{name}" for name in workload.files} | {"/src"}
        (tree / ".gitignore").write_text("".join(f"{each}\n" for each in sorted(ignored)))


def commit(tree: Path, kind: str) -> None:
    if kind != "plain":
        subprocess.run([*GIT, "-C", str(tree), "add", "-A"], check=True)
        subprocess.run([*GIT, "-C", str(tree), "commit", "-qm", "one"], check=True)


def texts(tree: Path) -> dict[str, bytes]:
    """What files hold, but for what differs from run to run."""
    volatile = {".git", ".ruff_cache", "target", "__pycache__", ".pytest_cache", "CMakeFiles"}
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for path in sorted(tree.rglob("*"))
        if stat.S_ISREG(path.lstat().st_mode)
        and not volatile & set(path.relative_to(tree).parts)
        and not path.name.startswith((".ninja", "CMakeCache", "config.trace", "build.ninja"))
    }


@pytest.mark.parametrize("kind", ["plain", "tracking", "ignoring"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_outputs_of_an_earlier_day_are_made_anew(guard: Any, name: str, kind: str) -> None:
    workload = WORKLOADS[name]
    if not shutil.which(workload.needs, path=guard.env["PATH"]):
        pytest.skip(f"needs {workload.needs}")
    for variable in ("RUSTUP_HOME", "CARGO_HOME"):  # HOME is another one here
        guard.env.setdefault(variable, str(Path.home() / f".{variable.split('_')[0].lower()}"))
    guard.env["npm_config_update_notifier"] = "false"
    guard.env["PYTHONDONTWRITEBYTECODE"] = "1"
    results: list[list[tuple[int, str]]] = []
    trees = []
    for run in (guard.bare, guard.run):
        shutil.rmtree(guard.tree)
        guard.tree.mkdir()
        plant(guard.tree, workload, kind)
        made = guard.bare("bash", "-c", workload.before, timeout=LIMIT)
        assert made.returncode == 0, made.stderr
        commit(guard.tree, kind)
        done = []
        for command in workload.session:
            peeked = run("bash", "-c", f"head -n 5 {' '.join(workload.outputs)} | cat -v")
            one = run("bash", "-c", command, stdin=subprocess.DEVNULL, timeout=LIMIT)
            done += [(peeked.returncode, ""), (one.returncode, one.stdout + one.stderr)]
        results.append(done)
        trees.append(texts(guard.tree))
    assert [code for code, _ in results[0]] == [0] * len(results[0]), results[0]
    assert results[1] == results[0]
    assert trees[1] == trees[0]
    assert guard.denied() == []


GIT_WORK = (
    "head -n 3 a.txt b.txt; git checkout -q other && head -n 3 a.txt && git checkout -q main",
    "git merge -q --no-edit other && head -n 2 b.txt",
    "git reset -q --hard HEAD~1 && git rebase -q other && git log --format=%s",
    "sed -i 's/^line 7$/seven/' a.txt && git stash -q && head -n 8 a.txt && git stash pop -q",
    "git commit -qam mine && git cherry-pick --no-commit HEAD && git reset -q --hard",
    "git revert --no-edit HEAD >/dev/null && git gc -q && git fsck --no-dangling && git status -s",
    "git rm -q b.txt && git commit -qm gone && git checkout -q HEAD~1 -- b.txt && tail -n 1 b.txt",
    "git switch -q -c third && git apply --index p.diff && git commit -qm p && head -n 2 a.txt",
    "git format-patch -q -1 && git reset -q --hard HEAD~1 && git am -q 0001*.patch",
)


def test_git_moves_files_that_were_looked_at(guard: Any) -> None:
    results = []
    for run in (guard.bare, guard.run):
        shutil.rmtree(guard.tree)
        guard.tree.mkdir()
        tree = guard.tree
        for name in ("user.name", "user.email"):
            guard.bare("git", "config", "--global", name, "n@x")
        subprocess.run([*GIT, "init", "-q", "-b", "main", str(tree)], check=True)
        (tree / "a.txt").write_text(LINES)
        (tree / "b.txt").write_text(LINES)
        commit(tree, "tracking")
        subprocess.run([*GIT, "-C", str(tree), "checkout", "-qb", "other"], check=True)
        (tree / "b.txt").write_text(LINES.replace("line 30\n", "thirty\n"))
        commit(tree, "tracking")
        subprocess.run([*GIT, "-C", str(tree), "checkout", "-q", "main"], check=True)
        (tree / "a.txt").write_text(LINES.replace("line 500\n", "five hundred\n"))
        commit(tree, "tracking")
        patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-line 0\n+zero\n line 1\n"
        exclude = tree / ".git/info/exclude"
        exclude.write_text("p.diff\n*.patch\n")
        (tree / "p.diff").write_text(patch)
        results.append([(d.returncode, d.stdout) for d in (
            run("bash", "-c", command, timeout=LIMIT) for command in GIT_WORK
        )])  # fmt: skip
    assert [code for code, _ in results[0]] == [0] * len(GIT_WORK), results[0]
    assert results[1] == results[0]
    assert guard.denied() == []
