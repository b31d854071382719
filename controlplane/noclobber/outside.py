"""Leaves the guard: for the commands of a person that do its work themselves.

`noclobber restore` keeps what it replaces and writes the receipt. Run by an
agent it would be judged as one more of its programs, and refused over a file
that was half seen: the very file that is to come back.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from noclobber import plainexec

SHIM = "libnoclobber."
_LEFT = "NOCLOBBER_LEFT"  # set for the process that has left


def is_guarded() -> bool:
    """Whether the preloaded library is in this process."""
    return any(SHIM in line.rsplit("/", 1)[-1] for line in _maps())


def leave() -> None:
    """Returns where no library guards this process; else starts the same
    command in its place, without it. The session's name stays in the
    environment. Raises OSError."""
    if not is_guarded():
        return
    if _LEFT in os.environ:
        raise OSError(1, "it is guarded all the same, and cannot leave")
    sys.stdout.flush()
    sys.stderr.flush()
    plainexec.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], _environment())


def _environment() -> dict[str, str]:
    env = {**os.environ, _LEFT: "1"}
    others = [word for word in re.split("[: ]", env.pop("LD_PRELOAD", "")) if word]
    others = [word for word in others if not Path(word).name.startswith(SHIM)]
    if others:
        env["LD_PRELOAD"] = ":".join(others)
    return env


def _maps() -> list[str]:
    try:
        return Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
