"""`allow`: what a person does about a refusal."""

from __future__ import annotations

import os
from pathlib import Path

import click

from noclobber import service
from noclobber.cli.common import printable, told


@click.command()
@click.argument("file", type=click.Path())
@click.option("--reason", required=True, metavar="TEXT", help="Why; it stands in the receipt.")
def allow(file: str, reason: str) -> None:
    """Let one replacement of FILE through, within the hour.

    For people: refused from within a session. What was there is kept."""
    path = Path(os.path.realpath(file))
    with told():
        service.ask({"do": "allow", "path": str(path), "reason": reason})
    click.echo(f"The next replacement of {printable(str(path))} passes; its content is kept.")
