"""What a session's processes read: the table of csrc/readings.c.

A build or a `grep -r` reports reads by the ten thousand, and all but a few of
them are of files that nobody will ever ask about. So they are taken in by C, a
whole run of records at once, and become objects when their file is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from noclobber.coverage import Coverage
from noclobber.wire import RANGE, C, WireError, ffi

_KEY_SIZE: int = ffi.offsetof("struct nc_version", "size")


class Read(NamedTuple):
    """Bytes of one version that one image got from the kernel."""

    token: int
    flags: int
    stamp: bytes
    ranges: Coverage


class Readings:
    """All reads of one session. A file's key is its device and inode as they
    are packed on the wire; its stamp is the rest of the version."""

    def __init__(self) -> None:
        made = C.nc_readings_new()
        if not made:
            raise MemoryError
        self._all: Any = ffi.gc(made, C.nc_readings_free)

    @property
    def count(self) -> int:
        """How many there are: the number of the last one."""
        count: int = self._all.count
        return count

    def take(self, token: int, buffer: bytes, at: int, end: int) -> None:
        """Takes in the run of read records `buffer[at:end]` (wire.records finds
        it) of one image. Raises WireError where ranges do not fit their
        record; what came before it stands."""
        if C.nc_readings_take(self._all, token, buffer, at, end) != end:
            raise WireError("the ranges of a read do not fit their record")

    def of(self, key: bytes) -> Iterator[Read]:
        """Every read of a file, the oldest first."""
        number = C.nc_readings_first(self._all, key)
        while number:
            one = self._all.each[number - 1]
            stamp = ffi.buffer(ffi.addressof(one, "version"))[_KEY_SIZE:]
            spans: Coverage = ()
            if one.count:
                packed = ffi.buffer(self._all.ranges + one.ranges, one.count * RANGE.size)
                spans = tuple(RANGE.iter_unpack(packed))
            number = one.next
            yield Read(one.token, one.flags, stamp, spans)

    def __contains__(self, key: bytes) -> bool:
        return bool(C.nc_readings_first(self._all, key))

    def keys(self, stretches: Iterable[range]) -> frozenset[bytes]:
        """The files of the reads with these numbers."""
        found: set[bytes] = set()
        for numbers in stretches:
            out = ffi.new("char[]", len(numbers) * _KEY_SIZE)
            C.nc_readings_keys(self._all, numbers.start, numbers.stop, out)
            packed = ffi.buffer(out)[:]
            found.update(packed[at : at + _KEY_SIZE] for at in range(0, len(packed), _KEY_SIZE))
        return frozenset(found)
