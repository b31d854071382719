"""Every interposed function, called by a tiny program with what it should
return: allowed on files that were seen or made, refused on a file of which
half was read, and with the kernel's own error where it fails anyway. Bare and
guarded runs are held against each other line by line."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HOOKS = Path(__file__).parents[2] / "csrc" / "hooks.def"
VARIANTS: dict[str, tuple[str, ...]] = {
    "plain": ("-U_FORTIFY_SOURCE",),
    "fortified": ("-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),
    "large": ("-U_FORTIFY_SOURCE", "-D_FILE_OFFSET_BITS=64"),
    "musl": ("-D_LARGEFILE64_SOURCE",),
    "aarch64": ("-U_FORTIFY_SOURCE",),
    # no library gets into it: its supervisor stands for the shim
    "static": ("-static", "-U_FORTIFY_SOURCE", "-Wl,--defsym=__xmknod=mknod",
               "-Wl,--defsym=__xmknodat=mknodat"),
}  # fmt: skip
COMPILERS = {"musl": "musl-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
KINDS = "rgpasxemb"
LINES = b"".join(b"line %05d of a file that is worth keeping\n" % n for n in range(5000))
SMALL, LARGE = LINES[:40_000], LINES  # bytes; mapped pages are brought in by 16
# What the kernel answers differently from one file system to the next.
MAY_BE_UNSUPPORTED = {"fallocate:punch", "fallocate64:zero", "fallocate:collapse"}
MAY_BE_UNSUPPORTED |= {"syscall:fallocate", "ioctl:ficlone"}
# Reads by another offset than the file's own are not seen, mappings count whole.
NOT_SUPERVISED = {"sendfile:at", "splice:at", "mmap", "mmap64", "munmap"}
NOT_EMULATED = {"syscall:openat2", "syscall:openat2-resolve", "syscall:preadv2"}  # by qemu 7.2

BIN = Path(os.environ.get("NOCLOBBER_BIN", Path(sys.executable).parent))
MUSL_SHIM = BIN.parent / "lib" / "noclobber" / "musl" / "libnoclobber.so"

# An emulator lets a program write over itself, and starts no other.
on_a_kernel = pytest.mark.parametrize("entry", sorted(VARIANTS.keys() - {"aarch64"}), indirect=True)
# The supervisor knows nothing of the read-only tier.
by_the_shim = pytest.mark.parametrize("entry", sorted(VARIANTS.keys() - {"static"}), indirect=True)

Program = Callable[..., Path]
Lines = dict[str, str]


@pytest.fixture(params=VARIANTS)
def entry(request: pytest.FixtureRequest, build: Program) -> Path:
    """The program, compiled in one of the six ways."""
    if request.param == "musl" and not MUSL_SHIM.exists():
        pytest.skip("the shim was not built for musl")
    compiler = COMPILERS.get(request.param, "cc")
    return build("entry", *VARIANTS[request.param], compiler=compiler)


@pytest.fixture
def plain(build: Program) -> Path:
    """The program, compiled plainly."""
    return build("entry", *VARIANTS["plain"])


def names(guard: Any, entry: Path, kind: str) -> list[str]:
    done = guard.bare(str(entry), "list", kind)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def content(kind: str, scene: str) -> bytes | None:
    if scene in ("own", "new"):
        return None
    if scene == "empty":
        return b""
    return LARGE if kind == "g" else SMALL


def is_emulated(request: pytest.FixtureRequest) -> bool:
    callspec = getattr(request.node, "callspec", None)
    return callspec is not None and callspec.params.get("entry") == "aarch64"


@pytest.fixture
def guard(shared_guard: Any, request: pytest.FixtureRequest) -> Any:
    """The module's one guard; what was refused before is none of ours."""
    empty(shared_guard)
    return request.getfixturevalue("emulated") if is_emulated(request) else shared_guard


@pytest.fixture
def may_fail(request: pytest.FixtureRequest) -> set[str]:
    """What may be missing here."""
    return MAY_BE_UNSUPPORTED | (NOT_EMULATED if is_emulated(request) else set())


@pytest.fixture
def unseen(entry: Path) -> set[str]:
    """Reads that are not seen here as they are made."""
    with entry.open("rb") as file:
        is_static = b"ld-linux" not in file.read(4096)
    return NOT_SUPERVISED if is_static else set()


def empty(guard: Any) -> None:
    for old in guard.tree.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()


def refused(guard: Any, session: str) -> list[str]:
    """The paths that `session` was refused."""
    every = guard.receipts()
    return [r["path"] for r in every if (r["verdict"], r["session"]) == ("deny", session)]


