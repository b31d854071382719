"""Where the daemon listens and where it keeps what it knows.

The socket's path is csrc/paths.c's, which the launcher asks too. A path that
is longer than a socket address may be (108 bytes) is reached through a
descriptor of its directory.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from noclobber.wire import C, ffi

_PATH_MAX = 4096
_ADDRESS_MAX = 107  # bytes of sun_path without its NUL


def socket_path() -> Path:
    """Where the daemon of this user listens. Raises OSError."""
    out = ffi.new("char[]", _PATH_MAX)
    if C.nc_socket_path(out, _PATH_MAX) < 0:
        raise OSError(ffi.errno, os.strerror(ffi.errno), "the daemon's socket")
    return Path(os.fsdecode(ffi.string(out)))


def state_directory() -> Path:
    """The ledger's and the receipts' directory; made by `private`."""
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return home / "noclobber"


def private(directory: Path) -> Path:
    """The directory, made where it is not there, ours and nobody else's to
    read. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    stat = directory.stat()
    if stat.st_uid != os.getuid():
        raise PermissionError(1, f"it belongs to user {stat.st_uid}", str(directory))
    if stat.st_mode & 0o077:
        directory.chmod(0o700)
    return directory


class _Address:
    """A socket's address that fits, while the context lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> bytes:
        name = os.fsencode(self._path)
        if len(name) <= _ADDRESS_MAX:
            return name
        self._fd = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return os.fsencode(f"/proc/self/fd/{self._fd}/{self._path.name}")

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def connect(path: Path, timeout: float) -> socket.socket:
    """A connection to the daemon. Raises OSError where none listens."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.settimeout(timeout)
    try:
        with _Address(path) as address:
            end.connect(address)
    except OSError:
        end.close()
        raise
    return end


def listen(path: Path, backlog: int) -> socket.socket:
    """The daemon's own end; what was left there by a dead one is replaced."""
    path.unlink(missing_ok=True)
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _Address(path) as address:
            end.bind(address)
    except OSError:
        end.close()
        raise
    finally:
        os.umask(before)
    end.listen(backlog)
    return end
