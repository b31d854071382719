"""Which uncommitted work a git command would throw away.

One function for each kind of command, from its words and from what git says
is dirty now. Where git itself refuses (a merge over changed files) nothing is
in danger; where it takes work out of the tree without a question (`stash`,
`checkout -- f`, `clean -f`) those files are. In doubt nothing is: the files
themselves are guarded, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from noclobber.dirty import Entry, Git
from noclobber.gitargs import Words, sort

_EVERYTHING = (b":/",)
_ESCAPE = re.compile(rb"\\\\([abtnvfr\"\\\\]|[0-7]{3})")
_ESCAPED = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
}


@dataclass(frozen=True)
class Danger:
    """Absolute paths of files (a directory with a slash at its end stands for
    all that is in it), and the stashes that would be dropped."""

    files: frozenset[bytes] = frozenset()
    stashes: frozenset[bytes] = frozenset()


@dataclass
class Look:
    """One command, in one place."""

    git: Git
    words: tuple[bytes, ...]
    cut: bool = False  # there were more words than are known
    files: set[bytes] = field(default_factory=set)
    stashes: set[bytes] = field(default_factory=set)

    @cached_property
    def top(self) -> bytes | None:
        """The top of the work tree that the command works on."""
        said = self.git.ask("rev-parse", "--show-toplevel")
        return said[:-1] if said else None

    @cached_property
    def prefix(self) -> bytes:
        """Where it was called, from the top: empty, or with a slash at its end."""
        return (self.git.ask("rev-parse", "--show-prefix") or b"\n")[:-1]

    def dirty(self, paths: Sequence[bytes] = ()) -> list[Entry]:
        """What the pathspecs match of what is dirty now."""
        if self.cut and paths:
            paths = _EVERYTHING
        return self.git.status(paths) or []

    def loses(self, entries: Iterable[Entry]) -> None:
        """Those are in danger."""
        if self.top is not None:
            self.files |= {self.top.rstrip(b"/") + b"/" + entry.path for entry in entries}

    def loses_at(self, path: bytes) -> None:
        """So is what stands at a path that is relative to the caller's place."""
        if self.top is not None:
            self.files.add(_joined(self.top, self.prefix, path))

    def is_tree(self, word: bytes) -> bool:
        """Whether a word names a commit or a tree."""
        if word == b"-":
            word = b"@{-1}"
        return self.git.ask("rev-parse", "--verify", "-q", word + b"^{tree}") is not None

    def present(self, tree: bytes, entries: Iterable[Entry]) -> list[Entry]:
        """Those that a commit or tree has, too."""
        tree = b"@{-1}" if tree == b"-" else tree
        asked = [entry for entry in entries if b"\n" not in entry.path]
        names = b"".join(tree + b":" + entry.path + b"\n" for entry in asked)
        said = (
            self.git.ask("cat-file", "--batch-check=%(objecttype)", given=names) if asked else b""
        )
        lines = (said or b"").split(b"\n")
        return [e for e, line in zip(asked, lines, strict=False) if line == b"blob"]

    def setting(self, name: str) -> bool:
        """A switch of git's configuration."""
        said = self.git.ask("config", "--type=bool", "--get", name)
        return said is not None and said.strip() == b"true"

    # What several commands come down to.

    def overwrites_all(self, tree: bytes, words: Words) -> None:
        """Work tree and index become `tree`'s, whatever is in the way."""
        entries = self.dirty()
        self.loses(entry for entry in entries if entry.tracked and not entry.module)
        if new := [entry for entry in entries if not entry.tracked]:
            self.loses(self.present(tree, new))
        if words.has(b"--recurse-submodules") or self.setting("submodule.recurse"):
            self.loses(entry._replace(path=entry.path + b"/") for entry in entries if entry.module)

    def overwrites(self, words: Words, paths: list[bytes], tree: bytes | None) -> None:
        """The matching files become the index's, or those of `tree`."""
        if words.has(b"--pathspec-from-file"):
            paths = list(_EVERYTHING)
        if not paths:
            return
        entries = self.dirty(paths)
        if tree is None:
            self.loses(entry for entry in entries if entry.unstaged and not entry.module)
            return
        self.loses(self.present(tree, [entry for entry in entries if not entry.module]))

    def aborts(self) -> None:
        """As `reset --merge` does: what is in the index alone goes."""
        self.loses(
            e for e in self.dirty() if e.staged and (not e.unstaged or "U" in e.staging + e.working)
        )


def _reset(look: Look) -> None:
    words = sort(look.words)
    if words.has(b"--hard"):
        look.overwrites_all((words.plain or [b"HEAD"])[0], words)
    elif words.has(b"--merge"):
        look.aborts()


