"""A git command line, taken apart as git does it.

Pure: words in, words out. What git would do with them is endangered.py's.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

# Git's own options that take the next word.
_TAKE_A_WORD = frozenset(
    (b"-C", b"-c", b"--git-dir", b"--work-tree", b"--namespace", b"--super-prefix",
     b"--config-env", b"--attr-source", b"--exec-path")
)  # fmt: skip
# Those that end in a text of git's own, whatever follows.
_TELL = frozenset(
    (b"--version", b"-v", b"--help", b"-h", b"--html-path", b"--man-path", b"--info-path")
)


@dataclass(frozen=True)
class Invocation:
    """`options` are git's own, with their values; `name` is the subcommand,
    empty where there is none; `words` is what follows it."""

    options: tuple[bytes, ...]
    name: bytes
    words: tuple[bytes, ...]


def parse(program: bytes, argv: Sequence[bytes]) -> Invocation:
    """What git is called for. A program `git-NAME` is git's NAME."""
    called = (argv[0] if argv else program).rpartition(b"/")[2]
    name = program.rpartition(b"/")[2]
    for word in (called, name):
        if word.startswith(b"git-") and len(word) > 4:
            return Invocation((), word[4:], tuple(argv[1:]))
    return take_apart(argv[1:])


def take_apart(words: Sequence[bytes]) -> Invocation:
    """The same of what follows the word `git`."""
    at = 0
    while at < len(words) and words[at].startswith(b"-"):
        word = words[at]
        if word in _TELL:
            return Invocation(tuple(words[:at]), b"help", ())
        if word == b"--exec-path" and (at + 1 == len(words) or words[at + 1].startswith(b"-")):
            return Invocation(tuple(words[:at]), b"help", ())
        at += 2 if word in _TAKE_A_WORD and word != b"--exec-path" else 1
    if at >= len(words):
        return Invocation(tuple(words), b"", ())
    return Invocation(tuple(words[:at]), words[at], tuple(words[at + 1 :]))


def split_alias(text: bytes) -> list[bytes] | None:
    """The words of an alias; None where they have no end."""
    try:
        return [word.encode("utf-8", "surrogateescape")
                for word in shlex.split(text.decode("utf-8", "surrogateescape"))]  # fmt: skip
    except ValueError:
        return None


@dataclass
class Words:
    """A subcommand's words: `options` by name (`-f`, `--force`), `values` of
    those that have one, `plain` words, and `paths`, what follows `--` (None
    where there is no `--`)."""

    options: list[bytes] = field(default_factory=list)
    values: dict[bytes, bytes] = field(default_factory=dict)
    plain: list[bytes] = field(default_factory=list)
    paths: list[bytes] | None = None

    def has(self, *names: bytes) -> bool:
        """Whether any of these options was given last of itself and its `no-`
        form; a long one may be cut short, as git takes it."""
        found = False
        for option in self.options:
            for name in names:
                if option == name:
                    found = True
                elif name.startswith(b"--"):
                    if len(option) > 2 and name.startswith(option):
                        found = True
                    elif option == b"--no-" + name[2:]:
                        found = False
        return found

    def value(self, *names: bytes) -> bytes | None:
        """The value of the first of these options that has one."""
        for option, value in self.values.items():
            for name in names:
                short = name.startswith(b"--") and len(option) > 2 and name.startswith(option)
                if option == name or short:
                    return value
        return None


def sort(words: Sequence[bytes], valued: Collection[bytes] = ()) -> Words:
    """Options apart from the rest. `valued` are the options that take a value,
    short (`-s`) or long (`--source`)."""
    found = Words()
    at = 0
    shorts = {name[1:2] for name in valued if not name.startswith(b"--")}
    while at < len(words):
        word = words[at]
        at += 1
        if word == b"--":
            found.paths = list(words[at:])
            break
        if not word.startswith(b"-") or word == b"-":
            found.plain.append(word)
        elif word.startswith(b"--"):
            name, has_value, value = word.partition(b"=")
            found.options.append(name)
            if has_value:
                found.values[name] = value
            elif any(each.startswith(name) for each in valued) and at < len(words):
                found.values[name] = words[at]
                at += 1
        else:
            for place in range(1, len(word)):
                letter = word[place : place + 1]
                found.options.append(b"-" + letter)
                if letter in shorts:
                    if place + 1 < len(word):
                        found.values[b"-" + letter] = word[place + 1 :]
                    elif at < len(words):
                        found.values[b"-" + letter] = words[at]
                        at += 1
                    break
    return found
