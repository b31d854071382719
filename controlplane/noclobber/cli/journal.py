"""`log` and `explain`: what was decided, from the receipts alone. Neither
needs a daemon."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from noclobber import places, receipts
from noclobber.cli.common import Failed, all_receipts, console, printable, told

POLL = 0.2  # s between two looks at a file that is followed

_BY_MAX = 60  # characters of a command line

_COLOURS = {"deny": "bold red", "snapshot": "yellow", "allow": "green"}


def _wanted(found: dict[str, Any], session: str | None, verdict: str | None) -> bool:
    return (session is None or found.get("session") == session) and (
        verdict is None or found.get("verdict") == verdict
    )


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--follow", "-f", is_flag=True, help="Go on as receipts are written.")
@click.option("--session", metavar="S", help="Those of one session only.")
@click.option(
    "--verdict", type=click.Choice(["deny", "snapshot", "allow"]), help="Those with one verdict."
)
@click.option("--verify", is_flag=True, help="Check the chain of their hashes instead.")
def log(
    as_json: bool, follow: bool, session: str | None, verdict: str | None, verify: bool
) -> None:
    """Show the receipts, oldest first: every verdict that was no plain allow.

    --verify says whether one was changed, put in or taken out, and which line
    is the first that is wrong: exit status 1. Lines that were cut off the end
    cannot be missed; the hash that it prints tells if you keep it elsewhere.

    Bytes of a path that are no UTF-8 stand in the JSON as lone surrogates
    (\\udc80 to \\udcff), as Python's os.fsdecode makes them."""
    if verify:
        if follow or session or verdict:
            raise click.UsageError("--verify looks at all receipts that there are")
        _verify(as_json)
        return
    source = _followed() if follow else all_receipts()
    wanted = (found for found in source if _wanted(found, session, verdict))
    if as_json:
        for found in wanted:
            click.echo(json.dumps(found))
        return
    out, number = console(), 0
    for number, found in enumerate(wanted, 1):  # noqa: B007 (counted)
        out.print(_line(found))
    if not number:
        click.echo("No receipts: nothing was refused, and nothing had to be kept.")


def _verify(as_json: bool) -> None:
    path = places.state_directory() / "receipts.jsonl"
    with told():
        found = receipts.verify(path)
    if as_json:
        click.echo(json.dumps({"whole": not found.line, **asdict(found)}))
        sys.exit(1 if found.line else 0)
    if found.line:
        raise Failed(
            f"{printable(str(path))}: line {found.line} breaks the chain: {found.why}; "
            f"the {found.links} receipts before it are whole"
        )
    click.echo(f"{found.links} receipts, whole; the last one's hash: {found.head or 'none'}")
    if found.cut_off:
        lines = ", ".join(map(str, found.cut_off))
        click.echo(f"Cut off by a crash, and vouched for by the receipt after it: line {lines}")


def _line(found: dict[str, Any]) -> str:
    """One receipt for people: when, what, how much of it was known, by whom."""
    verdict = str(found.get("verdict", "?"))
    unit = "lines" if found.get("total_lines") else "bytes"
    seen, total = found.get(f"seen_{unit}"), found.get(f"total_{unit}")
    argv = found.get("argv") or [found.get("exe", "?")]
    by = " ".join(printable(str(word)) for word in argv)
    if len(by) > _BY_MAX:
        by = by[: _BY_MAX - 3] + "..."
    return (
        f"[dim]{str(found.get('time', '?'))[:19].replace('T', ' ')}[/]  "
        f"[{_COLOURS.get(verdict, 'bold')}]{verdict:<8}[/]  "
        f"{found.get('op', '?'):<8}  {_plain(printable(str(found.get('path', '?'))))}  "
        f"{seen} of {total} {unit} {found.get('grade', '')}  "
        f"[dim]row {found.get('row', '?')}, by {_plain(by)}[/]"
    )


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def _followed() -> Iterator[dict[str, Any]]:
    path = places.state_directory() / "receipts.jsonl"
    with told():
        while not path.exists():
            time.sleep(POLL)
        number, rest = 0, b""
        with path.open("rb") as file:
            while True:
                rest += file.read()
                *lines, rest = rest.split(b"\n")
                for line in filter(None, lines):
                    number += 1
                    try:
                        yield receipts.parse(path, number, line)
                    except receipts.DamagedReceiptError as damage:
                        click.echo(f"noclobber: {damage}", err=True)
                if not lines:
                    time.sleep(POLL)


@click.command()
@click.argument("receipt", required=False)
@click.option("--json", "as_json", is_flag=True, help="The receipt as JSON.")
def explain(receipt: str | None, as_json: bool) -> None:
    """Explain a verdict (default: the last one): who wrote, what stood behind
    it, and the row of the rule that decided. RECEIPT is an id, or a path."""
    found = None
    name = os.path.realpath(receipt) if receipt else None
    for each in all_receipts():
        if receipt is None or each.get("id") == receipt or each.get("path") in (receipt, name):
            found = each
    if found is None:
        what = f"no receipt {receipt}" if receipt else "no receipts yet"
        raise Failed(f"{what}; noclobber log shows those that there are")
    if as_json:
        click.echo(json.dumps(found))
        return
    _explained(found)


def _explained(found: dict[str, Any]) -> None:
    out = console()
    verdict = str(found["verdict"])
    out.print(
        f"[{_COLOURS.get(verdict, 'bold')}]{verdict}[/], row {found['row']} of the rule, "
        f"{found['time']}, receipt {found.get('id', '?')}"
    )
    out.print(_plain(str(found["reason"]).rstrip()))
    out.print(f"\n[dim]asked[/]    {found['op']} of {_plain(printable(str(found['path'])))}")
    out.print(f"[dim]session[/]  {_plain(str(found['session']))}, grade {found['grade']}")
    if found.get("snapshot"):
        kept = places.state_directory() / "snapshots" / str(found["snapshot"])
        out.print(f"[dim]kept[/]     {_plain(str(kept))}")
    details: dict[str, Any] = found.get("explain") or {}
    out.print(f"\nThe walk: {found.get('kind', 'unknown')}")
    for step in details.get("walk", []):
        out.print(_plain(f"  {step['pid']:>8} {step['name']}: {step['kind']}, {step['why']}"))
    out.print("\nThe lineage: whose reading stands behind the writer")
    for image in details.get("lineage", []):
        words = " ".join(printable(str(word)) for word in image["argv"])
        out.print(_plain(f"  {image['pid']:>8} {words}"))
    read = ", ".join(f"{start}-{end}" for start, end in details.get("lineage_read", []))
    out.print(f"  of the present bytes it read or wrote: {read or 'none'}")