def _checkout(look: Look) -> None:
    words = sort(look.words, (b"-b", b"-B", b"--orphan", b"--conflict", b"--pathspec-from-file"))
    forced = words.has(b"-f", b"--force")
    names = list(words.plain)
    paths = words.paths
    tree: bytes | None = None
    if names and (paths is not None or look.is_tree(names[0])):
        tree = names.pop(0)
    paths = names + (paths or [])
    from_file = words.has(b"--pathspec-from-file")
    if words.has(b"-p", b"--patch") and not paths:
        paths = list(_EVERYTHING)
    if paths or from_file:
        look.overwrites(words, paths, tree)
        if words.has(b"--no-overlay") and tree is not None:
            look.loses(e for e in look.dirty(paths) if e.tracked and not e.module)
    else:
        _switched(look, words, tree or b"HEAD", forced)


def _switch(look: Look) -> None:
    words = sort(
        look.words, (b"-c", b"-C", b"--create", b"--force-create", b"--orphan", b"--conflict")
    )
    forced = words.has(b"-f", b"--force", b"--discard-changes")
    _switched(look, words, (words.plain or [b"HEAD"])[-1], forced)


def _switched(look: Look, words: Words, tree: bytes, forced: bool) -> None:
    if forced:
        look.overwrites_all(tree, words)
    elif words.has(b"-m", b"--merge"):
        look.loses(e for e in look.dirty() if e.staged)  # git says so itself of this option


def _restore(look: Look) -> None:
    words = sort(look.words, (b"-s", b"--source", b"--conflict", b"--pathspec-from-file"))
    staged, tree = words.has(b"-S", b"--staged"), words.value(b"-s", b"--source")
    if staged and not words.has(b"-W", b"--worktree"):
        return
    if tree is None and staged:
        tree = b"HEAD"
    paths = words.plain + (words.paths or [])
    if words.has(b"-p", b"--patch") and not paths:
        paths = list(_EVERYTHING)
    look.overwrites(words, paths, tree)
    if tree is not None and paths and not words.has(b"--overlay"):
        look.loses(e for e in look.dirty(paths) if e.tracked and not e.module)


def _clean(look: Look) -> None:
    words = sort(look.words, (b"-e", b"--exclude"))
    if words.has(b"-n", b"--dry-run"):
        return
    asks = words.has(b"-i", b"--interactive")
    if not words.has(b"-f", b"--force") and not asks:
        said = look.git.ask("config", "--type=bool", "--get", "clean.requireForce")
        if said is None or said.strip() != b"false":
            return  # git will not
    dry = [word for word in look.words if word not in (b"-i", b"--interactive", b"-q", b"--quiet")]
    dry = [re.sub(rb"[iq]", b"", w) if re.fullmatch(rb"-[a-df-zA-Z]+", w) else w for w in dry]
    said = look.git.ask("clean", "-n", *(word for word in dry if word != b"-"))
    for line in (said or b"").split(b"\n"):
        if line.startswith(b"Would remove "):
            look.loses_at(unquoted(line[13:]))


def _stash(look: Look) -> None:
    known = (b"-m", b"--message", b"--pathspec-from-file")
    first = look.words[0] if look.words else b"push"
    rest = look.words[1:] if look.words else ()
    if first.startswith(b"-"):
        first, rest = b"push", look.words
    words = sort(rest, known)
    if first in (b"drop", b"clear"):
        _drops(look, first, words)
    if first not in (b"push", b"save"):
        return
    paths = (words.plain if first == b"push" else []) + (words.paths or [])
    if words.has(b"--pathspec-from-file"):
        paths = list(_EVERYTHING)
    entries = [entry for entry in look.dirty(paths) if not entry.module]
    if words.has(b"-S", b"--staged"):
        look.loses(entry for entry in entries if entry.staged)
    elif words.has(b"-k", b"--keep-index"):
        look.loses(entry for entry in entries if entry.unstaged)
    else:
        look.loses(entry for entry in entries if entry.tracked)
    if words.has(b"-u", b"--include-untracked", b"-a", b"--all"):
        look.loses(entry for entry in entries if not entry.tracked)


def _drops(look: Look, how: bytes, words: Words) -> None:
    stashes = (look.git.ask("stash", "list", "--format=%H") or b"").split()
    if how == b"drop":
        name = (words.plain or [b"stash@{0}"])[0]
        name = b"stash@{%s}" % name if name.isdigit() else name
        said = look.git.ask("rev-parse", "--verify", "-q", name)
        stashes = said.split() if said else []
    look.stashes |= set(stashes)


def _rm(look: Look) -> None:
    words = sort(look.words, (b"--pathspec-from-file",))
    forced = words.has(b"-f", b"--force")  # git refuses what is changed otherwise
    if forced and not words.has(b"--cached") and not words.has(b"-n", b"--dry-run"):
        paths = words.plain + (words.paths or [])
        if words.has(b"--pathspec-from-file"):
            paths = list(_EVERYTHING)
        if paths:
            look.loses(e for e in look.dirty(paths) if e.tracked and not e.module)


