"""Odd processes: many threads, forks, few descriptors, none of their own,
emptied environments, other preloads, filters, name spaces, another user."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TEXT = b"".join(b"line %d of a file\n" % n for n in range(1, 2000))
EPERM = 1  # what programs/entry ends with when it was refused
NOT_REFUSED = 0


@dataclass(frozen=True)
class Session:
    """A session of its own under the module's one guard."""

    guard: Any
    name: str

    @property
    def tree(self) -> Path:
        return self.guard.tree

    @property
    def env(self) -> dict[str, str]:
        return self.guard.env

    def bare(self, *command: str, **options: Any) -> Any:
        return self.guard.bare(*command, **options)

    def run(self, *command: str, **options: Any) -> Any:
        return self.guard.run(*command, session=self.name, **options)

    def denied(self) -> list[str]:
        """The paths that this session was refused."""
        every = [r for r in self.guard.receipts() if r["session"] == self.name]
        return [r["path"] for r in every if r["verdict"] == "deny"]


@pytest.fixture
def session(shared_guard: Any, request: pytest.FixtureRequest) -> Session:
    """In an empty tree."""
    for old in shared_guard.tree.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    return Session(shared_guard, request.node.name.encode("ascii", "ignore").decode()[:128])


@pytest.fixture
def replace(build: Any) -> str:
    """A program that reads half of a file and then opens it with O_TRUNC."""
    return f"{build('entry')} replace"


def plant(guard: Any, *names: str) -> list[Path]:
    paths = [guard.tree / name for name in names]
    for path in paths:
        path.write_bytes(TEXT)
    return paths


def is_refused(guard: Any, path: Path, *command: str, **options: Any) -> bool:
    """Whether the guarded `command` left the file alone and was told so; bare,
    it replaces it."""
    path.write_bytes(TEXT)
    bare = guard.bare(*command, **options)
    assert path.read_bytes() != TEXT, f"harmless: {bare.returncode} {bare.stderr}"
    path.write_bytes(TEXT)
    guard.run(*command, **options)
    return path.read_bytes() == TEXT and str(path) in guard.denied()


# ---- one process, many things at once -----------------------------------


def test_threads_forks_and_signal_handlers_at_once(session, build):
    threads, files = 6, 12
    names = [
        f"{k}.{t}.{n}" for k in ("whole", "half") for t in range(threads) for n in range(files)
    ]
    plant(session, "signalled")
    held = {session.tree / n: TEXT.replace(b"a file", n.encode()) for n in names}
    for path, text in held.items():
        path.write_bytes(text)
    done = session.run(str(build("crowd")), str(threads), str(files))
    assert done.stdout == f"whole 0 half {threads * files} other 0 handled 1\n"
    assert {path: path.read_bytes() for path in held} == held


def test_a_vfork_child_changes_nothing_of_its_parents(session, build):
    (path,) = plant(session, "f")
    done = session.run(str(build("guest")), "f")
    assert (done.returncode, session.denied()) == (0, [])
    assert path.read_bytes() == b""


PYTHON_CHILDREN = """
import os, subprocess, sys
text = open("f").read(len("line")) # keep it open by halves
with open("f") as file:
    half = file.read(9000)
    for n in range(20):
        subprocess.run(["true"], check=True)
        subprocess.run("exit 0", shell=True, check=True)
        child = os.fork()
        if not child:
            os.execvp("true", ["true"])
        assert os.waitpid(child, 0)[1] == 0
    rest = file.read()
open("f", "w").write(half + rest)
"""


def test_python_starts_children_between_two_halves(session):
    (path,) = plant(session, "f")
    done = session.run(sys.executable, "-c", PYTHON_CHILDREN)
    assert (done.returncode, done.stderr, session.denied()) == (0, "", [])
    assert path.read_bytes() == TEXT


# ---- descriptors --------------------------------------------------------


@pytest.mark.parametrize("manner", ["close", "close_range", "closefrom", "dup2", "marks"])
def test_a_program_that_closes_everything(session, build, manner):
    plant(session, "f", "own")
    program = str(build("sweep"))
    bare = session.bare(program, manner, "f")
    (session.tree / "mine").unlink()
    plant(session, "f", "own")
    done = session.run(program, manner, "f")
    assert (done.returncode, done.stdout, done.stderr) == (bare.returncode, "", "")
    if manner != "dup2":
        assert bare.returncode == 0
        assert (session.tree / "f").read_bytes() == b""
    assert (session.tree / "mine").read_bytes() == b""
    assert session.denied() == []


