"""`show`: what a session knows of a file, as ranges and as a picture."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from noclobber import coverage, report, service
from noclobber.cli.common import Failed, console, printable, told
from noclobber.coverage import Coverage
from noclobber.facts import TEXT_PROBE

WIDTH = 72  # cells of the picture at most

# What a byte is, the strongest knowledge first: name, mark, colour.
LAYERS = (
    ("authored", "#", "green"),
    ("shown", "=", "cyan"),
    ("read", "-", "yellow"),
    ("unseen", ".", "red"),
)
_TITLES = {
    "authored": "written by the session",
    "shown": "shown to the agent",
    "read": "read by programs only",
    "unseen": "unseen",
}


@click.command()
@click.argument("file", type=click.Path())
@click.option("--session", metavar="S", help="The session (default: the one last heard of).")
@click.option("--json", "as_json", is_flag=True, help="The ranges as JSON.")
def show(file: str, session: str | None, as_json: bool) -> None:
    """Show what a session knows of FILE's present bytes."""
    path = Path(os.path.realpath(file))
    with told():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            asked = {"do": "show", "path": str(path)}
            asked |= {"session": session or os.environ.get("NOCLOBBER_SESSION", "")}
            found = service.ask(asked, [fd])
            content = path.read_bytes()
        finally:
            os.close(fd)
    if as_json:
        click.echo(json.dumps(found))
        return
    if found["size"] != len(content):
        raise Failed(f"{printable(str(path))} is changing; try again")
    _print(str(path), content, found)


def layers(found: dict[str, Any]) -> dict[str, Coverage]:
    """Each byte in one layer only: the strongest that knows it."""
    size = int(found["size"])
    left = coverage.whole(size)
    made: dict[str, Coverage] = {}
    for name, _, _ in LAYERS[:-1]:
        ranges = coverage.normal((a, b) for a, b in found.get(name, []))
        made[name] = coverage.intersect(left, ranges)
        left = coverage.subtract(left, ranges)
    return made | {"unseen": left}


def strip(size: int, parts: dict[str, Coverage], width: int) -> list[str]:
    """One layer's name for each cell of the picture: the weakest knowledge in
    the cell, for that is what a replacement would lose."""
    cells = []
    width = min(width, size)
    for cell in range(width):
        start, end = cell * size // width, (cell + 1) * size // width
        for name, _, _ in reversed(LAYERS):
            if coverage.clip(parts[name], start, end):
                cells.append(name)
                break
    return cells


def _print(path: str, content: bytes, found: dict[str, Any]) -> None:
    out = console()
    size = len(content)
    text = content if b"\0" not in content[:TEXT_PROBE] else None
    lines = report.extent(text, size, ()).total_lines
    held = f"{size} bytes" + (f", {lines} lines" if lines else "")
    out.print(f"{printable(path)}: {held}; session {found['session']}, grade {found['grade']}"
              .replace("[", "\\["))  # fmt: skip
    if not size:
        return
    parts = layers(found)
    marks = {name: (mark, colour) for name, mark, colour in LAYERS}
    cells = strip(size, parts, min(WIDTH, out.width - 2))
    out.print("|" + "".join(f"[{marks[c][1]}]{marks[c][0]}[/]" for c in cells) + "|")
    for name, mark, colour in LAYERS:
        if parts[name]:
            bytes_known = coverage.size(parts[name])
            out.print(f"[{colour}]{mark}[/] {_TITLES[name]}: {bytes_known} bytes"
                      f"{_ranges(text, size, parts[name])}")  # fmt: skip


def _ranges(text: bytes | None, size: int, part: Coverage) -> str:
    """The lines (else bytes) of a layer, the first few."""
    found = report.extent(text, size, coverage.gaps(part, 0, size)).unseen
    words = [
        f"{one.first_line}-{one.last_line}" if text is not None else f"{one.start}-{one.end}"
        for one in found[:8]
    ]
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    return f", {'lines' if text is not None else 'bytes'} {', '.join(words)}{more}"
