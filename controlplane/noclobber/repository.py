"""Git repositories, asked about one path at a time.

Two processes a repository answer: `git check-ignore` what is ignored, `git
cat-file` what the index and HEAD hold. Each keeps in memory what it has read
(.gitignore files, the index), so before each question the files behind it
are compared with what they were, and a stale process is replaced.
"""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from noclobber import gitask

Stamp = tuple[int, int, int, int] | None
Where = Literal["HEAD", "index"]

KEPT = 16  # repositories with processes; the one asked longest ago is let go
ANSWERS = 100_000  # about ignored paths that are kept for a repository
FOUND_FOR = 1.0  # seconds for which the repository of a directory is remembered

_OBJECT = re.compile(rb"([0-9a-f]{40,64}) (\w+) (\d+)\n")
_POINTER = re.compile(rb"gitdir: (.+?)\s*$")


def stamp(path: bytes) -> Stamp:
    """What tells one state of a file from another; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a path is bytes)
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def git_directory(directory: bytes) -> bytes | None:
    """Git's own directory of the work tree whose top is `directory`: `.git`,
    or what a `.git` file of a linked work tree or a submodule names."""
    path = directory.rstrip(b"/") + b"/.git"
    if stamp(path) is None:
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            pointed = _POINTER.match(file.read(8192))
    except IsADirectoryError:
        return path if stamp(path + b"/HEAD") else None
    except OSError:
        return None
    found = os.path.join(directory, pointed[1]) if pointed else None  # noqa: PTH118
    return found if found and stamp(found + b"/HEAD") else None


def is_git_directory(directory: bytes) -> bool:
    """A directory that holds a repository's own files, whatever its name."""
    return all(stamp(directory + name) for name in (b"/HEAD", b"/objects", b"/refs"))


def top_of(directory: bytes) -> bytes | None:
    """The top of the work tree that an absolute directory lies in."""
    while True:
        if git_directory(directory):
            return directory
        if directory == b"/":
            return None
        directory = directory.rpartition(b"/")[0] or b"/"


@dataclass(frozen=True)
class Object:
    """A blob, tree or commit as git names it."""

    name: bytes  # hexadecimal
    kind: bytes
    size: int  # bytes


