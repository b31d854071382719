"""The commands."""

from __future__ import annotations

import json
import sys

import click

from noclobber import __version__, places, receipts, service


@click.group()
@click.version_option(__version__)
def app() -> None:
    """A file may be replaced only by someone who has seen what the replacement
    destroys."""


@app.group()
def daemon() -> None:
    """Start, stop or look at the daemon."""


@daemon.command("start")
def daemon_start() -> None:
    from noclobber.cli.starter import start

    sys.exit(start())


@daemon.command("stop")
def daemon_stop() -> None:
    try:
        service.stop()
    except service.ServiceError as error:
        raise click.ClickException(str(error)) from None


@daemon.command("status")
def daemon_status() -> None:
    click.echo(json.dumps(service.ask({"do": "status"}), indent=2))


@app.command()
@click.option("--json", "as_json", is_flag=True)
def log(as_json: bool) -> None:
    for receipt in receipts.read(places.state_directory() / "receipts.jsonl"):
        if isinstance(receipt, receipts.DamagedReceipt):
            click.echo(str(receipt), err=True)
        else:
            click.echo(json.dumps(receipt))
