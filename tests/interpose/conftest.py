"""What tests/interpose shares: the C programs, compiled once a session."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