class Repository:
    """One work tree. Paths are relative to its top, without a leading slash."""

    def __init__(self, top: bytes, directory: bytes, *, nul: bool) -> None:
        self.top = top
        self.directory = directory
        self._nul = nul  # cat-file reads names with newlines (git 2.38)
        self._common = _common_directory(directory)
        self.index = directory + b"/index"
        self._git = gitask.Git(top)
        self._objects = gitask.Coprocess(
            self._git,
            "cat-file",
            *(["-z"] if nul else []),
            "--batch-check=%(objectname) %(objecttype) %(objectsize)",
        )
        self._objects_index: Stamp = None
        self._checker = gitask.Coprocess(
            self._git, "check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching"
        )
        self._excludes: bytes | None = None
        self._stamps: dict[bytes, Stamp] = {}
        self._answers: dict[bytes, bool] = {}
        self._tracked_under: dict[bytes, tuple[Stamp, bool]] = {}

    def close(self) -> None:
        """Ends both processes."""
        self._objects.close()
        self._checker.close()

    def relative(self, path: bytes) -> bytes:
        """An absolute path below the top, as this class takes paths."""
        return path[len(self.top.rstrip(b"/")) + 1 :]

    # What git holds.

    def object_at(self, where: Where, path: bytes) -> Object | None:
        """What HEAD or the index has at a path; None: nothing, or git failed."""
        if b"\n" in path and not self._nul:
            return None
        name = (b"HEAD:" if where == "HEAD" else b":0:") + path
        if where == "index":
            # The process reads the index once; HEAD it reads each time.
            now = stamp(self.index)
            if now != self._objects_index:
                self._objects.close()
                self._objects_index = now
        no = (name + b" missing\n", name + b" ambiguous\n")
        answer = self._objects.ask(
            name + (b"\0" if self._nul else b"\n"),
            lambda text: text in no or bool(_OBJECT.fullmatch(text)),
        )
        found = _OBJECT.fullmatch(answer) if answer else None
        return Object(found[1], found[2], int(found[3])) if found else None

    def tracks(self, path: bytes) -> bool:
        """Whether the index has the path."""
        return self.object_at("index", path) is not None

    def tracks_under(self, directory: bytes) -> bool:
        """Whether the index has anything below a directory; True where git
        failed to say."""
        now = stamp(self.index)
        known = self._tracked_under.get(directory)
        if known is None or known[0] != now:
            listed = self._git.run("--literal-pathspecs", "ls-files", "-z", "--", directory + b"/")
            known = self._tracked_under[directory] = (now, listed != b"")
        return known[1]

    def converts_line_ends(self, path: bytes) -> bool:
        """Whether git takes CRLF for LF at this path when it compares, and
        runs no filter of somebody's own over it."""
        listed = self._git.run("check-attr", "-z", "filter", "text", "eol", "crlf", "--", path)
        if listed is None:
            return False
        words = listed.split(b"\0")
        values = dict(zip(words[1::3], words[2::3], strict=False))
        plain = (b"unspecified", b"unset")
        if values.get(b"filter") not in plain or b"unset" in (
            values.get(b"text"),
            values.get(b"crlf"),
        ):
            return False
        if any(values.get(name) not in plain for name in (b"text", b"eol", b"crlf")):
            return True
        setting = self._git.run("config", "--get", "core.autocrlf") or b""
        return setting.strip().lower() in (b"true", b"input", b"1", b"yes", b"on")

    # What git ignores. Being tracked is another question: see ignored.py.

    def matches_ignore(self, path: bytes) -> bool | None:
        """Whether a rule ignores the path, tracked or not, as far as is known
        since `refresh`. None: git failed."""
        known = self._answers.get(path)
        if known is not None:
            return known
        answer = self._checker.ask(path + b"\0", lambda text: text.count(b"\0") >= 4)
        if answer is None:
            return None
        source, _, rule, _ = answer.split(b"\0", 3)
        known = self._answers[path] = bool(source) and not rule.startswith(b"!")
        return known

    def rule_files(self, path: bytes) -> list[bytes]:
        """The absolute paths of the files whose rules speak of a path, those
        that count least first."""
        if self._excludes is None:
            self._excludes = self._global_excludes()
        parts = path.split(b"/")[:-1]
        directories = [b"/".join(parts[:depth]) for depth in range(len(parts) + 1)]
        top = self.top.rstrip(b"/")
        own = [top + (b"/" + each if each else b"") + b"/.gitignore" for each in directories]
        return [self._excludes, self._common + b"/info/exclude", *own]

    def refresh(self, path: bytes) -> None:
        """Looks at the files whose rules speak of a path and of the directories
        above it; where one has changed, what was read of them is let go."""
        stamps = self._rule_stamps(path)
        changed = any(self._stamps.get(file, now) != now for file, now in stamps.items())
        if changed or len(self._answers) > ANSWERS:
            self._checker.close()
            self._answers.clear()
            self._stamps.clear()
            self._excludes = None
            stamps = self._rule_stamps(path)
        self._stamps.update(stamps)

    def _rule_stamps(self, path: bytes) -> dict[bytes, Stamp]:
        return {file: stamp(file) for file in (self._common + b"/config", *self.rule_files(path))}

    def _global_excludes(self) -> bytes:
        setting = self._git.run("config", "--type=path", "--get", "core.excludesFile")
        if setting and setting.strip():
            return os.path.join(self.top, setting.rstrip(b"\n"))  # noqa: PTH118
        home = os.environb.get(b"XDG_CONFIG_HOME") or os.environb.get(b"HOME", b"") + b"/.config"
        return home + b"/git/ignore"


def _common_directory(directory: bytes) -> bytes:
    """Where a linked work tree's repository keeps what all of them share."""
    try:
        with open(directory + b"/commondir", "rb") as file:  # noqa: PTH123
            return os.path.join(directory, file.read(8192).strip())  # noqa: PTH118
    except OSError:
        return directory


class Repositories:
    """The repositories that were asked about, each with its processes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[bytes, Repository] = {}
        self._found: dict[bytes, tuple[float, Repository]] = {}
        self._nul: bool | None = None

    def at(self, path: bytes) -> Repository | None:
        """The innermost repository whose work tree an absolute, canonical path
        of a file lies in."""
        directory = path.rpartition(b"/")[0] or b"/"
        now = self._clock()
        known = self._found.get(directory)
        if known and now < known[0]:
            return known[1]
        top = top_of(directory)
        own = git_directory(top) if top else None
        if top is None or own is None:
            return None
        repository = self._opened(top, own)
        if len(self._found) > 10_000:
            self._found.clear()
        self._found[directory] = (now + FOUND_FOR, repository)
        return repository

    def _opened(self, top: bytes, own: bytes) -> Repository:
        repository = self._open.pop(top, None)
        if repository is not None and repository.directory != own:
            repository.close()
            repository = None
        if repository is None:
            if self._nul is None:
                self._nul = gitask.version() >= (2, 38)
            repository = Repository(top, own, nul=self._nul)
        self._open[top] = repository  # last: the one asked most recently
        if len(self._open) > KEPT:
            oldest = next(iter(self._open))
            self._open.pop(oldest).close()
        return repository

    def close(self) -> None:
        """Ends every process."""
        for repository in self._open.values():
            repository.close()
        self._open.clear()
        self._found.clear()