def test_four_descriptors_are_enough(session, replace):
    plant(session, "f", "g")
    assert is_refused(session, session.tree / "f", "bash", "-c", f"ulimit -n 4; exec {replace} f")
    text = "ulimit -n 4; exec sed -i s/line/LINE/ g"
    bare = session.bare("bash", "-c", text)
    assert session.run("bash", "-c", text).returncode == bare.returncode
    text = "(ulimit -n 4; exec tail -n 1 f); (ulimit -n 5; exec cat g | wc -l)"
    bare, done = session.bare("bash", "-c", text), session.run("bash", "-c", text)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
    assert done.stdout.splitlines()[0] == "line 1999 of a file"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_programs_without_standard_descriptors(session, replace, closed):
    (path,) = plant(session, "f")
    assert is_refused(session, path, "bash", "-c", f"exec {replace} f {closed}")
    plant(session, "f")
    text = f"(exec {closed}; exec sort -r -o f f); (exec {closed}; exec cp f other); true"
    done = session.run("bash", "-c", text)
    assert (done.returncode, done.stdout) == (0, "")
    lines = (session.tree / "f").read_bytes().splitlines()
    assert lines == sorted(TEXT.splitlines(), reverse=True)
    assert (session.tree / "other").read_bytes() == (session.tree / "f").read_bytes()


def test_the_message_goes_into_no_file_of_the_programs(session, replace):
    """Its standard error is a file that it opened itself."""
    (path,) = plant(session, "f")
    assert is_refused(session, path, "bash", "-c", f"exec {replace} f 2> errors")
    assert (session.tree / "errors").read_bytes() in (b"",) or b"noclobber:" in (
        session.tree / "errors"
    ).read_bytes()
    text = f"exec 2>&-; exec 2<> data; {replace} f; true"
    (session.tree / "data").write_text("mine\n")
    path.write_bytes(TEXT)
    session.run(sys.executable, "-c", CLOSED_ERRORS.format(command=f"{replace} f".split()))
    assert (session.tree / "data").read_text() == "mine\n", text
    assert path.read_bytes() == TEXT


# A program whose descriptor 2 is a file of data, opened by itself.
CLOSED_ERRORS = """
import os
os.close(2)
assert os.open("data", os.O_RDWR) == 2
text = open("f").read(5000)
try:
    open("f", "w")
except PermissionError:
    os._exit(0)
os._exit(1)
"""


# ---- environments -------------------------------------------------------

EMPTIED = {
    "env -i": "exec env -i {} f",
    "exec -c": "exec -c {} f",
    "env -u": "exec env -u LD_PRELOAD -u NOCLOBBER_SESSION {} f",
    "unset": "unset ${{!LD_*}} ${{!NOCLOBBER_*}}; {} f",
    "export": "export LD_PRELOAD= NOCLOBBER_SESSION=; {} f",
    "python": 'exec python3 -c \'import os; os.execve("/bin/sh", ["sh", "-c", "{} f"], {{}})\'',
    "perl": "exec perl -e '%ENV = (); exec \"{} f\"'",
    "setsid": "setsid -w env -i {} f",
    "nested": "env -i bash -c 'env -i bash -c \"env -i {} f\"'",
    "xargs": "echo f | env -i xargs {}",
}


@pytest.mark.parametrize("how", EMPTIED)
def test_an_emptied_environment_leaves_the_session_in_place(session, replace, how):
    if how == "perl" and not shutil.which("perl"):
        pytest.skip("needs perl")
    (path,) = plant(session, "f")
    assert is_refused(session, path, "bash", "-c", EMPTIED[how].format(replace))


no_second_allocator = pytest.mark.skipif(
    "NOCLOBBER_PRELOAD" in os.environ, reason="the sanitizer is the allocator"
)


