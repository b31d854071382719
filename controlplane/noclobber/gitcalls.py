"""One git command, before it starts: what was asked, and what git says of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from noclobber import gitargs, gitreads, wire
from noclobber.dirty import Git
from noclobber.endangered import Danger, endangered
from noclobber.gitargs import Invocation
from noclobber.ledger import Image
from noclobber.session import Session, Speaker

ALIASES = 10  # in a row, of which each names the next

# Of the asking process's environment, what says where git works and how.
_VARIABLES = frozenset(
    b"""HOME XDG_CONFIG_HOME GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_NAMESPACE
    GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CEILING_DIRECTORIES
    GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS
    GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS GIT_ATTR_SOURCE""".split()
)


@dataclass(frozen=True)
class Start:
    """Git, about to start: who asks, and what for."""

    speaker: Speaker
    session: Session
    image: Image
    ident: int
    program: bytes
    argv: tuple[bytes, ...]
    call: Invocation
    git: Git
    read_only: bool
    cut: bool


@dataclass(frozen=True)
class Found:
    """What git says of it: the command behind aliases (None: what runs is asked
    about on its own), the work tree and store that it works on, and what it
    would throw away."""

    call: Invocation | None
    places: tuple[bytes, ...] = ()
    danger: Danger = field(default_factory=Danger)


def is_git(image: Image) -> bool:
    """Whether the program of an image is git, under whatever name."""
    name = image.exe.rpartition(b"/")[2]
    if name != b"git" and not name.startswith(b"git-"):
        try:
            exe = os.readlink(f"/proc/{image.pid}/exe")  # noqa: PTH115
        except OSError:
            return False
        name = os.fsencode(exe).rpartition(b"/")[2]
    return name == b"git" or name.startswith(b"git-")


def look(start: Start) -> Found:
    """What git itself says of a command. In a thread of its own."""
    git, call = start.git, start.call
    for _ in range(ALIASES):
        if call.name in gitreads.KNOWN:
            break
        said = git.ask("config", "--get", b"alias." + call.name)
        if said is None:
            return Found(None)  # a program git-NAME
        text = said.rstrip(b"\n")
        words = None if text.startswith(b"!") else gitargs.split_alias(text)
        if not words:
            return Found(None)
        inner = gitargs.take_apart([*words, *call.words])
        call = replace(inner, options=call.options + inner.options)
        git = replace(git, options=call.options)
    danger = endangered(git, call.name, call.words, cut=start.cut)
    places = (
        git.ask("rev-parse", "--show-toplevel"),
        git.ask("rev-parse", "--absolute-git-dir"),
    )
    return Found(call, tuple(place[:-1] for place in places if place), danger)


def is_change(call: Invocation) -> bool:
    known = call.name in gitreads.KNOWN and call.name not in gitreads.ELSEWHERE
    return known and not gitreads.is_look(call.name, call.words)


def variables(environ: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(word).partition("=") for word in wire.words(environ))
    return {
        name: value
        for name, _, value in pairs
        if os.fsencode(name) in _VARIABLES or name.startswith("GIT_CONFIG")
    }


def path_of(fd: int) -> bytes:
    return os.fsencode(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115
