"""`allow`: what a person does about a refusal."""

from __future__ import annotations

import json
import os
import re
import stat as modes
import time
from typing import Any

import click

from noclobber import service
from noclobber.cli.common import Failed, printable, told
from noclobber.restore import canonical

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"(?:\d+[smhd])+")
LONGEST = 7 * _SECONDS["d"]  # the daemon's own limit


def _span(_: click.Context, option: click.Parameter, value: str) -> int:
    """Seconds of "90s", "10m", "1h30m", "2d"."""
    parts = re.findall(r"(\d+)([smhd])", value) if _SPAN.fullmatch(value) else []
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < seconds <= LONGEST:
        raise click.BadParameter(
            f"{value!r} is none from 1s to 7d; write 10m or 1h30m", None, option
        )
    return seconds


@click.command()
@click.argument("file", required=False, type=click.Path())
@click.option("--reason", metavar="TEXT", help="Why; it stands in the receipt.")
@click.option(
    "--for",
    "lasts",
    default="1h",
    show_default=True,
    metavar="TIME",
    callback=_span,
    help="How long it stands: 90s, 10m, 1h30m, 2d.",
)
@click.option("--list", "lists", is_flag=True, help="List what stands; allow nothing.")
@click.option("--json", "as_json", is_flag=True, help="List, one JSON object a line.")
@click.option("--revoke", is_flag=True, help="Take it back for FILE.")
def allow(
    file: str | None, reason: str | None, lasts: int, lists: bool, as_json: bool, revoke: bool
) -> None:
    """Let one replacement of FILE through, whoever in whichever session it is.

    For people: refused from within a session. What the file holds is kept
    first, and a receipt says who allowed it and why. It is used up by the
    first replacement that only it lets through.

    Files that may always be replaced are named in the configuration:

    \b
    [[allow]]
    paths = ["testdata/*.golden"]
    reason = "made anew by the tests"
    """  # fmt: skip
    lists = lists or as_json
    if lists == bool(file) or (revoke and (lists or reason)):
        raise click.UsageError("give FILE and --reason, or FILE and --revoke, or --list")
    if lists:
        _list(as_json)
    elif revoke:
        with told():
            service.ask({"do": "revoke", "path": canonical(str(file))})
        click.echo(f"Replacements of {printable(str(file))} are judged as ever.")
    elif reason is None or not reason.strip():
        raise click.UsageError("--reason is needed: it stands in the receipt")
    else:
        path = _fit(str(file))
        with told():
            found = service.ask({"do": "allow", "path": path, "reason": reason, "for": lasts})
        click.echo(
            f"One replacement of {printable(path)} passes until {_clock(found['until'])}; "
            "what it holds is kept."
        )


def _fit(file: str) -> str:
    """The file's canonical path. Raises Failed where an override for it would
    allow nothing."""
    name = printable(file)
    with told():
        try:
            mode = os.lstat(file).st_mode
        except FileNotFoundError:
            raise Failed(f"{name} is not there: a new file needs no permission") from None
    if modes.S_ISLNK(mode):
        target = os.path.realpath(file)
        raise Failed(
            f"{name} is a symbolic link; what is written through it replaces "
            f"{printable(target)}: allow that one"
        )
    if modes.S_ISDIR(mode):
        raise Failed(
            f"{name} is a directory; allow its files one by one, or name them in the "
            "configuration (see noclobber allow --help)"
        )
    if not modes.S_ISREG(mode):
        raise Failed(f"{name} is no regular file: nobody is refused to write to it")
    return canonical(file)


def _list(as_json: bool) -> None:
    with told():
        standing: list[dict[str, Any]] = service.ask({"do": "overrides"})["overrides"]
    for each in standing:
        if as_json:
            click.echo(json.dumps(each))
        else:
            click.echo(
                f"{printable(each['path'])}  until {_clock(each['until'])}, "
                f"by {each['by']}: {printable(each['reason'])}"
            )
    if not standing and not as_json:
        click.echo("No override stands.")


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
