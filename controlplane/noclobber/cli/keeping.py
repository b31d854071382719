"""`allow` and `restore`: what a person does about a verdict."""

from __future__ import annotations

import os
from pathlib import Path

import click

from noclobber import places, restoring, service
from noclobber.cli.common import Failed, all_receipts, printable, told


def _here(file: str) -> Path:
    """The file by its true directory; it need not be there, nor be no link."""
    return Path(os.path.realpath(Path(file).parent)) / Path(file).name


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


@click.command()
@click.argument("file", type=click.Path())
@click.option("--receipt", metavar="ID", help="The content of one receipt (default: the last).")
def restore(file: str, receipt: str | None) -> None:
    """Bring back what FILE held before it was last replaced or deleted.

    What it holds now is kept first."""
    path = _here(file)
    found = restoring.latest(
        (each for each in all_receipts() if receipt in (None, each.get("id"))), path
    )
    if found is None:
        raise Failed(f"nothing was kept of {printable(str(path))}; noclobber log shows what was")
    store = places.state_directory() / "snapshots"
    with told():
        try:
            kept = restoring.restore(store, str(found["snapshot"]), path)
        except restoring.RestoreError as error:
            raise Failed(str(error)) from None
    if kept is None:
        click.echo(f"{printable(str(path))} holds it already.")
    else:
        was = f"; what it held is kept as {store / kept}" if kept else ""
        click.echo(f"{printable(str(path))} is as it was before {found['time']}{was}.")
