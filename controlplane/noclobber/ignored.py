"""What git ignores: a product that can be made again, so programs may.

Ignored is what a rule matches and the index does not have (a file that was
added by force is tracked, and not ignored). Git itself answers. Where it is
missing or fails, the rules are read here with a library.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from pathspec import GitIgnoreSpec

from noclobber.repository import Repositories, Repository, Stamp, stamp


def spec_of(globs: Iterable[str]) -> GitIgnoreSpec:
    """Globs as in .gitignore. What is none (`!` alone) counts for nothing."""
    good: list[str] = []
    for glob in globs:
        with suppress(ValueError, re.error):
            GitIgnoreSpec.from_lines([glob])
            good.append(glob)
    return GitIgnoreSpec.from_lines(good)


@dataclass(frozen=True)
class Ignored:
    """An answer. `directory` is the widest one that is ignored with all that
    lies in it, as an absolute path; empty where only the file is."""

    ignored: bool
    directory: bytes = b""


_NOT = Ignored(False)


@dataclass
class Ignores:
    """Answers for the files of all repositories. The innermost repository
    speaks: an outer one that ignores the directory of a clone says nothing
    about the clone's files."""

    repositories: Repositories
    _specs: dict[bytes, tuple[Stamp, GitIgnoreSpec]] = field(default_factory=dict)

    def ask(self, path: bytes) -> Ignored:
        """Whether git ignores the file at an absolute, canonical path."""
        repository = self.repositories.at(path)
        if repository is None:
            return _NOT
        relative = repository.relative(path)
        repository.refresh(relative)
        if not self._matches(repository, relative):
            return _NOT
        directory = self._widest(repository, relative)
        if directory and not repository.tracks_under(directory):
            return Ignored(True, repository.top.rstrip(b"/") + b"/" + directory)
        return _NOT if repository.tracks(relative) else Ignored(True)

    def _widest(self, repository: Repository, path: bytes) -> bytes:
        """The outermost directory of `path` that is ignored itself."""
        parts = path.split(b"/")
        for depth in range(1, len(parts)):
            directory = b"/".join(parts[:depth])
            if self._matches(repository, directory, is_directory=True):
                return directory
        return b""

    def _matches(self, repository: Repository, path: bytes, *, is_directory: bool = False) -> bool:
        said = repository.matches_ignore(path)
        if said is not None:
            return said
        parts = path.split(b"/")
        return any(
            self._library_says(
                repository, b"/".join(parts[:depth]), depth < len(parts) or is_directory
            )
            for depth in range(1, len(parts) + 1)
        )

    def _library_says(self, repository: Repository, path: bytes, is_directory: bool) -> bool:
        """What the last rule that matches says, the innermost file first."""
        name = path + (b"/" if is_directory else b"")
        for file in reversed(repository.rule_files(path)):
            spec = self._spec(file)
            home = file.rpartition(b"/")[0] + b"/"
            absolute = repository.top.rstrip(b"/") + b"/" + name
            inside = absolute.removeprefix(home) if file.endswith(b"/.gitignore") else name
            include = spec.check_file(inside.decode(errors="surrogateescape")).include
            if include is not None:
                return include
        return False

    def _spec(self, file: bytes) -> GitIgnoreSpec:
        now = stamp(file)
        known = self._specs.get(file)
        if known is None or known[0] != now:
            try:
                with open(file, "rb") as rules:  # noqa: PTH123
                    text = rules.read().decode(errors="surrogateescape")
            except OSError:
                text = ""
            known = self._specs[file] = (now, spec_of(text.splitlines()))
        return known[1]