def fill(guard: Any, entry: Path, kind: str, scene: str) -> dict[Path, bytes]:
    """The tree anew, with a file for each entry point of `kind`."""
    empty(guard)
    text = content(kind, scene)
    files = {guard.tree / f"{kind}.{name}": text for name in names(guard, entry, kind)}
    for path, held in files.items():
        if held is not None:
            path.write_bytes(held)
    return files


def lines(done: Any) -> Lines:
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@dataclass(frozen=True)
class Runs:
    """What a bare and a guarded run print, and the files of the latter as
    they were before it."""

    guard: Any
    session: str
    bare: Lines
    guarded: Lines
    before: dict[Path, bytes]

    def differing(self) -> dict[str, tuple[str, str]]:
        pairs = {name: (line, self.guarded[name]) for name, line in self.bare.items()}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def denied(self) -> set[Path]:
        return {Path(path) for path in refused(self.guard, self.session)}

    def is_untouched(self) -> bool:
        return {path: path.read_bytes() for path in self.before} == self.before


def both(guard: Any, entry: Path, kind: str, scene: str, *args: str) -> Runs:
    fill(guard, entry, kind, scene)
    bare = lines(guard.bare(str(entry), kind, scene))
    before = fill(guard, entry, kind, scene)
    session = "-".join([kind, scene, entry.name, *args])
    guarded = lines(guard.run(str(entry), kind, scene, session=session, args=args))
    assert list(bare) == list(guarded) == names(guard, entry, kind)
    return Runs(guard, session, bare, guarded, before)


def works(line: str) -> bool:
    """Whether the call did not fail."""
    return " 0 " in f" {line} " and "-1 " not in line


def test_the_table_has_every_hook(guard, plain):
    hooked = set(re.findall(r"^HOOK(?:_GLIBC)?\([^,]*?,\s*(\w+),", HOOKS.read_text(), re.M))
    assert len(hooked) > 100
    called = {name.split(":")[0] for kind in KINDS for name in names(guard, plain, kind)}
    assert hooked - called == set()


@pytest.mark.parametrize("scene", ["seen", "own", "new", "empty", "unread"])
def test_replacing_what_was_seen_or_made_is_as_bare(guard, entry, may_fail, scene):
    runs = both(guard, entry, "r", scene)
    assert runs.differing() == {}
    if scene != "new":
        failed = {n for n, line in runs.bare.items() if not works(line)}
        assert failed <= may_fail
    assert runs.denied() == set()


def test_replacing_what_was_half_read_is_refused_with_eperm(guard, entry, may_fail):
    runs = both(guard, entry, "r", "half")
    unsupported = {name for name in runs.bare if not works(runs.bare[name])}
    assert unsupported <= may_fail
    for name, line in runs.guarded.items():
        expected = runs.bare[name].split()[1] if name in unsupported else "EPERM"
        assert line.split()[:2] == ["-1", expected], (name, line)
    assert runs.is_untouched()
    denied = {path for path in runs.before if path.name[2:] not in unsupported}
    assert runs.denied() == denied


@pytest.mark.parametrize("scene", ["seen", "half"])
def test_reads_count_for_what_they_returned(guard, entry, may_fail, unseen, scene):
    runs = both(guard, entry, "g", scene)
    size = len(LARGE) if scene == "seen" else len(LARGE) // 2
    bare = {name: line.split()[:3] for name, line in runs.bare.items() if name not in may_fail}
    assert bare == {name: [str(size), "0", "0"] for name in bare}
    if scene == "seen":
        assert runs.differing().keys() <= may_fail
        assert runs.denied() == set()
        return
    for name, line in runs.guarded.items():
        if name not in unseen:
            assert line.split()[:3] == [str(size), "-1", "EPERM"], (name, line)
    assert all(p.name[2:] in unseen or p.read_bytes() == b for p, b in runs.before.items())


@pytest.mark.parametrize("scene", ["half", "seen", "own", "empty"])
def test_what_replaces_nothing_is_never_refused(guard, entry, scene):
    runs = both(guard, entry, "p", scene)
    differences = runs.differing()
    # nobody could follow a ring, so there is none, as in containers
    assert runs.guarded["syscall:io_uring"].startswith("1 ")
    differences.pop("syscall:io_uring", None)
    assert differences == {}
    assert runs.denied() == set()


@on_a_kernel
def test_errors_are_the_kernels(guard, entry):
    """On files of which half was read: nothing is asked about a call that
    could not succeed."""
    runs = both(guard, entry, "e", "half")
    assert runs.differing() == {}
    assert runs.denied() == set()


READ_ONLY = ("--tier", "read-only")


