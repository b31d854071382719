"""What tests/interpose shares: the C programs, compiled once a session."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
BASE = ["-w", "-D_GNU_SOURCE", "-pthread"]
Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build() -> Iterator[Build]:
    """`build(NAME, FLAG...)` compiles NAME (programs/NAME.c, and NAME_*.c
    beside it) and gives the program's path. Anybody may run it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("needs a C compiler")
    folder = Path(tempfile.mkdtemp(prefix="nc-built-"))
    folder.chmod(0o755)
    made: dict[tuple[str, ...], Path] = {}

    def compile_once(name: str, *flags: str) -> Path:
        if (key := (name, *flags)) not in made:
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
