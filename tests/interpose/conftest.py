"""What tests/interpose shares: the C programs, compiled once a session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs")
BASE = ["-w", "-D_GNU_SOURCE", "-pthread"]
Build = Callable[..., Path]


def kernel_headers(folder: Path) -> Path:
    """The kernel's headers alone: musl-gcc looks into no directory of glibc's."""
    made = folder / "include"
    if not made.exists():
        made.mkdir()
        shared = Path("/usr/include")
        own = shared / (sysconfig.get_config_var("MULTIARCH") or "")
        for name in ("linux", "asm", "asm-generic"):
            source = shared / name if (shared / name).exists() else own / name
            (made / name).symlink_to(source)
    return made


@pytest.fixture(scope="session")
def build() -> Iterator[Build]:
    """`build(NAME, FLAG..., compiler=CC)` compiles NAME (programs/NAME.c, and
    NAME_*.c beside it) and gives the program's path. Anybody may run it."""
    folder = Path(tempfile.mkdtemp(prefix="nc-built-"))
    folder.chmod(0o755)
    made: dict[tuple[str, ...], Path] = {}

    def compile_once(name: str, *flags: str, compiler: str = "cc") -> Path:
        if not shutil.which(compiler):
            pytest.skip(f"needs {compiler}")
        if compiler == "musl-gcc":
            flags = (*flags, "-idirafter", str(kernel_headers(folder)))
        if (key := (name, compiler, *flags)) not in made:
            sources = [PROGRAMS / f"{name}.c", *sorted(PROGRAMS.glob(f"{name}_*.c"))]
            out = folder / f"{name}-{len(made)}{'.so' if '-shared' in flags else ''}"
            done = subprocess.run(
                [compiler, *BASE, *map(str, sources), "-o", str(out), *flags],
                capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            made[key] = out
        return made[key]

    yield compile_once
    shutil.rmtree(folder)


# ---- aarch64, compiled here and emulated ---------------------------------

CROSS_CC = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"
SYSROOT = Path("/usr/aarch64-linux-gnu")


@pytest.fixture(scope="session")
def cross() -> Iterator[Path]:
    """A directory with all of the C compiled for aarch64, warnings as errors."""
    if os.uname().machine == "aarch64":
        pytest.skip("is an aarch64: all tests are of that")
    if not shutil.which(CROSS_CC) or not (SYSROOT / "include" / "stdio.h").exists():
        pytest.skip("needs gcc-aarch64-linux-gnu and libc6-dev-arm64-cross")
    with tempfile.TemporaryDirectory(prefix="nc-aarch64-") as name:
        folder = Path(name)
        command = ["make", "-j2", f"BUILD={folder}", f"CC={CROSS_CC}", "MUSL_CC=", "CFLAGS=-O2"]
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        done = subprocess.run(
            [*command, "all", "objects"], cwd=ROOT, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        yield folder


class Emulated:
    """A guard whose launcher and shim are aarch64's. The emulator stands in
    for the kernel, and is no program that they know: none of ours enters it."""

    def __init__(self, guard: Any, cross: Path) -> None:
        self.guard = guard
        self.tree = guard.tree
        self.receipts = guard.receipts
        self._emulator = [str(shutil.which(EMULATOR)), "-L", str(SYSROOT)]
        self.launcher = [*self._emulator, str(cross / "bin" / "noclobber-exec")]
        # it has no seccomp, which a program that is not aarch64's would need
        self.launcher[1:1] = ["-E", "NOCLOBBER_SUPERVISOR=never"]
        self._shim = cross / "lib" / "noclobber" / "libnoclobber.so"

    def bare(self, *command: str, **options: Any) -> Any:
        return self.guard.bare(*self._emulator, *command, **options)

    def run(self, *command: str, session: str, args: tuple[str, ...] = ()) -> Any:
        _, *words = self.guard.command(*command, session=session, args=args)
        end = words.index("--") + 1
        inside = [*self._emulator, "-E", f"LD_PRELOAD={self._shim}", *words[end:]]
        return self.guard.bare(*self.launcher, *words[:end], *inside)


@pytest.fixture
def emulated(shared_guard: Any, cross: Path) -> Emulated:
    """The module's guard, for programs of aarch64."""
    if not shutil.which(EMULATOR):
        pytest.skip(f"needs {EMULATOR}")
    if os.environ.get("NOCLOBBER_PRELOAD"):
        pytest.skip("a sanitizer is in the emulator's way")
    shared_guard.run("true")  # starts the daemon, which the other launcher cannot
    return Emulated(shared_guard, cross)