@no_second_allocator
def test_what_the_user_preloads_stays_and_comes_first(session, build, replace):
    allocator = build("allocator", "-shared", "-fPIC", "-O1", "-fno-builtin")
    (path,) = plant(session, "f")
    (session.tree / "show").write_text(
        "echo ${LD_PRELOAD//:/ }; grep -c allocator /proc/self/maps\n"
    )
    text = f"export LD_PRELOAD={allocator}; bash show; bash -c 'exec {replace} f'"
    done = session.run("bash", "-c", text)
    first, second, count = done.stdout.split()
    assert (first, Path(second).name) == (str(allocator), "libnoclobber.so")
    assert int(count) > 0
    assert (done.returncode, path.read_bytes()) == (EPERM, TEXT)


@no_second_allocator
def test_an_allocator_that_opens_files_is_not_entered_again(session, build):
    allocator = build("allocator", "-shared", "-fPIC", "-O1", "-fno-builtin")
    plant(session, "f")
    text = f"export LD_PRELOAD={allocator}; sed -i 's/^line 7 /LINE 7 /' f; sort -o f f; wc -l < f"
    done = session.run("bash", "-c", f"{text}; grep -c LINE f; cat f | tail -n 1; exit 5")
    assert (done.returncode, done.stderr, session.denied()) == (5, "", [])
    assert done.stdout.split()[:2] == ["1999", "1"]


def test_a_program_with_address_sanitizer(session, build):
    try:
        program = build("entry", "-fsanitize=address")
    except AssertionError:
        pytest.skip("no AddressSanitizer")
    bare = session.bare(str(program), "list", "r")
    if bare.returncode:
        pytest.skip("AddressSanitizer does not run here")
    (path,) = plant(session, "f")
    assert is_refused(session, path, str(program), "replace", "f")
    done = session.run(str(program), "list", "r")
    assert (done.returncode, done.stdout, done.stderr) == (0, bare.stdout, bare.stderr)


# ---- sandboxes ----------------------------------------------------------


@pytest.mark.parametrize("mode", ["prctl", "filter", "syscall"])
def test_a_program_under_its_own_strict_filter_lives(session, build, mode):
    plant(session, "f")
    program = str(build("strict"))
    bare = session.bare(program, mode)
    if bare.returncode in (7, 8):
        pytest.skip("no seccomp here")
    assert (bare.returncode, bare.stdout) == (0, "line 1 o")
    done = session.run(program, mode)
    assert (done.returncode, done.stdout, done.stderr) == (0, bare.stdout, "")


def may_unshare(*flags: str) -> bool:
    done = subprocess.run(["unshare", *flags, "true"], capture_output=True)
    return done.returncode == 0


SPACES = {
    "mount": (["-m"], "mount -t tmpfs t /run; mount -t tmpfs t /tmp/.X11-unix 2>/dev/null; "),
    "net": (["-n"], ""),
    "pid": (["-p", "-f"], ""),
    "all": (["-m", "-n", "-p", "-f", "-u", "-i"], ""),
    "user": (["-r", "-m", "-n"], ""),
}


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
@pytest.mark.parametrize("space", SPACES)
def test_another_name_space_is_this_session_still(session, replace, space):
    flags, before = SPACES[space]
    if not may_unshare(*flags):
        pytest.skip("not permitted here")
    (path,) = plant(session, "f")
    assert is_refused(session, path, "unshare", *flags, "bash", "-c", f"{before}{replace} f")


def test_the_socket_out_of_sight_is_reached_still(guard, replace):
    """A file system is mounted over where the socket lies."""
    if not may_unshare("-m"):
        pytest.skip("not permitted here")
    (path,) = plant(guard, "f")
    runtime = guard.home / "run"
    text = f"mount -t tmpfs t {runtime} && ls {runtime} && {replace} f"
    assert is_refused(guard, path, "unshare", "-m", "bash", "-c", text)


def test_a_socket_whose_path_is_too_long_for_an_address(guard, replace):
    runtime = guard.home / ("d" * 100) / ("e" * 100)
    runtime.mkdir(mode=0o700, parents=True)
    guard.env["XDG_RUNTIME_DIR"] = str(runtime)
    (path,) = plant(guard, "f")
    assert is_refused(guard, path, "bash", "-c", f"exec {replace} f")
    assert (runtime / "noclobber" / "daemon.sock").is_socket()
    assert list((guard.home / "run").iterdir()) == []