def _mv(look: Look) -> None:
    words = sort(look.words)
    names = words.plain + (words.paths or [])
    if not words.has(b"-f", b"--force") or words.has(b"-n", b"--dry-run") or len(names) < 2:
        return
    target = names.pop()
    look.loses_at(target)
    for name in names:
        look.loses_at(target.rstrip(b"/") + b"/" + name.rstrip(b"/").rpartition(b"/")[2])


def _merging(*settings: str) -> Callable[[Look], None]:
    """Commands that refuse to touch changed files, unless they stash them."""

    def judge(look: Look) -> None:
        words = sort(look.words)
        if words.has(b"--abort", b"--quit", b"--continue", b"--skip", b"--edit-todo"):
            if words.has(b"--abort", b"--skip"):
                look.aborts()
            return
        stashes = words.has(b"--autostash")
        if not stashes and b"--no-autostash" not in words.options:
            stashes = any(look.setting(name) for name in settings)
        if stashes:
            look.loses(e for e in look.dirty() if e.tracked and not e.module)

    return judge


def _pull(look: Look) -> None:
    said = look.git.ask("config", "--get", "pull.rebase") or b"false"
    rebases = said.strip().lower() not in (b"false", b"no", b"off", b"0")
    given = [w for w in look.words if w == b"-r" or w.startswith((b"--rebase", b"--no-rebase"))]
    if given:
        rebases = given[-1] not in (b"--no-rebase", b"--rebase=false")
    _merging("rebase.autoStash" if rebases else "merge.autoStash")(look)


def _rebase(look: Look) -> None:
    words = sort(look.words)
    if words.has(b"--abort", b"--skip"):
        look.overwrites_all(b"HEAD", words)
    else:
        _merging("rebase.autoStash")(look)


def _worktree(look: Look) -> None:
    words = sort(look.words)
    if words.plain[:1] == [b"remove"] and words.has(b"-f", b"--force"):
        for path in words.plain[1:] + (words.paths or []):
            look.loses_at(path.rstrip(b"/") + b"/")


def _submodule(look: Look) -> None:
    words = sort(look.words)
    if words.plain[:1] != [b"deinit"] or not words.has(b"-f", b"--force"):
        return  # `update --force` runs `checkout -f` in each, which is asked about
    paths = words.plain[1:] + (words.paths or [])
    paths = list(_EVERYTHING) if words.has(b"--all") else paths
    if paths:
        look.loses(e._replace(path=e.path + b"/") for e in look.dirty(paths) if e.module)


def _checkout_index(look: Look) -> None:
    words = sort(look.words, (b"--prefix", b"--stage"))
    if words.has(b"-f", b"--force") and words.value(b"--prefix") is None:
        paths = words.plain + (words.paths or [])
        every = words.has(b"-a", b"--all", b"--stdin")
        look.overwrites(words, list(_EVERYTHING) if every else paths, None)


def _read_tree(look: Look) -> None:
    words = sort(look.words, (b"--prefix", b"--index-output"))
    if words.has(b"-u") and words.has(b"--reset"):
        look.overwrites_all((words.plain or [b"HEAD"])[-1], words)


COMMANDS: dict[bytes, Callable[[Look], None]] = {
    b"reset": _reset,
    b"checkout": _checkout,
    b"switch": _switch,
    b"restore": _restore,
    b"clean": _clean,
    b"stash": _stash,
    b"rm": _rm,
    b"mv": _mv,
    b"merge": _merging("merge.autoStash"),
    b"pull": _pull,
    b"rebase": _rebase,
    b"am": _merging(),
    b"cherry-pick": _merging(),
    b"revert": _merging(),
    b"worktree": _worktree,
    b"submodule": _submodule,
    b"checkout-index": _checkout_index,
    b"read-tree": _read_tree,
}


def endangered(git: Git, name: bytes, words: tuple[bytes, ...], *, cut: bool = False) -> Danger:
    """What the command would throw away of what is uncommitted now, whosever
    it is. Nothing where git has no work tree there."""
    judge = COMMANDS.get(name)
    if judge is None:
        return Danger()
    look = Look(git, words, cut)
    if look.top is None:
        return Danger()
    judge(look)
    return Danger(frozenset(look.files), frozenset(look.stashes))


def unquoted(name: bytes) -> bytes:
    """A path that git printed in quotes, as it is."""
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name
    return _ESCAPE.sub(_plain, name[1:-1])


def _plain(found: re.Match[bytes]) -> bytes:
    letter = found[1]
    if len(letter) == 3:
        return bytes([int(letter, 8)])
    return _ESCAPED.get(letter, letter)


def _joined(top: bytes, prefix: bytes, path: bytes) -> bytes:
    """An absolute path, cleaned by its names; a slash at the end stays."""
    parts: list[bytes] = []
    whole = path if path.startswith(b"/") else top + b"/" + prefix + path
    for part in whole.split(b"/"):
        if part == b"..":
            parts[-1:] = []
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/" + b"/".join(parts) + (b"/" if path.endswith(b"/") else b"")
