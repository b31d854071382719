"""Names that a session deleted: creating one again is a replacement, too.

`rm f; cat > f` of something half seen loses as much as `cat > f` does. So
where a part was viewed the deletion lays a tombstone, and the creation is
judged as a replacement of what lies there. Every process that creates a file
looks at a page shared with the daemon, so that all other creations cost
nothing: the page may be wrong only towards asking.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from noclobber import placing, wire
from noclobber.ledger import KEY_SIZE, Tomb
from noclobber.wire import C

_SLOTS: int = C.NC_TOMB_SLOTS
_SIZE: int = wire.ffi.sizeof("struct nc_tombs")
_SLOTS_AT: int = wire.ffi.offsetof("struct nc_tombs", "slots")
_COUNT = struct.Struct("=Q")
_FULL = 255  # of a slot's byte
_MASK = (1 << 64) - 1

_TOMB = struct.Struct("=Iq")  # mode, length of the snapshot's name


def slot_of(path: bytes) -> int:
    """The slot of a path: FNV-1a of 64 bits, as protocol.h says."""
    value = 0xCBF29CE484222325
    for byte in path:
        value = (value ^ byte) * 0x100000001B3 & _MASK
    return value % _SLOTS


class Page:
    """The page at `path`, mapped by processes since an earlier daemon's time:
    the file is kept and its content changed. Raises OSError."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(fd).st_size != _SIZE:
                os.ftruncate(fd, _SIZE)
            self._map = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        self._slots: dict[int, int] = {}
        self._map[_SLOTS_AT:_SIZE] = bytes(_SIZE - _SLOTS_AT)
        self._map[: _COUNT.size] = _COUNT.pack(0)

    def sweep(self) -> None:
        """Takes out what processes marked of deletions that are settled now."""
        page = bytearray(_SLOTS)
        for slot, value in self._slots.items():
            page[slot] = value
        self._map[_SLOTS_AT : _SLOTS_AT + _SLOTS] = bytes(page)
        self._map[: _COUNT.size] = _COUNT.pack(len(self._slots))

    def mark(self, paths: Iterable[bytes]) -> None:
        """Marks names as processes do that delete them."""
        for path in paths:
            self._map[_SLOTS_AT + slot_of(path)] = _FULL
            self._map[: _COUNT.size] = _COUNT.pack(1)

    def show(self, paths: Iterable[bytes], *, waits: bool) -> None:
        """Makes the page say that these names were deleted. What processes
        marked is left; `waits`: there is such, of deletions not yet settled."""
        slots: dict[int, int] = {}
        count = int(waits)
        for path in paths:
            slot = slot_of(path)
            slots[slot] = min(slots.get(slot, 0) + 1, _FULL)
            count += 1
        for slot, value in slots.items():
            self._map[_SLOTS_AT + slot] = value
        self._map[: _COUNT.size] = _COUNT.pack(count)
        for slot in self._slots.keys() - slots.keys():
            self._map[_SLOTS_AT + slot] = 0
        self._slots = slots

    def close(self) -> None:
        self._map.close()


def packed(path: bytes, tomb: Tomb) -> bytes:
    """A tombstone as the journal keeps it."""
    name = tomb.snapshot.encode()
    return tomb.key + tomb.stamp + _TOMB.pack(tomb.mode, len(name)) + name + path


def unpacked(data: bytes) -> tuple[bytes, Tomb]:
    """Its path, and the tombstone."""
    at = wire.VERSION.size
    mode, size = _TOMB.unpack_from(data, at)
    name = data[at + _TOMB.size :][:size]
    path = data[at + _TOMB.size + size :]
    return path, Tomb(data[:KEY_SIZE], data[KEY_SIZE:at], mode, name.decode())


def put_back(fd: int, kept: int, tomb: Tomb) -> None:
    """Writes the old content (`kept` is open on it), mode and times into the
    new file that `fd` is open on. Raises OSError."""
    mtime = wire.Version(*wire.VERSION.unpack(tomb.key + tomb.stamp)).mtime
    placing.put_back(kept, fd, mtime)
    os.chmod(f"/proc/self/fd/{fd}", tomb.mode & 0o7777)  # noqa: PTH101 (a descriptor's)