def test_changes_pass_in_the_default_tier(guard, plain):
    runs = both(guard, plain, "m", "unread")
    assert runs.differing() == {}
    assert {n for n, line in runs.bare.items() if not works(line)} == set()
    assert runs.denied() == set()


@by_the_shim
def test_nothing_changes_in_the_read_only_tier(guard, entry):
    runs = both(guard, entry, "m", "unread", *READ_ONLY)
    for name, line in runs.guarded.items():
        assert line.split()[:2] == ["-1", "EPERM"], (name, line)
    assert runs.is_untouched()
    assert {path.name for path in guard.tree.iterdir()} == {path.name for path in runs.before}
    assert len(runs.denied()) == len(runs.before)


def test_calls_that_change_nothing_have_the_kernels_errors(guard, plain):
    assert both(guard, plain, "b", "unread").differing() == {}
    runs = both(guard, plain, "b", "unread", *READ_ONLY)
    assert runs.differing() == {}
    assert runs.denied() == set()


def test_nothing_is_replaced_in_the_read_only_tier(guard, plain):
    runs = both(guard, plain, "r", "seen", *READ_ONLY)
    runs.guarded.pop("freopen:no-path")  # of a stream that it could not open first
    # Some fail for what they could not make or open before.
    assert {name for name, line in runs.guarded.items() if not line.startswith("-1 ")} == set()
    assert runs.is_untouched()


# Of each step after a refusal: the result and the error that are due.
REFUSED = ("-1", "EPERM")
AFTER = {
    "read": ("10", "0"), "append": ("1", "0"), "fopen-append": ("0", "0"),
    "link": ("0", "0"), "new": ("0", "0"), "shrink-read": ("0", "0"),
    "shrink-write": ("-1", "EBADF"), "shrink-wronly": ("-1", "EBADF"),
    "shrink-pwrite": ("-1", "EBADF"), "shrink-dup": ("-2", "EBADF"),
    "shrink-fork": ("9", "0"), "stream-shrunk": ("-1", "EBADF"),
}  # fmt: skip
APPENDS = {"append": b"x", "fopen-append": b"more\n"}


def test_after_a_refusal_the_old_content_stays(guard, entry):
    runs = both(guard, entry, "a", "half")
    for name, line in runs.guarded.items():
        if name == "shrink-stream":  # fdopen or the flush: one of them fails
            assert line.startswith("-1 ")
            continue
        assert tuple(line.split()[:2]) == AFTER.get(name, REFUSED), (name, line)
    for path, held in runs.before.items():
        assert path.read_bytes() == held + APPENDS.get(path.name[2:], b""), path


@on_a_kernel
def test_whoever_is_started_is_in_the_session(guard, entry):
    runs = both(guard, entry, "s", "unread")
    assert {name for name, line in runs.bare.items() if not works(line)} == set()
    for name, line in runs.guarded.items():
        assert line.split()[:2] == ["-1", "EPERM"], (name, line)
    assert runs.is_untouched()


@pytest.mark.parametrize("scene", ["unread", "half"])
def test_what_a_process_read_is_known_after_its_end(guard, entry, scene):
    runs = both(guard, entry, "x", scene)
    assert {name for name, line in runs.bare.items() if not works(line)} == set()
    if scene == "unread":  # the child itself reads all of it
        assert runs.differing() == {}
        return
    for name, line in runs.guarded.items():
        assert line.split()[:2] == ["-1", "EPERM"], (name, line)
    assert runs.is_untouched()


@pytest.mark.parametrize("name", [b"caf\xe9", b"line\nbreak", b" ", b"-rf", b"x" * 255])
def test_odd_names_are_judged_too(guard, plain, name):
    path = Path(str(guard.tree), name.decode("utf-8", "surrogateescape"))
    path.write_bytes(SMALL)
    done = guard.run(str(plain), "replace", str(path), session="odd")
    assert done.returncode == 1  # EPERM
    assert path.read_bytes() == SMALL
    assert str(path) in refused(guard, "odd")


def test_a_relative_name_from_deep_below_is_judged_too(guard, plain):
    """The file's path is longer than PATH_MAX."""
    text = """
    for i in $(seq 25); do mkdir -p {0} && cd {0}; done
    printf %s "$2" > f && "$1" replace f
    """.format("d" * 200)
    content = SMALL.decode()
    run = 'set -e; for i in $(seq 25); do cd {}; done; exec "$1" replace f'.format("d" * 200)
    assert guard.bare("bash", "-c", text, "-", "true", content).returncode == 0
    assert guard.run("bash", "-c", run, "-", str(plain), session="deep").returncode == 1
    kept = guard.bare("bash", "-c", run.replace('exec "$1" replace f', "cat f"))
    assert kept.stdout == content
