"""What the guard is made of, tried on this machine."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from noclobber import config, places, service, snapshots
from noclobber.launcher import LAUNCHER, beside

SHIM = Path("lib") / "noclobber" / "libnoclobber.so"
MUSL_SHIM = SHIM.parent / "musl" / SHIM.name
SUPERVISOR = "noclobber-supervise"
GLIBC = (2, 31)

_PROBE = "/bin/cat"
_TIMEOUT = 10.0  # s
_SECCOMP = {"x86_64": 317, "aarch64": 277}  # syscall numbers of seccomp(2)
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5  # Linux 5.19: no signal breaks off what is asked about
_NO_NEW_PRIVS = 38
_ALLOW = struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)  # one instruction: all may pass
_PRESENT = 1 << 63  # in an entry of pagemap


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `good` is None for what is no fault."""

    name: str
    good: bool | None
    detail: str


def examine() -> Iterator[Finding]:
    """Everything that is looked at, in order."""
    yield _kernel()
    yield _libc()
    launcher = beside(LAUNCHER)
    yield Finding("launcher", launcher is not None, str(launcher or f"no {LAUNCHER} on PATH"))
    yield _preload(launcher)
    yield _musl(launcher)
    yield _seccomp()
    yield _supervisor()
    yield _unix_sockets()
    yield _pagemap()
    yield _daemon()
    yield _state()
    yield _configuration()
    git = shutil.which("git")
    yield Finding(
        "git", None if git else False, git or "not on PATH: nothing counts as held by git"
    )


def _numbers(text: str) -> tuple[int, ...]:
    words = text.split("-")[0].split(".")[:2]
    return tuple(int(word) for word in words if word.isdigit())


def _kernel() -> Finding:
    release = platform.release()
    if sys.platform != "linux":
        return Finding("kernel", False, f"{sys.platform} {release}: not supported yet")
    return Finding("kernel", True, f"Linux {release}")


def _libc() -> Finding:
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        name = ""
    found = _numbers(name.rpartition(" ")[2])
    detail = f"{name or 'not glibc'}, for {platform.machine()}"
    return Finding("libc", found >= GLIBC, detail)


def _preload(launcher: Path | None) -> Finding:
    """Whether a plain program of this machine has the library inside."""
    name = "preload"
    library = launcher.resolve().parent.parent / SHIM if launcher else None
    if library is None or not library.exists():
        return Finding(name, False, f"no library at {library}; reinstall noclobber")
    library = library.resolve()
    env = {"LD_PRELOAD": str(library), "PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            [_PROBE, "/proc/self/maps"], env=env, capture_output=True, timeout=_TIMEOUT
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, False, f"{_PROBE} does not run with it: {error}")
    entered = os.fsencode(library) in done.stdout
    where = f"{library} enters {_PROBE}" if entered else f"{library} does not enter {_PROBE}"
    noise = done.stderr.decode(errors="replace").strip()
    return Finding(name, entered and not noise, where + (f" ({noise})" if noise else ""))


def _musl(launcher: Path | None) -> Finding:
    library = launcher.resolve().parent.parent / MUSL_SHIM if launcher else None
    if library is not None and library.exists():
        return Finding("preload for musl", True, str(library))
    why = "not built (that takes musl-gcc); programs of musl are the supervisor's"
    has_musl = Path(f"/lib/ld-musl-{platform.machine()}.so.1").exists()
    return Finding("preload for musl", False if has_musl else None, why)


def _seccomp() -> Finding:
    """Whether a process may have its system calls asked about: one is made
    that does, for no longer than the trial."""
    name = "seccomp user notification"
    number = _SECCOMP.get(platform.machine())
    if number is None:
        return Finding(name, False, f"not known for {platform.machine()}")
    pid = os.fork()
    if pid == 0:
        os._exit(_listen(number))
    error = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if error == 0:
        return Finding(name, True, "a process can be put under a supervisor")
    reasons = {
        16: "another program supervises this process already",  # EBUSY
        22: "the kernel has it since Linux 5.19",  # EINVAL
    }
    why = reasons.get(error) or (os.strerror(error) if error > 0 else f"signal {-error}")
    return Finding(name, False, f"{why}: no process can be put under a supervisor")


def _listen(number: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    program = ctypes.create_string_buffer(_ALLOW)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)))
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return ctypes.get_errno()
    flags = ctypes.c_ulong(_NEW_LISTENER | _WAIT_KILLABLE)
    result = libc.syscall(number, ctypes.c_ulong(_SET_MODE_FILTER), flags, head)
    return 0 if result >= 0 else ctypes.get_errno()


def _supervisor() -> Finding:
    found = beside(SUPERVISOR)
    return Finding("supervisor", found is not None, str(found or f"no {SUPERVISOR} on PATH"))


def _unix_sockets() -> Finding:
    name = "Unix sockets"
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
    except OSError as error:
        return Finding(name, False, f"{error.strerror}: nobody here can reach the daemon")
    return Finding(name, True, "can be made")


def _pagemap() -> Finding:
    """Whether the kernel says which pages of a mapping were touched."""
    name = "pagemap"
    here = ctypes.create_string_buffer(b"touched")
    try:
        fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        try:
            entry = os.pread(fd, 8, ctypes.addressof(here) // os.sysconf("SC_PAGESIZE") * 8)
        finally:
            os.close(fd)
    except OSError as error:
        return Finding(name, False, f"{error.strerror}: what is mapped counts as read whole")
    tells = len(entry) == 8 and bool(int.from_bytes(entry, sys.byteorder) & _PRESENT)
    return Finding(
        name, tells, "tells what of a mapping was read" if tells else "tells nothing of mappings"
    )


def _daemon() -> Finding:
    try:
        found = service.ask({"do": "status"})
    except service.NotRunningError:
        return Finding("daemon", None, "does not run; the launcher starts it")
    except (service.ServiceError, OSError) as error:
        return Finding("daemon", False, str(error))
    troubles = "; ".join(found["troubles"])
    return Finding(
        "daemon", not troubles, f"process {found['pid']}" + (troubles and f": {troubles}")
    )


def _state() -> Finding:
    try:
        directory = places.private(places.state_directory())
        runtime = places.socket_path().parent
        with tempfile.TemporaryDirectory(dir=directory) as trial:
            clones = snapshots.clones_in(Path(trial))
    except OSError as error:
        return Finding("state", False, f"{error.filename}: {error.strerror}")
    how = "clones" if clones else "hard links or copies, for the file system has no clones"
    detail = f"in {directory}, socket in {runtime}; snapshots are {how}"
    return Finding("state", os.access(directory, os.W_OK), detail)


def _configuration() -> Finding:
    root = os.fsencode(Path.cwd())
    try:
        config.load(root)
    except config.ConfigError as error:
        return Finding("configuration", False, str(error))
    present = [str(path) for path in config.files(root) if path.exists()]
    return Finding("configuration", None, ", ".join(present) or "none, the defaults are in force")
