"""`doctor`: what of the guard works on this machine."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from noclobber import config, places, service
from noclobber.cli.common import console
from noclobber.launcher import LAUNCHER, beside

SHIM = Path("lib") / "noclobber" / "libnoclobber.so"
KERNEL = (5, 9)  # seccomp user notification with ADDFD
GLIBC = (2, 31)

_PROBE = "/bin/cat"
_TIMEOUT = 10.0  # s
_SECCOMP = {"x86_64": 317, "aarch64": 277}  # syscall numbers of seccomp(2)
_GET_NOTIF_SIZES = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `good` is None for what is no fault."""

    name: str
    good: bool | None
    detail: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def doctor(as_json: bool) -> None:
    """Look at what of the guard works here. Exit status 1 where protection is
    partial."""
    findings = list(examine())
    good = all(finding.good is not False for finding in findings)
    if as_json:
        click.echo(json.dumps({"whole": good, "findings": [asdict(f) for f in findings]}))
    else:
        out = console()
        marks = {True: "[green]ok[/]     ", False: "[bold red]missing[/]", None: "[dim]note[/]   "}
        for found in findings:
            out.print(f"{marks[found.good]} {found.name}: " + found.detail.replace("[", "\\["))
    sys.exit(0 if good else 1)


def examine() -> Iterator[Finding]:
    """Everything that is looked at, in order."""
    yield _kernel()
    yield _libc()
    launcher = beside(LAUNCHER)
    yield Finding("launcher", launcher is not None, str(launcher or f"no {LAUNCHER} on PATH"))
    yield _preload(launcher)
    yield _seccomp()
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
    return Finding("kernel", _numbers(release) >= KERNEL, f"Linux {release}")


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


def _seccomp() -> Finding:
    name = "seccomp user notification"
    number = _SECCOMP.get(platform.machine())
    if number is None:
        return Finding(name, False, f"not known for {platform.machine()}")
    sizes = (ctypes.c_uint16 * 3)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _GET_NOTIF_SIZES, 0, ctypes.byref(sizes)) == 0:
        return Finding(name, True, "static programs can be supervised")
    why = os.strerror(ctypes.get_errno())
    return Finding(name, False, f"{why}: static programs cannot be supervised")


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
    except OSError as error:
        return Finding("state", False, f"{error.filename}: {error.strerror}")
    return Finding("state", os.access(directory, os.W_OK), f"in {directory}, socket in {runtime}")


def _configuration() -> Finding:
    root = os.fsencode(Path.cwd())
    try:
        config.load(root)
    except config.ConfigError as error:
        return Finding("configuration", False, str(error))
    present = [str(path) for path in config.files(root) if path.exists()]
    return Finding("configuration", None, ", ".join(present) or "none, the defaults are in force")
