"""`doctor`: what of the guard works on this machine, and what covers a program."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.markup import escape

from noclobber import programs
from noclobber.cli.common import console, printable
from noclobber.cli.mechanisms import Finding, examine

_KINDS = {
    "glibc": "dynamic, of glibc",
    "musl": "dynamic, of musl",
    "foreign loader": "loaded by neither glibc nor musl",
    "static": "static: it has no loader that would take the preload",
    "Go": "made by Go, which makes system calls itself",
    "Bun": "made by Bun, which makes system calls itself",
    "another machine": "built for another machine, or for 32 bits",
    "set-ID": "set-ID: it becomes another user or group, and its loader takes no preload",
    "capabilities": "it has file capabilities, and its loader takes no preload",
    "unreadable": "may be executed and not be read: what it is, is not known",
    "unknown": "no program that is known here",
}
# What no look at a file can tell (Zig and rustix make such programs).
_UNMARKED = Finding(
    "dynamic programs",
    None,
    "what one does past its C library is seen by the supervisor alone, and nothing marks those "
    'that do: supervisor = "always" covers them',
)


@dataclass(frozen=True)
class Covered:
    """A program that was asked about. `by`: preload, supervisor, or none."""

    name: str
    way: list[str]
    kind: str
    by: str
    good: bool
    detail: str


@click.command()
@click.argument("program", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def doctor(program: tuple[str, ...], as_json: bool) -> None:
    """Look at what of the guard works here, and what covers PROGRAM (a name
    on PATH, or a path). Exit status 1 where protection is partial."""
    findings = [*examine(), _UNMARKED]
    works = {finding.name: finding.good is True for finding in findings}
    covered = [cover(name, works) for name in program]
    good = all(found.good is not False for found in findings) and all(c.good for c in covered)
    if as_json:
        report = {
            "whole": good,
            "findings": [asdict(found) for found in findings],
            "programs": [asdict(found) for found in covered],
        }
        click.echo(json.dumps(report))
    else:
        _print(findings, covered)
    sys.exit(0 if good else 1)


def _print(findings: list[Finding], covered: list[Covered]) -> None:
    out = console()
    marks = {True: "[green]ok[/]     ", False: "[bold red]missing[/]", None: "[dim]note[/]   "}
    for found in findings:
        out.print(f"{marks[found.good]} {found.name}: {escape(found.detail)}")
    for each in covered:
        way = " > ".join(printable(path) for path in each.way)
        out.print(f"{marks[each.good]} {escape(f'{printable(each.name)}: {way}: {each.detail}')}")


def cover(name: str, works: dict[str, bool]) -> Covered:
    """What covers the program of that name, where these mechanisms work."""
    steps = programs.way(name)
    last = steps[-1]
    way = [step.path for step in steps]
    trouble = _cannot_start(last)
    if trouble:
        return Covered(name, way, last.reason, "none", False, trouble)
    kind = _KINDS.get(last.reason, last.reason)
    if last.reason in ("unreadable", "unknown"):
        is_good = last.reason == "unknown" and _is_text(last.path)
        what = "a shell reads it as a script" if is_good else kind
        good = is_good and works["preload"]
        return Covered(name, way, last.reason, "preload", good, f"by the preload: {what}")
    if last.cover == "none":
        detail = f"by nothing: {kind}; what it replaces is not judged, nor kept"
        return Covered(name, way, last.reason, "none", False, detail)
    preload = {"preload": "preload", "other": "preload for musl"}.get(last.cover)
    if preload and works[preload]:
        return Covered(name, way, last.reason, "preload", True, f"by the preload: {kind}")
    needed = ("seccomp user notification", "supervisor")
    lacking = [need for need in needed if not works[need]]
    if not lacking:
        return Covered(name, way, last.reason, "supervisor", True, f"by the supervisor: {kind}")
    detail = f"by nothing: {kind}; the supervisor would, but see {' and '.join(lacking)} above"
    return Covered(name, way, last.reason, "none", False, detail)


def _cannot_start(step: programs.Step) -> str | None:
    if step.reason == "missing":
        is_there = "/" in step.path and os.path.lexists(step.path)
        return "cannot be looked at" if is_there else "is not there, nor on PATH"
    if step.reason == "no file":
        return "is no file that can be executed"
    if step.reason == "script":
        return "scripts lead to scripts without end, or to nothing"
    if not os.access(step.path, os.X_OK):
        return "may not be executed"
    return None


def _is_text(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return b"\0" not in head and not head.startswith(b"\x7fELF")
