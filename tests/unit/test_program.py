"""nc_cover_of: what guards a program is said by its file, whatever that holds."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noclobber._native import ffi, lib

AT_FDCWD = -100
REASONS = {getattr(lib, name): name[10:] for name in dir(lib) if name.startswith("NC_REASON_")}
COVERS = {getattr(lib, name): name[9:] for name in dir(lib) if name.startswith("NC_COVER_")}
LARGE = 33 << 20  # bytes; Bun has 90 MB
AS_NOBODY = """
import ctypes, os, sys
from noclobber._native import ffi, lib
os.setgroups([]); os.setgid(65534); os.setuid(65534)
if sys.argv[2:]:
    assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
found = lib.nc_cover_of(-100, os.fsencode(sys.argv[1]))
print(found.cover, found.why)
"""
GLIBC_LOADER = {
    "x86_64": b"/lib64/ld-linux-x86-64.so.2",
    "aarch64": b"/lib/ld-linux-aarch64.so.1",
}[platform.machine()]
MACHINE = {"x86_64": 62, "aarch64": 183}
EXEC, DYN, PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 2, 3, 1, 2, 3, 4
DT_STRTAB, DT_VERDEF = 5, 0x6FFFFFFC
AT = 64 + 56 * 5  # bytes: where the segments' own content begins


def padded(text: bytes, width: int = 4) -> bytes:
    return text + bytes(-len(text) % width)


def note(owner: bytes, kind: int, text: bytes) -> bytes:
    name = owner + b"\0"
    return struct.pack("<III", len(name), len(text), kind) + padded(name) + padded(text)


def elf(
    *,
    kind: int = EXEC,
    loader: bytes | None = None,
    notes: bytes = b"",
    dynamic: list[tuple[int, int]] | None = None,
    data: bytes = b"",
    machine: int | None = None,
    bits: int = 64,
    away: int = 0,
) -> bytes:
    """A file with these segments: `data` at address AT, the rest `away` bytes on."""
    content = data.ljust(away, b"\0")
    headers = []

    def segment(which: int, body: bytes) -> None:
        nonlocal content
        offset = AT + len(content)
        content += padded(body, 8)
        where = (offset, offset, 0, len(body), len(body), 8)
        headers.append(struct.pack("<IIQQQQQQ", which, 4, *where))

    if loader is not None:
        segment(PT_INTERP, loader + b"\0")
    if notes:
        segment(PT_NOTE, notes)
    if dynamic is not None:
        table = b"".join(struct.pack("<QQ", *entry) for entry in [*dynamic, (0, 0)])
        segment(PT_DYNAMIC, table)
    size = AT + len(content)
    headers.append(struct.pack("<IIQQQQQQ", PT_LOAD, 5, 0, 0, 0, size, size, 4096))
    number = MACHINE[platform.machine()] if machine is None else machine
    head = struct.pack(
        "<4sBBBBxxxxxxxxHHIQQQIHHHHHH",
        *(b"\x7fELF", 2 if bits == 64 else 1, 1, 1, 0),
        *(kind, number, 1, 0, 64, 0, 0, 64, 56, len(headers), 0, 0, 0),
    )
    return (head + b"".join(headers)).ljust(AT, b"\0") + content


def versioned(name: bytes) -> tuple[list[tuple[int, int]], bytes]:
    """The dynamic section and the data of a program that defines a version."""
    first = struct.pack("<HHHHIII", 1, 1, 1, 1, 0, 20, 28) + struct.pack("<II", 1, 0)
    second = struct.pack("<HHHHIII", 1, 0, 2, 1, 0, 20, 0) + struct.pack("<II", 9, 0)
    data = first + second + b"\0program\0" + name + b"\0"
    return [(DT_STRTAB, AT + 56), (DT_VERDEF, AT)], data


def cover(path: Path | str, dirfd: int = AT_FDCWD) -> tuple[str, str]:
    ffi.errno = 123
    found = lib.nc_cover_of(dirfd, os.fsencode(path))
    assert ffi.errno == 123
    return COVERS[found.cover], REASONS[found.why]


def made(tmp_path: Path, content: bytes, name: str = "program") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def compiled(tmp_path: Path, compiler: str, *options: str) -> Path:
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }\n")
    out = tmp_path / "compiled"
    done = subprocess.run([compiler, *options, str(source), "-o", str(out)], capture_output=True)
    if done.returncode:
        pytest.skip(f"{compiler} {' '.join(options)} does not link here")
    return out


def as_nobody(path: Path, *, no_new_privileges: bool = False) -> tuple[str, str]:
    command = [sys.executable, "-c", AS_NOBODY, str(path), *(["x"] * no_new_privileges)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found, why = done.stdout.split()
    return COVERS[int(found)], REASONS[int(why)]


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


# ---- real programs -------------------------------------------------------


@pytest.mark.parametrize("name", ["sh", "cat", "git", "python3"])
def test_programs_of_the_system_are_the_preloads(name: str) -> None:
    path = shutil.which(name, path="/usr/bin:/bin")
    if path is None:
        pytest.skip(f"needs {name}")
    assert cover(path)[0] == "PRELOAD"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cc", ("PRELOAD", "GLIBC")),
        ("cc -static -no-pie", ("SUPERVISOR", "STATIC")),
        ("cc -static -no-pie -s", ("SUPERVISOR", "STATIC")),
        ("cc -static-pie", ("SUPERVISOR", "STATIC_PIE")),
        ("musl-gcc", ("OTHER", "MUSL")),
    ],
)
def test_a_compiled_program_is_covered_as_it_was_linked(
    tmp_path: Path, command: str, expected: tuple[str, str]
) -> None:
    assert cover(compiled(tmp_path, *command.split())) == expected


def test_loaders_may_be_started_as_programs() -> None:
    loaders = {
        Path(os.fsdecode(GLIBC_LOADER)): ("PRELOAD", "GLIBC"),
        Path(f"/lib/ld-musl-{os.uname().machine}.so.1"): ("OTHER", "MUSL"),
        Path("/usr/bin/musl-ldd"): ("OTHER", "MUSL"),
    }
    present = [path for path in loaders if path.exists()]
    if not present:
        pytest.skip("neither loader stands where it does by its standard")
    assert {path: cover(path) for path in present} == {path: loaders[path] for path in present}


# ---- marks ---------------------------------------------------------------


def test_a_loader_is_known_by_its_name(tmp_path: Path) -> None:
    names = {
        GLIBC_LOADER: ("PRELOAD", "GLIBC"),
        b"/nix/store/x-glibc-2.40/lib/" + GLIBC_LOADER.split(b"/")[-1]: ("PRELOAD", "GLIBC"),
        b"/lib/ld-musl-x86_64.so.1": ("OTHER", "MUSL"),
        b"/system/bin/linker64": ("SUPERVISOR", "LOADER"),
    }
    found = {name: cover(made(tmp_path, elf(loader=name))) for name in names}
    assert found == names


def test_a_loaders_name_may_stand_far_behind(tmp_path: Path) -> None:
    content = elf(loader=GLIBC_LOADER, away=100_000)
    assert cover(made(tmp_path, content)) == ("PRELOAD", "GLIBC")


@pytest.mark.parametrize("away", [0, 9000])
@pytest.mark.parametrize("loader", [None, GLIBC_LOADER])
def test_go_is_known_by_its_note(tmp_path: Path, loader: bytes | None, away: int) -> None:
    notes = note(b"GNU", 3, b"0123456789abcdefghij") + note(b"Go\0", 4, b"id/of/build")
    content = elf(loader=loader, notes=notes, away=away)
    assert cover(made(tmp_path, content)) == ("SUPERVISOR", "GO")


@pytest.mark.parametrize("name", [b"BUN_1.1", b"BUN_1.2"])
@pytest.mark.parametrize("loader", [GLIBC_LOADER, b"/lib/ld-musl-x86_64.so.1"])
def test_bun_is_known_by_the_version_that_it_exports(
    tmp_path: Path, name: bytes, loader: bytes
) -> None:
    dynamic, data = versioned(name)
    path = made(tmp_path, elf(loader=loader, dynamic=dynamic, data=data))
    os.truncate(path, LARGE)
    assert cover(path) == ("SUPERVISOR", "BUN")


def test_another_version_or_note_is_no_mark(tmp_path: Path) -> None:
    dynamic, data = versioned(b"NODE_22")
    notes = note(b"Gox", 4, b"id")
    path = made(tmp_path, elf(loader=GLIBC_LOADER, notes=notes, dynamic=dynamic, data=data))
    os.truncate(path, LARGE)
    assert cover(path) == ("PRELOAD", "GLIBC")


@pytest.mark.parametrize(("machine", "bits"), [(3, 32), (62, 32), (40, 32), (243, 64)])
def test_another_machine_is_the_supervisors(tmp_path: Path, machine: int, bits: int) -> None:
    content = elf(machine=machine, bits=bits, loader=GLIBC_LOADER)
    assert cover(made(tmp_path, content)) == ("SUPERVISOR", "MACHINE")


# ---- scripts -------------------------------------------------------------


def test_a_script_is_covered_as_its_interpreter_is(tmp_path: Path) -> None:
    static = made(tmp_path, elf(), "static")
    lines = {
        b"#!/bin/sh\n": ("PRELOAD", "GLIBC"),
        b"#! \t/bin/sh -e\n": ("PRELOAD", "GLIBC"),
        b"#!" + os.fsencode(static) + b" -x\n": ("SUPERVISOR", "STATIC"),
        b"#!" + os.fsencode(static): ("SUPERVISOR", "STATIC"),
        b"#!/not/there\n": ("PRELOAD", "MISSING"),
        b"#!\n/bin/sh": ("PRELOAD", "UNKNOWN"),
        b"#!": ("PRELOAD", "UNKNOWN"),
    }
    assert {line: cover(made(tmp_path, line, "script")) for line in lines} == lines


def test_a_scripts_interpreter_may_be_a_script(tmp_path: Path) -> None:
    under = made(tmp_path, elf(), "0")
    for depth in range(1, 8):
        under = made(tmp_path, b"#!" + os.fsencode(under) + b"\n", str(depth))
    assert cover(tmp_path / "5") == ("SUPERVISOR", "STATIC")
    assert cover(tmp_path / "7") == ("PRELOAD", "UNKNOWN")


def test_a_script_that_is_its_own_interpreter_ends(tmp_path: Path) -> None:
    path = tmp_path / "loop"
    made(tmp_path, b"#!" + os.fsencode(path) + b"\n", "loop")
    assert cover(path) == ("PRELOAD", "UNKNOWN")


def test_one_step_gives_a_scripts_line(tmp_path: Path) -> None:
    path = made(tmp_path, b"#!/usr/bin/env -S node --x\nmore\n", "script")
    line = ffi.new("char[]", lib.NC_SCRIPT_ROOM)
    found = lib.nc_cover_step(AT_FDCWD, os.fsencode(path), line)
    assert (found.cover, REASONS[found.why]) == (lib.NC_COVER_PRELOAD, "SCRIPT")
    assert ffi.string(line) == b"/usr/bin/env -S node --x"


# ---- how it is named -----------------------------------------------------


def test_a_path_is_relative_to_its_directory(tmp_path: Path) -> None:
    made(tmp_path, elf(), "static")
    folder = os.open(tmp_path, os.O_PATH)
    try:
        assert cover("static", folder) == ("SUPERVISOR", "STATIC")
        assert cover("other", folder) == ("PRELOAD", "MISSING")
    finally:
        os.close(folder)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
def test_a_descriptor_may_be_the_program(tmp_path: Path, flags: int) -> None:
    fd = os.open(made(tmp_path, elf()), flags)
    try:
        assert cover("", fd) == ("SUPERVISOR", "STATIC")
        if flags == os.O_RDONLY:
            assert os.lseek(fd, 0, os.SEEK_CUR) == 0
    finally:
        os.close(fd)


def test_a_bad_pointer_is_missing() -> None:
    for pointer in (ffi.NULL, ffi.cast("char *", 8)):
        found = lib.nc_cover_of(AT_FDCWD, pointer)
        assert (found.cover, REASONS[found.why]) == (lib.NC_COVER_PRELOAD, "MISSING")


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o777)  # opening it would wait for a writer
    assert cover(tmp_path / "fifo") == ("PRELOAD", "NO_FILE")
    assert cover(tmp_path) == ("PRELOAD", "NO_FILE")
    assert cover("/dev/null") == ("PRELOAD", "NO_FILE")
    assert cover(tmp_path / "none") == ("PRELOAD", "MISSING")


# ---- privileges ----------------------------------------------------------


@needs_root
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o4711])
def test_a_set_id_program_is_nobodys(mode: int, shared: Path) -> None:
    path = made(shared, elf(loader=GLIBC_LOADER))
    path.chmod(mode)
    assert as_nobody(path) == ("NONE", "SET_ID")
    assert cover(path) == ("PRELOAD", "GLIBC")  # root becomes nobody else


@needs_root
def test_a_set_id_program_gets_nothing_under_no_new_privs(shared: Path) -> None:
    path = made(shared, elf(loader=GLIBC_LOADER))
    path.chmod(0o4755)
    assert as_nobody(path, no_new_privileges=True) == ("PRELOAD", "GLIBC")


@needs_root
def test_a_program_with_capabilities_is_nobodys(shared: Path) -> None:
    path = made(shared, elf(loader=GLIBC_LOADER))
    # struct vfs_cap_data, revision 2, effective: CAP_NET_RAW
    value = b"\x01\x00\x00\x02\x00\x20\x00\x00" + bytes(12)
    try:
        os.setxattr(path, "security.capability", value)
    except OSError as error:
        pytest.skip(f"no capabilities on this file system: {error.strerror}")
    assert as_nobody(path) == ("NONE", "CAPABLE")
    assert cover(path) == ("PRELOAD", "GLIBC")


@needs_root
def test_what_cannot_be_read_is_not_known(shared: Path) -> None:
    path = made(shared, elf())
    path.chmod(0o711)
    assert as_nobody(path) == ("PRELOAD", "UNREADABLE")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that nobody may look into, on a mount that allows set-ID."""
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("the temporary directory's mount has nosuid")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    return tmp_path


