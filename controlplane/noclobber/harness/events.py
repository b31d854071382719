"""What the events of all harnesses come to, and how their fields are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from noclobber.config import Shown

Json = dict[str, Any]

PATH_MOST = 4096  # of a longer one there is no file


class Change(NamedTuple):
    """One text that takes another's place in a file, or `every` one of its
    places. Of `lines` the next place counts, below the line `under`."""

    old: str
    new: str
    every: bool = False
    lines: bool = False
    under: str = ""


class Asks(NamedTuple):
    """A text of the agent's own is to be put in that file's place."""

    path: str


class Edits(NamedTuple):
    """A file is to be changed in place. `every` is how the tool is told to
    change all places, empty where it cannot be."""

    path: str
    changes: tuple[Change, ...]
    every: str = ""


class Deletes(NamedTuple):
    """A file is to be deleted."""

    path: str


class Page(NamedTuple):
    """The agent was shown lines of a file, from the line `first` on."""

    path: str
    text: str
    first: int


class Printed(NamedTuple):
    """The agent was shown these unbroken pieces of text."""

    pieces: tuple[str, ...]
    command: bool = False  # of what a shell command printed


class Wrote(NamedTuple):
    """That text was put in the file's place."""

    path: str
    text: str


class Edited(NamedTuple):
    """These changes were made."""

    path: str
    changes: tuple[Change, ...]


class Compacted(NamedTuple):
    """What the agent was shown is no longer before it."""


class Left(NamedTuple):
    """A sub-agent is done."""


class Began(NamedTuple):
    """A session begins, or goes on."""


Act = Asks | Edits | Deletes | Page | Printed | Wrote | Edited | Compacted | Left | Began


class Heard(NamedTuple):
    """What an event says. `session` and `agent` (a sub-agent's id) may be
    empty; `roots` are the directories that the harness works in."""

    event: str
    session: str
    agent: str
    roots: tuple[str, ...]
    tool: str
    acts: tuple[Act, ...]


class Answer(NamedTuple):
    """What the hook prints, and its exit status."""

    out: str = ""
    error: str = ""
    status: int = 0


class Adapter(NamedTuple):
    """One harness."""

    hear: Callable[[Json], Heard]
    quiet: Answer  # there is nothing to object to
    refuse: Callable[[Heard, str], Answer]
    trouble: Callable[[str], Answer]  # the person learns of it, the tool runs
    takes_variables: bool = False  # for the shells that it will start


def text_of(found: Json, *names: str) -> str:
    """The first of these fields that is a text, else empty."""
    for name in names:
        value = found.get(name)
        if isinstance(value, str):
            return value
    return ""


def number_of(found: Json, *names: str) -> int | None:
    """The first of these fields that is a whole number."""
    for name in names:
        value = found.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def object_of(found: Json, name: str) -> Json:
    """A field that is an object, else an empty one."""
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def list_of(found: Json, name: str) -> list[Any]:
    """A field that is a list, else an empty one."""
    value = found.get(name)
    return value if isinstance(value, list) else []


def path_in(event: Json, found: Json, *names: str) -> str:
    """The file that a field names, absolute; empty where it names none."""
    path = text_of(found, *names)
    if not path or "\0" in path or len(path) > PATH_MOST:
        return ""
    joined = Path(text_of(event, "cwd"), path)
    return str(joined) if joined.is_absolute() else ""


def roots_of(event: Json) -> tuple[str, ...]:
    """Where the harness works."""
    cwd = text_of(event, "cwd")
    return (cwd,) if Path(cwd).is_absolute() else ()


def changes_of(found: Json, every: str) -> tuple[Change, ...]:
    """A text replaced by another, in the fields of most edit tools."""
    old, new = text_of(found, "old_string"), text_of(found, "new_string")
    return (Change(old, new, found.get(every) is True),) if old or new else ()


def cut(text: str, limits: Shown, *, failed: bool = False, short: bool = False) -> tuple[str, ...]:
    """The pieces of a command's output that reach the agent, in characters; of
    one that is `short`ened never all."""
    head, tail = limits.ends if short else limits.parts(len(text), failed)
    if head + tail >= len(text):
        return (text,) if text else ()
    return tuple(filter(None, (text[:head], text[len(text) - tail :])))
