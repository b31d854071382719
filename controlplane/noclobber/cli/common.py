"""What the commands share: where output goes, how failures are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console

from noclobber import places, receipts, report, service

WIDTH = 1000  # columns where nobody looks: nothing is folded
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
NO_DAEMON = 3  # exit status where no daemon runs


class Failed(click.ClickException):
    """A failure with its exit status; the message names the next step."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """What click takes for the process's status."""
        return self.status


@contextmanager
def told() -> Iterator[None]:
    """Turns what the daemon's side raises into a message and a status."""
    try:
        yield
    except service.NotRunningError as error:
        raise Failed(str(error), NO_DAEMON) from None
    except service.ServiceError as error:
        raise Failed(str(error)) from None
    except OSError as error:
        where = f"{report.quote(os.fsencode(error.filename))}: " if error.filename else ""
        raise Failed(f"{where}{error.strerror}") from None


def console() -> Console:
    """Where tables are drawn; colours on a terminal only."""
    width = None if sys.stdout.isatty() else WIDTH
    return Console(highlight=False, soft_wrap=True, width=width)


def printable(path: str) -> str:
    """A path for a terminal: nothing in it can steer one."""
    return report.quote(os.fsencode(path))


def printable_size(count: int) -> str:
    """Bytes, for people."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def all_receipts() -> Iterator[dict[str, object]]:
    """Every receipt; damaged lines are told of on stderr."""
    with told():
        for found in receipts.read(places.state_directory() / "receipts.jsonl"):
            if isinstance(found, receipts.DamagedReceiptError):
                click.echo(f"noclobber: {found}", err=True)
            else:
                yield found