# ---- broken files --------------------------------------------------------

DYNAMIC, DATA = versioned(b"BUN_1.2")
SOUND = elf(
    kind=DYN,
    loader=GLIBC_LOADER,
    notes=note(b"GNU", 3, b"0123") + note(b"Go\0", 4, b"id"),
    dynamic=[*DYNAMIC, (14, 1), (0x6FFFFFFB, 0)],  # a name of its own, flags
    data=DATA,
)
NUMBERS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 4095, 4096, LARGE]),
)
CHANGES = st.lists(
    st.tuples(st.integers(0, len(SOUND)), st.integers(1, 8), NUMBERS), min_size=1, max_size=8
)


@pytest.mark.parametrize("end", range(0, len(SOUND), 7))
def test_a_file_cut_short_is_looked_at_without_harm(tmp_path: Path, end: int) -> None:
    found, why = cover(made(tmp_path, SOUND[:end]))
    if end < 64 + 56 * 4:
        assert (found, why) == ("PRELOAD", "UNKNOWN")
    else:
        assert found in ("PRELOAD", "SUPERVISOR")


@settings(
    max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(CHANGES, st.booleans())
def test_a_hostile_file_is_looked_at_without_harm(
    tmp_path: Path, changes: list[tuple[int, int, int]], is_large: bool
) -> None:
    content = bytearray(SOUND)
    for at, width, number in changes:
        content[at : at + width] = number.to_bytes(8, "little")[:width]
    path = made(tmp_path, bytes(content))
    if is_large:
        os.truncate(path, LARGE)
    found, why = cover(path)
    assert (found, why) in {
        *(("PRELOAD", reason) for reason in ("GLIBC", "UNKNOWN", "MISSING", "NO_FILE")),
        *(("SUPERVISOR", reason) for reason in ("LOADER", "STATIC", "STATIC_PIE", "GO", "BUN")),
        ("SUPERVISOR", "MACHINE"),
        ("OTHER", "MUSL"),
    }


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=600), st.sampled_from([b"", b"\x7fELF", b"#!", SOUND[:64], SOUND[:20]]))
def test_noise_is_looked_at_without_harm(tmp_path: Path, noise: bytes, head: bytes) -> None:
    found, _ = cover(made(tmp_path, head + noise))
    assert found in COVERS.values()
