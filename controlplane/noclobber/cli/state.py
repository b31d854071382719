"""`status` and `daemon`: what runs."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click
from rich.table import Table

from noclobber import service
from noclobber.cli.common import console, printable, printable_size, told
from noclobber.cli.starter import start as start_daemon


@click.command()
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON.")
def status(as_json: bool) -> None:
    """Show the daemon, the sessions, and the grade of evidence in force.

    Exit status 3 where no daemon runs."""
    with told():
        found = service.ask({"do": "status"})
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    out = console()
    out.print(f"daemon {found['version']}, process {found['pid']}, up {_span(found['up'])}")
    given = ", ".join(f"{count} {name}" for name, count in found["answers"].items())
    out.print(f"answers since then: {given}")
    out.print(_store(found["snapshots"]))
    for trouble in found["troubles"]:
        out.print("[bold red]![/] " + trouble.replace("[", "\\["))
    if not found["sessions"]:
        out.print("no session yet; begin one: noclobber run -- AGENT")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in (
        "session",
        "grade",
        "tier",
        "dirty",
        "commands",
        "processes",
        "last heard of",
        "roots",
    ):
        table.add_column(title, no_wrap=title != "roots", overflow="fold")
    for each in sorted(found["sessions"], key=lambda one: -int(one["last"])):
        ago = time.time() - each["last"] / 1e9
        table.add_row(
            str(each["session"]).replace("[", "\\["),
            each["grade"],
            each["tier"],
            f"{each['dirty']} of the host's" if each["dirty"] else "",
            str(each["commands"]),
            str(each["processes"]),
            f"{_span(ago)} ago",
            " ".join(printable(root) for root in each["roots"]).replace("[", "\\["),
        )
    out.print(table)


def _store(kept: dict[str, Any]) -> str:
    """The store of old content against its budget."""
    over = "; all that is more than that is of running sessions"
    return (
        f"snapshots: {printable_size(kept['size'])} in {kept['files']} files, "
        f"of {printable_size(kept['limit'])} and {kept['days']} days that are kept"
        f"{over if kept['size'] > kept['limit'] else ''}"
    )


def _span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


@click.group()
def daemon() -> None:
    """Start, stop or look at the daemon. The launcher starts it when needed."""


@daemon.command()
def start() -> None:
    """Start the daemon; return when it accepts. None is started where one runs."""
    sys.exit(start_daemon())


@daemon.command()
def stop() -> None:
    """Stop the daemon; return when it is gone. Sessions go on with the next."""
    with told():
        if not service.stop():
            click.echo("No daemon runs.", err=True)


@daemon.command("status")
def daemon_status() -> None:
    """Say whether a daemon runs: exit status 0, or 3."""
    with told():
        found = service.ask({"do": "status"})
    click.echo(f"process {found['pid']}, up {_span(found['up'])}, state in {found['state']}")
