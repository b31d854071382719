"""The protected set: which files are judged, and for whom.

Under a root every regular file, except git's own and what the configuration
leaves out; from programs also what git ignores is not protected. Outside the
roots only voiced writers are judged, and in temp, cache and runtime
directories nobody.

Most questions are about plain paths and are answered by comparing names; git
is asked only where a program's question depends on it.
"""

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property

from noclobber.ignored import Ignored, Ignores, spec_of
from noclobber.repository import Repositories, is_git_directory, stamp, top_of

REMEMBERED = 5.0  # seconds for which a directory's nature is not looked at again
CLONES_LOOKED_FOR = 2000  # entries of an ignored directory, its children's included

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/var/cache", "/run")


class Place(Enum):
    """Where a path lies, as far as names tell."""

    ROOT = "under a root"
    OUTSIDE = "outside the roots"
    TEMPORARY = "in a temp, cache or runtime directory"
    GIT = "git's own"
    UNPROTECTED = "left out by the configuration"


class Standing:
    """Where one path stands. What costs something is worked out when asked."""

    def __init__(
        self, protection: "Protection", path: bytes, place: Place, top: bytes, root: bytes | None
    ) -> None:
        self.path = path
        self.place = place
        self.root = root  # the one it lies under
        self._protection = protection
        self._top = top  # nothing under this directory is protected, for its place

    def __repr__(self) -> str:
        return f"Standing({os.fsdecode(self.path)!r}, {self.where()})"

    @cached_property
    def output(self) -> bool:
        """Its name is an output by convention: a snapshot at most."""
        return self._protection.is_output(self.path, self.root)

    @cached_property
    def ignored(self) -> Ignored:
        """Whether git ignores it. Asks git."""
        return self._protection.ignores.ask(self.path)

    def protected_from(self, kind: str) -> bool:
        """Whether a writer of this kind (voice.Kind) is judged; what is neither
        direct nor driven is taken for voiced."""
        program = kind in ("direct", "driven")
        if self.place is Place.ROOT:
            return not (program and self.ignored.ignored)
        return self.place is Place.OUTSIDE and not program

    def scope(self, kind: str) -> bytes:
        """The widest directory above it under which nothing is protected from
        a writer of this kind; empty where there is none."""
        if self.protected_from(kind):
            return b""
        if self.place is Place.ROOT:
            return self._protection.widest(self.ignored.directory, self.path, clones=True)
        return self._protection.widest(self._top, self.path)

    @property
    def store(self) -> bytes:
        """Of what is git's own, the directory that holds all of it; else empty."""
        return self._top if self.place is Place.GIT else b""

    def anew(self) -> "Standing":
        """The same place, with nothing worked out yet."""
        return Standing(self._protection, self.path, self.place, self._top, self.root)

    def where(self) -> str:
        """For people: the place, and whether git ignores it if that was asked."""
        if self.place is Place.ROOT and "ignored" in self.__dict__ and self.ignored.ignored:
            return "ignored by git"
        return self.place.value


