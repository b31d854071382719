"""Brings old content back from where it was kept.

Bringing back must not be one more loss: what stands there now is kept first,
and a name is followed only where it leads to what it says.
"""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from noclobber import snapshots


class RestoreError(Exception):
    """Nothing was changed; says why."""


def latest(receipts: Iterable[dict[str, Any]], path: Path) -> dict[str, Any] | None:
    """The last receipt that tells of content kept from `path`."""
    found = None
    for receipt in receipts:
        if receipt.get("snapshot") and receipt.get("path") == str(path):
            found = receipt
    return found


def restore(store: Path, snapshot: str, path: Path) -> str | None:
    """Gives `path` the kept content. Returns the name under which the present
    content was kept ("" where nothing stood there); None where it is the same.
    Raises RestoreError, OSError."""
    kept = store / snapshot
    if not kept.is_file() or kept.parent.resolve() != store.resolve():
        raise RestoreError(f"the content is not kept any more: {kept}")
    if path.parent.resolve() != path.parent:
        raise RestoreError(f"{path.parent} is reached through a symbolic link")
    present, mode = "", None
    try:
        found = path.lstat()
    except FileNotFoundError:
        pass
    else:
        if not modes.S_ISREG(found.st_mode):
            raise RestoreError(f"{path} is no regular file now")
        if found.st_size == kept.stat().st_size and path.read_bytes() == kept.read_bytes():
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            present = snapshots.keep(store, f"{time.time_ns():x}-restore", fd)
        finally:
            os.close(fd)
        mode = modes.S_IMODE(found.st_mode)
    _put(kept, path, modes.S_IMODE(kept.stat().st_mode) if mode is None else mode)
    return present


def _put(kept: Path, path: Path, mode: int) -> None:
    """Writes beside the file and renames: it is the old or the new content at
    every moment, and nothing is left behind."""
    aside = path.with_name(f".{path.name[:200]}.noclobber-{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(aside, flags, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(kept.read_bytes())
            os.fchmod(file.fileno(), mode)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
