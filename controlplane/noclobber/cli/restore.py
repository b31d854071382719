"""`restore`: lists what is kept, shows it, and puts it back."""

from __future__ import annotations

import contextlib
import difflib
import getpass
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track

from noclobber import outside, places, putback, service
from noclobber import restore as choosing
from noclobber.cli.common import Failed, all_receipts, console, printable, printable_size, told
from noclobber.facts import TEXT_PROBE
from noclobber.incoming import INCOMING
from noclobber.restore import NothingError, RestoreError, Snapshot

MANY = 20  # files from which on progress is shown, on a terminal

_BY_WORDS = 4  # of a command line
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def _moment(_: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return choosing.moment(value)
    except (ValueError, IndexError):
        raise click.BadParameter(
            f"{value!r} is no time; write 2026-01-31T15:04:05 or 15:04", param=option
        ) from None


@click.command()
@click.argument("file", required=False, type=click.Path())
@click.option("--id", "ident", metavar="ID", help="This one of the list.")
@click.option("--session", metavar="S", help="Every file of one session, as it was before it.")
@click.option("--until", callback=_moment, metavar="TIME", help="As it was at TIME instead.")
@click.option("--path", "place", type=click.Path(), help="Only this file, or below this directory.")
@click.option("--list", "as_list", is_flag=True, help="List; restore nothing.")
@click.option("--json", "as_json", is_flag=True, help="List, one JSON object a line.")
@click.option("--diff", "as_diff", is_flag=True, help="Show what would change; change nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
def restore(
    file: str | None,
    ident: str | None,
    session: str | None,
    until: datetime | None,
    place: str | None,
    as_list: bool,
    as_json: bool,
    as_diff: bool,
    dry_run: bool,
) -> None:
    """Bring back what was kept before it was replaced or deleted.

    Without FILE, --id or --session, list what there is, the newest first.
    FILE gets the newest kept content that is not what it holds now. What it
    holds now is kept first, so the same command once more undoes it.

    --session restores, too; with --list or --json it lists. --until takes
    ISO 8601, in local time where it names no zone, or a time of this day. It
    says what files held as far as it was kept.

    Exit status: 0 done, and for a list that is empty; 1 nothing to restore, or
    it failed; 2 wrong usage. No daemon is needed, but where one has to work out
    what was deleted last."""
    lists = as_list or as_json or not (file or ident or session)
    _check_usage(file, ident, session, until, as_diff, lists)
    if not lists:
        with told():
            outside.leave()
    _settle()
    try:
        kept = choosing.snapshots(all_receipts())
        if place is not None:
            kept = choosing.below(kept, place)
        if lists:
            _list(kept, file, ident, session, as_json)
            return
        wanted = _wanted(kept, file, ident, session, until)
    except RestoreError as error:
        raise Failed(printable_text(str(error))) from None
    if as_diff or dry_run:
        _each(wanted, _diff if as_diff else _would)
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    _refuse_read_only(wanted)
    _each(wanted, _put)


def _settle() -> None:
    """Waits for what was deleted and is not worked out yet: no receipt tells of
    it before. Where that cannot be, says so: it is kept all the same."""
    try:
        waits = any((_store() / INCOMING).iterdir())
    except OSError:
        waits = False  # there is none
    if not waits:
        return
    err = Console(stderr=True)
    try:
        service.start()
        with (
            err.status("working out what was deleted last")
            if err.is_terminal
            else contextlib.nullcontext()
        ):
            while service.ask({"do": "settle"})["waiting"]:
                pass
    except (service.ServiceError, OSError) as error:
        click.echo(f"noclobber: what was deleted last is not among it: {error}", err=True)


def _check_usage(
    file: str | None,
    ident: str | None,
    session: str | None,
    until: datetime | None,
    as_diff: bool,
    lists: bool,
) -> None:
    if file and session and not lists:
        raise click.UsageError("FILE is one file, --session all of a session: give one of them")
    if ident and (session or until):
        raise click.UsageError("--id names one content already")
    if until and not (file or session):
        raise click.UsageError("--until needs FILE or --session")
    if until and lists:
        raise click.UsageError("--until says what to restore; it does not go with a list")
    if as_diff and not (file or ident or session):
        raise click.UsageError("--diff needs FILE, --id or --session")


Wanted = list[Snapshot]


def _wanted(
    kept: list[Snapshot],
    file: str | None,
    ident: str | None,
    session: str | None,
    until: datetime | None,
) -> Wanted:
    """What is to be restored. Raises RestoreError."""
    if session:
        found = choosing.of_session(kept, session, until)
        if not found:
            raise NothingError(f"nothing was kept of session {session} since that time")
        return found
    if ident:
        one = choosing.by_id(kept, ident)
        if file and one.path != choosing.canonical(file):
            raise RestoreError(f"{ident} is kept of {one.path}, not of {file}")
        return [one]
    assert file is not None
    of_file = choosing.of(kept, file)
    if until:
        one_at = choosing.at(of_file, until)
        if one_at is None:
            raise NothingError(f"nothing was kept of {of_file[0].path} since that time")
        return [one_at]
    return [choosing.newest_other(of_file, _is_present)]


def _store() -> Path:
    return places.state_directory() / "snapshots"


def _is_present(one: Snapshot) -> bool:
    with told(), putback.opened(_store(), one) as found:
        return found.is_present()


# Lists.


def _list(
    kept: list[Snapshot],
    file: str | None,
    ident: str | None,
    session: str | None,
    as_json: bool,
) -> None:
    if file:
        kept = choosing.of(kept, file)
    with told():
        kept = choosing.stored(_store(), kept)
    kept = [
        one for one in kept if ident in (None, one.id) and session in (None, one.session)
    ]  # fmt: skip
    if as_json:
        for one in kept:
            click.echo(json.dumps(_object(one)))
    elif not kept:
        click.echo("Nothing to restore: nothing had to be kept.")
    else:
        out = console()
        for one in kept:
            out.print(_line(one))


def _object(one: Snapshot) -> dict[str, Any]:
    return {
        "time": one.time.isoformat().replace("+00:00", "Z"),
        "session": one.session,
        "path": one.path,
        "size": one.size,
        "why": one.reason,
        "op": one.op,
        "argv": list(one.argv),
        "id": one.id,
        "content": str(_store() / one.name),
    }


def _line(one: Snapshot) -> str:
    """One of the list: when, whose, what, how much, why, by which name."""
    by = " ".join(printable(word) for word in one.argv[:_BY_WORDS])
    by += " ..." if len(one.argv) > _BY_WORDS else ""
    return (
        f"[dim]{_when(one)}[/]  {_plain(printable(one.session or '-'))}  "
        f"{_plain(printable(one.path))}  {printable_size(one.size)}  "
        f"{one.op}: {_plain(by)}  [bold]{_plain(printable(one.id))}[/]"
    )


def _when(one: Snapshot) -> str:
    return one.time.astimezone().isoformat(sep=" ", timespec="seconds")


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def printable_text(text: str) -> str:
    """A message with paths in it, for a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# One after the other.


def _each(wanted: Wanted, do: Callable[[Snapshot], str | None]) -> None:
    """Does it to every one, goes on after failures, and tells of them."""
    failures = 0
    for one in _shown(wanted):
        try:
            with told():
                said = do(one)
        except (RestoreError, Failed) as error:
            failures += 1
            text = printable_text(error.message if isinstance(error, Failed) else str(error))
            click.echo(f"Error: {text}", err=True)
        else:
            if said:
                click.echo(said)
    if failures and len(wanted) > 1:
        raise Failed(f"{failures} of {len(wanted)} files could not be restored")
    if failures:
        sys.exit(1)


def _shown(wanted: Wanted) -> Iterable[Snapshot]:
    err = Console(stderr=True)
    if len(wanted) < MANY or not err.is_terminal:
        return wanted
    return track(wanted, "restoring", console=err, transient=True)


def _put(one: Snapshot) -> str:
    path = printable(one.path)
    with putback.opened(_store(), one) as found:
        if found.is_present():
            return f"{path} holds it already."
        was = found.present >= 0
        ident = putback.put(found, _store(), places.state_directory() / "receipts.jsonl", _who())
    undo = f"; to undo: noclobber restore --id {ident}" if was else ""
    return f"{path} is as it was before {_when(one)}{undo}"


def _would(one: Snapshot) -> str:
    path = printable(one.path)
    with putback.opened(_store(), one) as found:
        if found.is_present():
            return f"{path} holds it already."
        what = "replaced by" if found.present >= 0 else "made anew from"
        return f"{path} would be {what} what it held before {_when(one)} ({one.id})"


def _diff(one: Snapshot) -> None:
    with putback.opened(_store(), one) as found:
        present, kept = found.texts()
    name = printable(one.path)
    if present == kept:
        return
    if b"\0" in present[:TEXT_PROBE] or b"\0" in kept[:TEXT_PROBE]:
        click.echo(f"Binary file {name} differs: {len(present)} bytes, {len(kept)} kept")
        return
    labels = (f"{name}\tpresent", f"{name}\tkept {_when(one)} ({one.id})")
    clean = sys.stdout.isatty()
    for line in unified(present, kept, *(label.encode(errors="replace") for label in labels)):
        click.echo(_CONTROL.sub(_visible, line) if clean else line, nl=False)


def _visible(found: re.Match[bytes]) -> bytes:
    return "".join(f"\\x{byte:02x}" for byte in found[0]).encode()


def unified(old: bytes, new: bytes, old_name: bytes, new_name: bytes) -> Iterable[bytes]:
    """The lines of a unified diff, as patch(1) takes it."""
    before, after = (re.findall(rb"[^\n]*\n|[^\n]+", text) for text in (old, new))
    for line in difflib.diff_bytes(difflib.unified_diff, before, after, old_name, new_name):
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


# In a session.


def _who() -> putback.Who:
    env = os.environ
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    session, command = env.get("NOCLOBBER_SESSION", ""), env.get("NOCLOBBER_COMMAND", "")
    return putback.Who(session, command, user, tuple(sys.argv))


def _refuse_read_only(wanted: Wanted) -> None:
    """In the read-only tier nothing under a root is changed by any program:
    this one stands outside of the guard, and keeps to that by itself."""
    session = os.environ.get("NOCLOBBER_SESSION")
    if not session:
        return
    try:
        found = service.ask({"do": "status"})
    except service.ServiceError:
        return
    roots = [
        root
        for each in found["sessions"]
        if each["session"] == session and each["tier"] == "read-only"
        for root in each["roots"]
    ]
    for one in wanted:
        if any(f"{one.path}/".startswith(f"{root.rstrip('/')}/") for root in roots):
            raise Failed(
                f"{printable(one.path)} is not restored: this session may change nothing "
                "there (tier read-only); a person may, from outside of the session"
            )