class Protection:
    """What one session protects.

    `roots` and `skip` (temp, cache and runtime directories) are absolute and
    canonical; where they lie in each other the longest one counts.
    `unprotected` are globs as in .gitignore, relative to each root, or to the
    home directory where they begin with ~/. `outputs` are globs for names, or
    for paths where they have a slash.
    """

    def __init__(
        self,
        roots: Sequence[bytes],
        skip: Sequence[bytes] = (),
        *,
        unprotected: Sequence[str] = (),
        outputs: Sequence[str] = (),
        repositories: Repositories | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.roots = _longest_first(roots)
        self.skip = _longest_first(skip)
        self.ignores = Ignores(repositories if repositories is not None else Repositories())
        self._clock = clock
        self._unprotected = _Globs([glob for glob in unprotected if not glob.startswith("~/")])
        self._at_home = _Globs([glob[1:] for glob in unprotected if glob.startswith("~/")])
        self._home = os.fsencode(os.environ.get("HOME", "")).rstrip(b"/")
        self._names = [glob for glob in outputs if "/" not in glob]
        self._output_name = re.compile("|".join(map(fnmatch.translate, self._names)))
        self._output_path = _Globs([glob for glob in outputs if "/" in glob])
        self._natures: dict[tuple[str, bytes], tuple[float, bool]] = {}

    def standing(self, path: bytes) -> Standing:
        """Where an absolute, canonical path stands (/proc/self/fd/N tells it of
        a descriptor)."""
        root = next((each for each in self.roots if _under(path, each)), None)
        skip = next((each for each in self.skip if _under(path, each)), None)
        if b"/.git/" in path or path.endswith(b"/.git"):
            inside = b"/.git/" in path
            own = path[: path.index(b"/.git/") + 5] if inside else path
            return Standing(self, path, Place.GIT, own, root)
        if skip is not None and (root is None or len(skip) > len(root)):
            return Standing(self, path, Place.TEMPORARY, skip, root)
        if (top := self._left_out(path, root)) is not None:
            return Standing(self, path, Place.UNPROTECTED, top, root)
        if root is None:
            return Standing(self, path, Place.OUTSIDE, b"/", None)
        for directory in _directories(root, path):
            if self._is("git's", directory, is_git_directory):
                return Standing(self, path, Place.GIT, directory, root)
        return Standing(self, path, Place.ROOT, b"", root)

    def _left_out(self, path: bytes, root: bytes | None) -> bytes | None:
        """The directory that the configuration leaves out, or the path itself;
        None: it is not left out."""
        if self._at_home and self._home and _under(path, self._home):
            top = self._at_home.top(path, self._home)
            if top is not None:
                return top
        return self._unprotected.top(path, root) if self._unprotected and root else None

    def is_output(self, path: bytes, root: bytes | None) -> bool:
        """Whether a name is an output by convention."""
        name = os.fsdecode(path.rpartition(b"/")[2])
        if self._names and self._output_name.match(name):
            return True
        return bool(self._output_path) and self._output_path.matches(path, root or b"/")

    def widest(self, top: bytes, path: bytes, *, clones: bool = False) -> bytes:
        """The outermost directory from `top` down to the file's own in which no
        root lies and, on demand, no clone with an opinion of its own."""
        if not top or top == path:
            return b""
        for directory in _directories(top, path):
            if any(_under(root, directory) for root in self.roots):
                continue
            if clones and self._is("clones", directory, _holds_clones):
                continue
            return directory
        return b""

    def _is(self, nature: str, directory: bytes, look: Callable[[bytes], bool]) -> bool:
        """`look(directory)`, remembered for a while."""
        now = self._clock()
        known = self._natures.get((nature, directory))
        if known is None or known[0] < now:
            if len(self._natures) > 10_000:
                self._natures.clear()
            known = self._natures[nature, directory] = (now + REMEMBERED, look(directory))
        return known[1]


class _Globs:
    """Globs as in .gitignore."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._spec = spec_of(globs)
        self._given = bool(globs)
        self._plain = not any(glob.startswith("!") for glob in globs)

    def __bool__(self) -> bool:
        return self._given

    def matches(self, path: bytes, base: bytes) -> bool:
        """Whether they match a file, given relative to `base`."""
        return self._spec.match_file(os.fsdecode(path[len(base.rstrip(b"/")) + 1 :]))

    def top(self, path: bytes, base: bytes) -> bytes | None:
        """None: no match. Otherwise the outermost directory that they match
        with all that is in it, or the path itself."""
        if not self.matches(path, base):
            return None
        for directory in _directories(base, path):
            if self._plain and directory != base and self.matches(directory + b"/", base):
                return directory
        return path


def _longest_first(directories: Sequence[bytes]) -> tuple[bytes, ...]:
    plain = {directory.rstrip(b"/") or b"/" for directory in directories}
    return tuple(sorted(plain, key=len, reverse=True))


def _under(path: bytes, directory: bytes) -> bool:
    """Whether a path is a directory or lies below it."""
    return path.startswith(directory) and (
        len(path) == len(directory) or path[len(directory)] == 0x2F or directory == b"/"
    )


def _directories(top: bytes, path: bytes) -> Iterator[bytes]:
    """`top` and what lies between it and the file, from above."""
    yield top
    at = len(top.rstrip(b"/"))
    while (at := path.find(b"/", at + 1)) >= 0:
        yield path[:at]


def _holds_clones(directory: bytes) -> bool:
    """Whether repositories lie in a directory, up to two levels down. A heap
    of more than CLONES_LOOKED_FOR entries is taken for packages."""
    budget = CLONES_LOOKED_FOR
    level = [directory]
    for _ in range(2):
        below: list[bytes] = []
        for each in level:
            try:
                with os.scandir(each) as entries:
                    for entry in entries:
                        budget -= 1
                        if budget < 0:
                            return False
                        if entry.is_dir(follow_symlinks=False):
                            below.append(entry.path)
            except OSError:
                continue
        if any(stamp(each + b"/.git") for each in below):
            return True
        level = below
    return False


def default_root(directory: bytes) -> bytes:
    """The root of a session that was told none: the git top level of its
    directory, else the directory. Canonical."""
    here = os.path.realpath(directory)
    return top_of(here) or here


def skip_directories(environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """The temp, cache and runtime directories of an environment. Canonical. A
    variable that names / or the home directory itself is no such directory."""
    home = environ.get("HOME", "")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    named = (environ.get("TMPDIR", ""), cache, environ.get("XDG_RUNTIME_DIR", ""))
    own = [os.path.realpath(each) for each in named if each.startswith("/")]
    kept = [each for each in own if each not in ("/", os.path.realpath(home or "/"))]
    found = [os.path.realpath(each) for each in _TEMPORARY] + kept
    return tuple(dict.fromkeys(map(os.fsencode, found)))
