"""Which library a program gets: the one that was made for its C library, or
none, and whichever it gets, it starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BIN = Path(os.environ.get("NOCLOBBER_BIN", Path(sys.executable).parent))
SHIM = BIN.parent / "lib" / "noclobber" / "libnoclobber.so"
MUSL_SHIM = SHIM.parent / "musl" / SHIM.name
COMPILERS = {"glibc": ("cc",), "static": ("cc", "-static"), "musl": ("musl-gcc",)}
SHIMS = {"glibc": f"{SHIM}\n", "static": "none\n", "musl": f"{MUSL_SHIM}\n"}
MANNERS = ["execve", "execve:empty", "execvp", "posix_spawn", "posix_spawnp", "system", "popen"]

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("NOCLOBBER_PRELOAD")), reason="there is a sanitizer before the shim"
)
needs_musl_shim = pytest.mark.skipif(not MUSL_SHIM.exists(), reason="needs the shim for musl")


@pytest.fixture
def starter(build: Any) -> Any:
    """`starter(KIND)`: the program, linked in that way."""

    def linked(kind: str) -> str:
        compiler, *flags = COMPILERS[kind]
        return str(build("starter", *flags, compiler=compiler))

    return linked


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@needs_musl_shim
@pytest.mark.parametrize("kind", COMPILERS)
def test_a_command_gets_the_library_of_its_loader(shared_guard, starter, kind):
    assert printed(shared_guard.run(starter(kind), "show")) == SHIMS[kind]


@needs_musl_shim
@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("child", COMPILERS)
@pytest.mark.parametrize("parent", ["glibc", "musl"])
def test_each_program_gets_the_library_of_its_loader(shared_guard, starter, parent, child, manner):
    done = shared_guard.run(starter(parent), manner, starter(child), "show")
    assert printed(done) == SHIMS[child]


@needs_musl_shim
@pytest.mark.parametrize("parent", ["glibc", "musl"])
@pytest.mark.parametrize("child", ["glibc", "musl"])
def test_a_static_program_hands_on_what_most_programs_take(shared_guard, starter, parent, child):
    """Nobody is in it to choose."""
    words = [starter(parent), "execve", starter("static"), "execve", starter(child), "show"]
    assert printed(shared_guard.run(*words)) == SHIMS["glibc"]


@needs_musl_shim
@pytest.mark.parametrize("kind", ["glibc", "musl"])
def test_the_library_of_another_c_library_stands_by(guard, starter, build, kind):
    """With the wrong one in it a program runs as it would bare."""
    wrong = {"glibc": MUSL_SHIM, "musl": SHIM}[kind]
    session = {"NOCLOBBER_SESSION": "s", "NOCLOBBER_SOCKET": "/nowhere", "NOCLOBBER_ROOTS": "/"}
    env = {**guard.env, **session, "LD_PRELOAD": str(wrong)}
    path = guard.tree / "file"
    path.write_text("some text\n" * 100)
    compiler, *flags = COMPILERS[kind]
    entry = build("entry", *flags, compiler=compiler)
    for words in ([starter(kind), "show"], [starter(kind), "system", "true"]):
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run([entry, "replace", path], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr, path.read_text()) == (0, "", "")


@needs_musl_shim
def test_what_the_user_preloads_stays_in_its_place(shared_guard, build, starter):
    other = str(build("guest", "-shared", "-fPIC"))
    env = {**shared_guard.env, "LD_PRELOAD": other}
    command = shared_guard.command("sh", "-c", 'echo "$LD_PRELOAD"')
    done = subprocess.run(command, env=env, cwd=shared_guard.tree, capture_output=True, text=True)
    assert done.stdout == f"{other}:{SHIM}\n"


def test_a_script_gets_what_its_interpreter_takes(shared_guard, starter):
    script = shared_guard.tree / "script"
    for kind in ("glibc", *(["musl"] if MUSL_SHIM.exists() else [])):
        script.write_text(f"#!{starter(kind)} show\n")
        script.chmod(0o755)
        assert printed(shared_guard.run(str(script))) == SHIMS[kind]
        assert printed(shared_guard.run("sh", "-c", str(script))) == SHIMS[kind]


# ---- where there is none for it ------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A launcher that was installed without the shim for musl."""
    for source in (BIN / "noclobber-exec", BIN / "noclobber", SHIM):
        to = tmp_path / source.relative_to(BIN.parent)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, to)
    return tmp_path / "bin" / "noclobber-exec"


@pytest.mark.parametrize("manner", [None, *MANNERS])
def test_without_a_library_for_it_a_musl_program_runs_bare(shared_guard, starter, alone, manner):
    words = [starter("musl"), "show"]
    if manner:
        words = [starter("glibc"), manner, *words]
    command = [str(alone), "--session", "alone", *words]
    env = shared_guard.env | {"NOCLOBBER_SUPERVISOR": "never"}
    done = subprocess.run(command, env=env, cwd=shared_guard.tree, capture_output=True, text=True)
    assert printed(done) == "none\n"


def test_a_loader_of_another_kind_gets_nothing(shared_guard, starter, build):
    real = re.search(rb"/[\w/.-]*ld-[\w.-]+", Path(starter("glibc")).read_bytes())
    assert real is not None
    loader = Path(starter("glibc")).parent / "linker64"
    shutil.copy2(os.fsdecode(real[0]), loader)
    program = str(build("starter", f"-Wl,--dynamic-linker={loader}"))
    assert printed(shared_guard.bare(program, "show")) == "none\n"
    assert printed(shared_guard.run(program, "show")) == "none\n"
    assert printed(shared_guard.run("sh", "-c", f"{program} show; :")) == "none\n"
    # what it starts is in the session no more: its loader was given nothing
    again = shared_guard.run(program, "execve", starter("glibc"), "show")
    assert printed(again) == "none\n"
