"""Which kept content there is, and which of it a person means.

A restore that takes the wrong version is one more loss. So what is chosen is
worked out here from the receipts alone, without touching a file; putback.py
does the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?$")


class RestoreError(Exception):
    """Says why, and what to do next. The file is as it was."""


class NothingError(RestoreError):
    """There is nothing to restore."""


@dataclass(frozen=True)
class Snapshot:
    """What a file held just before `time`. `name` is the content's in the
    store, `size` in bytes as the receipt says, `id` the receipt's."""

    id: str
    time: datetime
    session: str
    path: str
    op: str
    size: int
    reason: str
    argv: tuple[str, ...]
    name: str
    attributes: dict[str, Any] = field(default_factory=dict)  # placing.dress's


def snapshots(receipts: Iterable[dict[str, Any]]) -> list[Snapshot]:
    """Those that the receipts tell of, newest first. A receipt that lacks what
    is needed tells of none."""
    found = [each for each in map(_snapshot, receipts) if each is not None]
    found.reverse()  # of two at one time the later line is the newer
    return sorted(found, key=lambda one: one.time, reverse=True)


def _snapshot(receipt: dict[str, Any]) -> Snapshot | None:
    try:
        name, path = str(receipt["snapshot"]), str(receipt["path"])
        if not name or "/" in name or name in (".", "..") or not path.startswith("/"):
            return None
        return Snapshot(
            id=str(receipt["id"]),
            time=moment(str(receipt["time"])),
            session=str(receipt.get("session", "")),
            path=path,
            op=str(receipt.get("op", "")),
            size=int(receipt["total_bytes"]),
            reason=str(receipt.get("reason", "")),
            argv=tuple(map(str, receipt.get("argv") or ())),
            name=name,
            attributes=dict(receipt.get("attributes") or {}),
        )
    except (KeyError, ValueError, TypeError):
        return None


def moment(text: str, now: datetime | None = None) -> datetime:
    """A time as people and receipts write it: ISO 8601, local where it names
    no zone, of `now`'s day where it names no day. Raises ValueError."""
    text = text.strip()
    if _CLOCK.match(text):
        today = (now or datetime.now()).astimezone().strftime("%Y-%m-%d")
        text = f"{today}T{text.zfill(len(text) + (text[1] == ':'))}"
    if text.endswith(("Z", "z")):
        text = text[:-1] + "+00:00"
    if fraction := re.search(r"\.(\d{1,6})(?=$|[+-])", text):
        # Python 3.10 takes 3 or 6 digits only.
        text = text[: fraction.start(1)] + fraction[1].ljust(6, "0") + text[fraction.end(1) :]
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def canonical(file: str) -> str:
    """The file by its true directory; it need not be there, and the last name
    is followed nowhere."""
    whole = os.path.abspath(file)  # noqa: PTH100 (links are followed below)
    head, tail = os.path.split(whole)
    return os.path.join(os.path.realpath(head), tail)  # noqa: PTH118


def of(kept: Iterable[Snapshot], file: str) -> list[Snapshot]:
    """The snapshots of one file. Raises NothingError, and RestoreError where
    they are of a file whose directory has become a link since."""
    path, named = canonical(file), os.path.abspath(file)  # noqa: PTH100
    kept = list(kept)
    found = [each for each in kept if each.path == path]
    if not found and any(each.path == named for each in kept):
        raise RestoreError(
            f"the way to {named} leads over a symbolic link to {path} now; nothing is "
            "restored through a link: put the directory back first"
        )
    if not found:
        raise NothingError(f"nothing was kept of {path}; noclobber restore lists what was")
    return found


def by_id(kept: Iterable[Snapshot], ident: str) -> Snapshot:
    """The one with that receipt. Raises NothingError."""
    for each in kept:
        if each.id == ident:
            return each
    raise NothingError(f"no snapshot has the id {ident}; noclobber restore lists those there are")


def below(kept: Iterable[Snapshot], place: str) -> list[Snapshot]:
    """Those of one file, or of everything below one directory."""
    path = canonical(place)
    top = os.path.realpath(place).rstrip("/") + "/"
    return [each for each in kept if each.path == path or each.path.startswith(top)]


def newest_other(kept: Iterable[Snapshot], is_present: Callable[[Snapshot], bool]) -> Snapshot:
    """Of one file's snapshots the newest whose content is not the present one.
    Raises NothingError, and what `is_present` raises."""
    path = ""
    for each in kept:
        if not is_present(each):
            return each
        path = each.path
    raise NothingError(f"{path} holds already what is kept of it")


def at(kept: Iterable[Snapshot], time: datetime) -> Snapshot | None:
    """What one file held at `time`: the first that was kept from then on. None
    where nothing was, and so it holds that still. `kept` is newest first."""
    found = None
    for each in kept:
        if each.time < time:
            break
        found = each
    return found


def of_session(
    kept: Iterable[Snapshot], session: str, until: datetime | None = None
) -> list[Snapshot]:
    """For each file of which the session had something kept: what it held
    before the session first touched it, or at `until`. By path. Raises
    NothingError where the session had nothing kept."""
    kept = list(kept)
    touched = {each.path for each in kept if each.session == session}
    if not touched:
        raise NothingError(
            f"nothing was kept of session {session}; noclobber restore lists what was"
        )
    files: dict[str, list[Snapshot]] = {path: [] for path in sorted(touched)}
    for each in kept:
        if each.path in files:
            files[each.path].append(each)
    return list(_chosen(files.values(), session, until))


def _chosen(
    files: Iterable[list[Snapshot]], session: str, until: datetime | None
) -> Iterator[Snapshot]:
    for each in files:
        if until is None:
            yield next(one for one in reversed(each) if one.session == session)
        elif found := at(each, until):
            yield found


def stored(store: Path, kept: Iterable[Snapshot]) -> list[Snapshot]:
    """Those whose content is in the store."""
    try:
        names = {entry.name for entry in os.scandir(store)}
    except FileNotFoundError:
        return []
    return [each for each in kept if each.name in names]
