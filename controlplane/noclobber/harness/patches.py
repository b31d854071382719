"""Patches as apply_patch takes them: files added, changed, moved, deleted.

Whole lines are searched for, from where the last change was made on, below a
line that a `@@` names where one does.
"""

from __future__ import annotations

from typing import NamedTuple

from noclobber.harness.events import Change

BEGIN = "*** Begin Patch"
_ADD, _UPDATE, _DELETE = "*** Add File: ", "*** Update File: ", "*** Delete File: "
_MOVE = "*** Move to: "


class Patched(NamedTuple):
    """One file of a patch: `added` is its whole text, None where it has none."""

    path: str
    added: str | None = None
    changes: tuple[Change, ...] = ()
    moved: str = ""
    deleted: bool = False


def parse(text: str) -> list[Patched]:
    """The files of a patch, in order. What is no part of one is passed over."""
    found: list[Patched] = []
    lines = text.partition(BEGIN)[2].split("\n")[1:]
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        end = at
        while end < len(lines) and not lines[end].startswith(
            (_ADD, _UPDATE, _DELETE, "*** End Patch")
        ):
            end += 1
        body = lines[at:end]
        if line.startswith(_ADD):
            added = [each[1:] + "\n" for each in body if each.startswith("+")]
            found.append(Patched(line.removeprefix(_ADD).strip(), added="".join(added)))
        elif line.startswith(_DELETE):
            found.append(Patched(line.removeprefix(_DELETE).strip(), deleted=True))
        elif line.startswith(_UPDATE):
            moved = next((each for each in body if each.startswith(_MOVE)), "")
            found.append(
                Patched(
                    line.removeprefix(_UPDATE).strip(),
                    changes=tuple(_changes(body)),
                    moved=moved.removeprefix(_MOVE).strip(),
                )
            )
        else:
            continue
        at = end
    return found


def _changes(body: list[str]) -> list[Change]:
    made: list[Change] = []
    under, old, new = "", "", ""
    for line in [*body, "@@"]:
        if line.startswith("@@"):
            if old or new:
                made.append(Change(old, new, lines=True, under=under))
            under, old, new = line.removeprefix("@@").strip(), "", ""
        elif not line.startswith("***"):
            kind, rest = line[:1], line[1:] + "\n"
            old += rest if kind != "+" else ""
            new += rest if kind != "-" else ""
    return made
