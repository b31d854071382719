"""What is uncommitted in a work tree, as git tells it, locks untouched.

Asked once when a session starts (what is dirty then is the host's), and again
each time that a git command might destroy some of it.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from noclobber.gitask import environment
from noclobber.repository import git_directory, top_of

LIMIT = 20.0  # seconds for one question over a whole tree
DEPTH = 8  # of work trees in each other

# What would run a program of the repository's own choosing is switched off.
_OURS = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false",
         "-c", "status.renames=false", "-c", "diff.renames=false")  # fmt: skip
_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=none")


class Entry(NamedTuple):
    """One path that is not as HEAD has it. `staging` and `working`
    are git's letters for the index against HEAD and the work tree against the
    index: `.` the same, `?` not tracked. `module`: a submodule, changed inside."""

    path: bytes
    staging: str
    working: str
    module: bool = False

    @property
    def tracked(self) -> bool:
        return self.staging != "?"

    @property
    def staged(self) -> bool:
        return self.staging not in ".?"

    @property
    def unstaged(self) -> bool:
        return self.working not in ".?"


@dataclass(frozen=True)
class Git:
    """Git, asked where and as somebody else's command would run: `options` are
    git's own, `variables` the ones of its environment that matter to it."""

    directory: bytes
    options: tuple[bytes, ...] = ()
    variables: Mapping[str, str] | None = None

    def ask(self, *words: bytes | str, given: bytes | None = None) -> bytes | None:
        """Standard output; None where git fails or is late."""
        try:
            done = subprocess.run(
                ["git", *self.options, *_OURS, *words],
                cwd=self.directory,
                env=environment() | dict(self.variables or {}),
                stdin=subprocess.DEVNULL if given is None else None,
                input=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=LIMIT,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return done.stdout if done.returncode == 0 else None

    def status(self, paths: Sequence[bytes] = ()) -> list[Entry] | None:
        """What is dirty, or of it what the pathspecs match; paths from the top."""
        said = self.ask(*_STATUS, "--", *paths)
        return None if said is None else list(_entries(said))


def _entries(said: bytes) -> Iterator[Entry]:
    lines = iter(said.split(b"\0"))
    for line in lines:
        match line[:1]:
            case b"1" | b"2" | b"u":
                before = {b"1": 8, b"2": 9, b"u": 10}[line[:1]]
                words = line.split(b" ", before)
                index, tree = chr(words[1][0]), chr(words[1][1])
                inside = words[2][:1] == b"S" and words[2][2:4] != b".."
                yield Entry(words[before], index, tree, inside)
                if line[:1] == b"2":
                    next(lines, None)
            case b"?":
                yield Entry(line[2:], "?", "?")


@dataclass(frozen=True)
class State:
    """Of one root: the absolute paths of files with uncommitted changes
    (foreign clones in it with a slash at the end), the names of the stashes,
    and whether git calls it dirty."""

    files: tuple[bytes, ...] = ()
    stashes: tuple[bytes, ...] = ()
    is_dirty: bool = False


def look(root: bytes) -> State:
    """The state of the work tree that a root is or lies in. Not a git tree, or
    git fails: nothing is dirty."""
    top = top_of(root)
    if top is None:
        return State()
    entries = list(_walk(top, DEPTH))
    below = root.rstrip(b"/") + b"/"
    stashes = Git(top).ask("stash", "list", "--format=%H") or b""
    return State(
        tuple(path for path, _ in entries if _is_file(path) or _is_clone(path)),
        tuple(stashes.split()),
        any(path.startswith(below) for path, _ in entries),
    )


def _is_clone(path: bytes) -> bool:
    """Whether a repository lies there, commits and all; no mere work tree."""
    return path.endswith(b"/") and os.path.isdir(path + b".git")  # noqa: PTH112


def _is_file(path: bytes) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _walk(top: bytes, depth: int) -> Iterator[tuple[bytes, Entry]]:
    """Every entry below the top of a work tree, those of work trees inside of
    it too, with its absolute path."""
    for entry in Git(top).status() or ():
        path = top.rstrip(b"/") + b"/" + entry.path
        yield path, entry
        inner = path.rstrip(b"/")
        if (entry.module or path.endswith(b"/")) and depth and git_directory(inner):
            yield from _walk(inner, depth - 1)
