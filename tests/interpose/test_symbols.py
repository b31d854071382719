"""The table of functions (hooks.def) against the installed C library, and
against what libnoclobber.so exports. A twin of a hooked function that is
neither hooked nor left out on purpose is a hole that nobody decided on."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[2] / "csrc" / "hooks.def"
BIN = Path(os.environ.get("NOCLOBBER_BIN", Path(sys.executable).parent))
SHIM = BIN.parent / "lib" / "noclobber" / "libnoclobber.so"
LINE = re.compile(r"^(?:(HOOK(?:_GLIBC)?)\([^,()]*,\s*|(OMIT)\()(\w+),", re.M)

MUSL_SHIM = SHIM.parent / "musl" / SHIM.name
MUSL = Path(f"/lib/ld-musl-{os.uname().machine}.so.1")
NEWER = {"close_range", "execveat", "preadv2", "renameat2"}  # than musl 1.2.3

pytestmark = pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")


def table(text: str) -> tuple[set[str], set[str]]:
    """The hooked and the omitted names of a hooks.def's `text`."""
    found = LINE.findall(text)
    return {n for hook, _, n in found if hook}, {n for _, omit, n in found if omit}


def glibc_only(text: str) -> set[str]:
    """The hooked names that musl has no function of."""
    return {name for hook, _, name in LINE.findall(text) if hook == "HOOK_GLIBC"}


def symbols(library: Path) -> set[str]:
    """The functions that `library` lets programs call, without versions:
    GLIBC_PRIVATE is for the C library's own parts."""
    command = ["nm", "-D", "--defined-only", str(library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = (line.split()[-2:] for line in listed.splitlines())
    return {
        name.split("@")[0]
        for kind, name in found
        if kind in "TWi" and not name.endswith("@GLIBC_PRIVATE")
    }


def libc() -> Path:
    """The C library that this very process has mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if re.search(r"/libc[.-][^/]*so", line):
            return Path(line.split(maxsplit=5)[5])
    pytest.skip(f"no glibc in this process ({ctypes.util.find_library('c')})")


def twins(name: str) -> set[str]:
    """Every spelling under which a C library offers the same function again."""
    bare = name.strip("_")
    for tail in ("_chk", "_unlocked", "_2", "64v2", "64"):
        if bare.endswith(tail) and len(bare) > len(tail) + 2:
            bare = bare[: -len(tail)]
    made = set[str]()
    for base in {name, bare}:
        made |= {
            base, f"{base}64", f"__{base}", f"__{base}64", f"__{base}_2", f"__{base}64_2",
            f"__{base}_chk", f"__{base}64_chk", f"_IO_{base}", f"_IO_{base}64",
            f"__isoc99_{base}", f"__isoc23_{base}", f"{base}_unlocked", f"{base}64v2",
            f"__{base}_unlocked_chk", f"__{base}_time64", f"__{base}64_time64",
            f"__libc_{base}", f"__{base}_nocancel", f"__{base}_cancel",
        }  # fmt: skip
    return made - {name}


def undecided(text: str, offered: set[str]) -> set[str]:
    """Twins that the C library offers and the table `text` says nothing of."""
    hooked, omitted = table(text)
    wanted = set[str]().union(*(twins(name) for name in hooked))
    return (wanted & offered) - hooked - omitted


def test_every_twin_is_hooked_or_omitted_with_a_reason():
    assert undecided(HOOKS.read_text(), symbols(libc())) == set()


@pytest.mark.skipif(not MUSL.exists(), reason="needs musl")
def test_musl_has_no_twin_of_its_own():
    text = HOOKS.read_text()
    assert undecided(text, symbols(MUSL)) == set()
    hooked, _ = table(text)
    assert hooked - symbols(MUSL) - glibc_only(text) <= NEWER
    assert glibc_only(text) & symbols(MUSL) == set()


@pytest.mark.skipif(not MUSL_SHIM.exists(), reason="needs the shim for musl")
def test_the_library_for_musl_leaves_out_what_musl_has_not():
    hooked, _ = table(HOOKS.read_text())
    assert symbols(MUSL_SHIM) == hooked - glibc_only(HOOKS.read_text())


def test_every_omission_has_a_reason():
    for line in HOOKS.read_text().splitlines():
        if line.startswith("OMIT("):
            assert re.fullmatch(r'OMIT\(\w+, "[^"]{6,}"\)', line), line


def test_no_name_stands_twice():
    names = [name for *_, name in LINE.findall(HOOKS.read_text())]
    assert len(names) > 150
    assert sorted(names) == sorted(set(names))


def test_the_library_exports_its_table_and_nothing_else():
    hooked, _ = table(HOOKS.read_text())
    assert symbols(SHIM) == hooked


def test_every_hook_is_a_function_of_some_c_library():
    """A misspelt name would stand in nobody's way. What only newer C
    libraries have is named here."""
    hooked, _ = table(HOOKS.read_text())
    assert hooked - symbols(libc()) == set()


TAKEN_OUT = ["open64", "__open64_2", "openat", "__read_chk", "preadv64v2", "fopen64", "freopen64"]
TAKEN_OUT += ["__pread64_chk", "creat64", "mkostemps64", "ftruncate64", "fcntl64", "__fxstat64"]
TAKEN_OUT += ["_IO_fopen", "fallocate64", "sendfile64", "mmap64", "lseek64", "__vfork"]


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_a_line_taken_out_is_noticed(name):
    """The check itself: the table without one of its lines does not pass."""
    text = HOOKS.read_text()
    line = rf"^(?:HOOK(?:_GLIBC)?\([^,()]*,\s*|OMIT\(){name},"
    short = re.sub(line, "/*", text, count=1, flags=re.M)
    assert short != text
    assert name in undecided(short, symbols(libc()))


def test_an_export_without_a_line_is_noticed():
    hooked, _ = table(re.sub(r"^HOOK\(int, rename,", "/*", HOOKS.read_text(), flags=re.M))
    assert symbols(SHIM) - hooked == {"rename"}
