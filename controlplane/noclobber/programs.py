"""What covers a program, for people who ask before they rely on it.

The word is csrc/program.c's, which the shim asks at each start; here it comes
with the way from the name to the file that the kernel loads at last.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from noclobber.wire import C, ffi

AT_FDCWD = -100
_MOST_STEPS = 12  # scripts of scripts, and env: then it is a circle

_COVERS = {
    C.NC_COVER_PRELOAD: "preload",
    C.NC_COVER_OTHER: "other",
    C.NC_COVER_SUPERVISOR: "supervisor",
    C.NC_COVER_NONE: "none",
}
_REASONS = {
    C.NC_REASON_UNKNOWN: "unknown",
    C.NC_REASON_MISSING: "missing",
    C.NC_REASON_NO_FILE: "no file",
    C.NC_REASON_UNREADABLE: "unreadable",
    C.NC_REASON_GLIBC: "glibc",
    C.NC_REASON_MUSL: "musl",
    C.NC_REASON_LOADER: "foreign loader",
    C.NC_REASON_STATIC: "static",
    C.NC_REASON_STATIC_PIE: "static",
    C.NC_REASON_GO: "Go",
    C.NC_REASON_BUN: "Bun",
    C.NC_REASON_MACHINE: "another machine",
    C.NC_REASON_SET_ID: "set-ID",
    C.NC_REASON_CAPABLE: "capabilities",
    C.NC_REASON_SCRIPT: "script",
}
# Of env(1): options with a word of their own behind them.
_WITH_WORD = ("-u", "--unset", "-C", "--chdir", "-a", "--argv0")


@dataclass(frozen=True)
class Step:
    """A file on the way. `cover`: preload, other (the shim for the other C
    library), supervisor, none. `line`: what follows a script's `#!`."""

    path: str
    cover: str
    reason: str
    line: str = ""


def look(path: str) -> Step:
    """What that file's start is covered by. A script is one step."""
    line = ffi.new("char[]", C.NC_SCRIPT_ROOM)
    found = C.nc_cover_step(AT_FDCWD, os.fsencode(path), line)
    text = os.fsdecode(ffi.string(line))
    return Step(path, _COVERS[found.cover], _REASONS[found.why], text)


def way(name: str) -> list[Step]:
    """From a name on PATH or a path to what is loaded in the end: a script,
    its interpreter, and what env(1) looks up for it. The last step decides."""
    steps: list[Step] = []
    path: str | None = name if "/" in name else shutil.which(name)
    while path is not None and len(steps) < _MOST_STEPS:
        steps.append(look(path))
        last = steps[-1]
        words = re.split(r"[ \t]+", last.line.strip(" \t"), maxsplit=1)
        if last.reason != "script" or not words[0]:
            return steps
        name = path = words[0]
        if Path(path).name == "env":
            steps.append(look(path))
            wanted = _wanted_of_env(words[1:])
            if wanted is None or steps[-1].cover != "preload":
                return steps
            name, path = wanted, wanted if "/" in wanted else shutil.which(wanted)
    return [*steps, Step(name, "preload", "missing")] if path is None else steps


def _wanted_of_env(words: list[str]) -> str | None:
    """The program that env starts for a script, by the one word it is given."""
    if not words:
        return None
    given = words[0].strip()
    if given.startswith(("-S", "--split-string")):
        try:
            parts = shlex.split(re.sub(r"^(-S|--split-string)=?", "", given))
        except ValueError:
            return None
    else:
        parts = [given]
    while parts:
        part = parts.pop(0)
        if part in _WITH_WORD and parts:
            parts.pop(0)
        elif not part.startswith("-") and "=" not in part:
            return part
    return None
