"""What sessions made, on a page that processes look at before they delete.

`rm -rf` of fifty thousand files that a session wrote itself would otherwise be
as many questions. A mark stands for one version in one session; that it may be
missing costs a question, and never a file.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from noclobber import wire
from noclobber.wire import C, Version

_SLOTS: int = C.NC_MADE_SLOTS
_WAYS: int = C.NC_MADE_WAYS
_SIZE: int = wire.ffi.sizeof("struct nc_made")
_MIX = 0x9E3779B97F4A7C15  # made.c's
_MASK = (1 << 64) - 1


def _mixed(mark: int, value: int) -> int:
    mark = (mark ^ value) * _MIX & _MASK
    return mark ^ mark >> 32


class Made:
    """The page at `path`; processes map it, and so it is kept by the next
    daemon. Raises OSError."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(fd).st_size != _SIZE:
                os.ftruncate(fd, 0)
                os.ftruncate(fd, _SIZE)
            self._map = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        self._slots = memoryview(self._map).cast("Q")
        self._sessions: dict[bytes, int] = {}
        self._next = bytearray(_SLOTS // _WAYS)  # where a set's next mark goes

    def add(self, session: bytes, version: Version) -> None:
        """The session wrote all of that version, from nothing."""
        mark = self._sessions.get(session)
        if mark is None:
            mark = 0
            for byte in session:
                mark = _mixed(mark, byte)
            self._sessions[session] = mark
        for value in version:
            mark = _mixed(mark, value & _MASK)
        # The oldest of its set goes: builds that make their files anew all day
        # must not push out what they made last.
        which = mark % _SLOTS // _WAYS
        slot = self._next[which]
        self._slots[which * _WAYS + slot] = mark
        self._next[which] = (slot + 1) % _WAYS

    def close(self) -> None:
        self._slots.release()
        self._map.close()