# ---- names and places ---------------------------------------------------


def test_a_fifo_is_looked_at_without_waiting(session):
    os.mkfifo(session.tree / "pipe")
    text = "echo through > pipe & cat pipe; mv pipe other; echo x > f; mv f other; cat other; "
    text += "mkfifo p2; exec 3<> p2; echo y > p2; : > p2; read -r z <&3; echo $z; rm p2"
    done = session.run("bash", "-c", text, timeout=20)
    assert (done.returncode, done.stdout) == (0, "through\nx\ny\n")


def test_a_link_in_a_skipped_directory_leads_to_the_file(session):
    (path,) = plant(session, "f")
    link = Path("/dev/shm") / f"nc-{os.getpid()}"
    if not link.parent.is_dir():
        pytest.skip("no /dev/shm")
    link.symlink_to(path)
    try:
        assert is_refused(session, path, "bash", "-c", f"echo x > {link}")
    finally:
        link.unlink()


def test_a_directory_that_was_moved_is_followed(session, replace):
    """By a process that stands in it."""
    text = f"mkdir a && cp f a/f && cd a && mv ../a ../b && {replace} f"
    plant(session, "f")
    done = session.run("bash", "-c", text)
    assert (done.returncode, done.stderr) == (NOT_REFUSED, "")  # the session's own copy
    shutil.rmtree(session.tree / "b")
    (session.tree / "c").mkdir()
    plant(session, "c/f")
    done = session.run("bash", "-c", f"cd c && mv ../c ../d && {replace} f")
    assert done.returncode == EPERM
    assert session.denied() == [str(session.tree / "d" / "f")]


# ---- ends and users -----------------------------------------------------


def test_a_process_that_dies_by_a_signal_loses_no_file(session, build, replace):
    (path,) = plant(session, "f")
    done = session.run("bash", "-c", f"{replace} f; kill -SEGV $$")
    assert done.returncode in (-signal.SIGSEGV, 128 + signal.SIGSEGV)
    assert path.read_bytes() == TEXT


def test_no_sigpipe_when_the_daemon_is_gone(guard, build):
    plant(guard, "f")
    text = (
        "trap 'echo pipe' PIPE; head -n 3 f; noclobber daemon stop > /dev/null; echo x > f; echo $?"
    )
    done = guard.run("bash", "-c", text)
    assert done.stdout.splitlines()[3:] == ["1"]
    assert done.stderr.count("noclobber:") == 1
    assert (guard.tree / "f").read_bytes() == TEXT


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("runuser"), reason="needs root")
def test_an_ordinary_user(guard, build):
    """Everything of the user's own: daemon, state and tree."""
    program = build("entry")
    for path in (guard.home, guard.tree, guard.home / "run"):
        shutil.chown(path, "nobody")
    if not readable_by_nobody(guard, program):
        pytest.skip("nobody cannot run what was installed")
    (path,) = plant(guard, "f")
    locked = guard.tree / "locked"
    locked.write_bytes(TEXT)
    shutil.chown(path, "nobody")

    def run(text: str) -> Any:
        command = guard.command("bash", "-c", text)
        return guard.bare("runuser", "-u", "nobody", "--", *command)

    try:
        assert run(f"exec {program} replace f").returncode == EPERM
        assert path.read_bytes() == TEXT
        assert run("echo x > locked").stderr == "bash: line 1: locked: Permission denied\n"
        assert run("sed -i s/line/LINE/ f && echo x > new && echo y > new").returncode == 0
        assert path.read_bytes() == TEXT.replace(b"line", b"LINE")
        assert (guard.tree / "new").read_text() == "y\n"
        state = guard.home / "state" / "noclobber"
        assert {state.owner(), (guard.home / "run" / "noclobber").owner()} == {"nobody"}
        assert state.stat().st_mode & 0o777 == 0o700
    finally:
        guard.bare("runuser", "-u", "nobody", "--", "noclobber", "daemon", "stop")


def readable_by_nobody(guard: Any, program: Path) -> bool:
    words = ["runuser", "-u", "nobody", "--"]
    shim = guard.bare(*words, "noclobber", "--version").returncode == 0
    return shim and guard.bare(*words, str(program), "list", "r").returncode == 0
