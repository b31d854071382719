"""Keeps the old content of what is replaced: a plain copy beside the ledger."""

from __future__ import annotations

import os
from pathlib import Path

_PIECE = 1 << 20  # bytes copied by one call


def keep(store: Path, name: str, fd: int) -> str:
    """Copies what `fd` is open on (O_PATH or for writing, too) into `store`,
    and returns the copy's name there. Raises OSError; nothing half-made is
    left then."""
    store.mkdir(mode=0o700, exist_ok=True)
    source = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    path = store / name
    target = -1
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        size = os.fstat(source).st_size
        while size > 0:
            try:
                moved = os.copy_file_range(source, target, min(size, 1 << 30))
            except OSError:
                moved = os.write(target, os.read(source, _PIECE))
            if not moved:
                break
            size -= moved
    except OSError:
        if target >= 0:
            path.unlink(missing_ok=True)
        raise
    finally:
        os.close(source)
        if target >= 0:
            os.close(target)
    return name


def link(store: Path, name: str, fd: int) -> bool:
    """Gives the file that `fd` is open on one more name, in `store`: its
    content survives the deletion of the other one. False where it cannot be
    (another file system, another user's file)."""
    store.mkdir(mode=0o700, exist_ok=True)
    folder = os.open(store, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Only with a directory's descriptor does Python call linkat(2), which
        # alone follows the link in /proc to the file.
        os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
