"""The records of csrc/protocol.h, decoded and encoded.

No offset of any field stands here: the layouts are asked of the C compiler
(through cffi) and turned into `struct.Struct`s, which decode a read record in
well under a microsecond where a cffi object costs several. Garbage on a
connection must never take the daemon down: `records` raises WireError for
whatever cannot be a record, and nothing else does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from noclobber import _native

ffi = _native.ffi
C: Any = _native.lib

_CODES = {
    ("uint8_t", 1): "B",
    ("uint16_t", 2): "H",
    ("uint32_t", 4): "I",
    ("uint64_t", 8): "Q",
    ("int32_t", 4): "i",
    ("int64_t", 8): "q",
}


class WireError(ValueError):
    """What came is no record of this protocol's version."""


class Version(NamedTuple):
    """What a file held at a moment. `size` in bytes, times in ns since 1970."""

    dev: int
    ino: int
    size: int
    mtime: int
    ctime: int


def _codes(kind: Any, base: int = 0) -> list[tuple[int, str]]:
    """(offset, format) of every number in a C struct, nested ones flattened."""
    found: list[tuple[int, str]] = []
    for _, field in kind.fields:
        at, inner = base + field.offset, field.type
        if inner.kind == "struct":
            found += _codes(inner, at)
        else:
            found.append((at, _CODES[inner.cname, ffi.sizeof(inner)]))
    return found


def layout(name: str) -> struct.Struct:
    """The packed form of `struct name`, in the machine's own byte order."""
    kind = ffi.typeof(f"struct {name}")
    form, at = "=", 0
    for offset, code in _codes(kind):
        form += "x" * (offset - at) + code
        at = offset + struct.calcsize("=" + code)
    return struct.Struct(form + "x" * (ffi.sizeof(kind) - at))


RECORD = layout("nc_record")
HELLO = layout("nc_hello")
COMMAND = layout("nc_command")
READ = layout("nc_read")
WROTE = layout("nc_wrote")
PIPE = layout("nc_pipe")
NAMED = layout("nc_named")
GONE = layout("nc_gone")
SHOWN = layout("nc_shown")
WHO = layout("nc_who")
QUESTION = layout("nc_question")
BEGIN = layout("nc_begin")
BEGUN = layout("nc_begun")
EXEC = layout("nc_exec")
ANSWER = layout("nc_answer")
HARNESS = layout("nc_harness")
WANTED = layout("nc_wanted")
HANDED = layout("nc_handed")
HOOKED = layout("nc_hooked")
RANGE = layout("nc_range")
VERSION = layout("nc_version")

RECORD_SIZE = RECORD.size
ALIGN = 8

# Every record's least size, header included; 0 for a type that is unknown.
_FIXED = [0] * 256
for _type, _size in (
    (C.NC_HELLO, HELLO.size),
    (C.NC_COMMAND, COMMAND.size),
    (C.NC_READ, READ.size),
    (C.NC_WROTE, WROTE.size),
    (C.NC_PIPE, PIPE.size),
    (C.NC_NAMED, NAMED.size),
    (C.NC_GONE, GONE.size),
    (C.NC_SHOWN, SHOWN.size),
    (C.NC_ADOPT, RECORD_SIZE),
    (C.NC_QUESTION, QUESTION.size),
    (C.NC_ANSWER, ANSWER.size),
    (C.NC_REQUEST, RECORD_SIZE),
    (C.NC_REPLY, RECORD_SIZE),
    (C.NC_BEGIN, BEGIN.size),
    (C.NC_BEGUN, BEGUN.size),
    (C.NC_EXEC, EXEC.size),
    (C.NC_WHO, WHO.size),
    (C.NC_HARNESS, HARNESS.size),
    (C.NC_WANTED, WANTED.size),
    (C.NC_HANDED, HANDED.size),
    (C.NC_HOOKED, HOOKED.size),
    (C.NC_WATCH, RECORD_SIZE),
    (C.NC_SETTLE, RECORD_SIZE),
):
    _FIXED[_type] = _size

_MAX: int = C.NC_RECORD_MAX
_VERSION: int = C.NC_VERSION

_READ: int = C.NC_READ

Record = tuple[int, int, int, int]  # type, flags, offset, end


def records(buffer: bytes, end: int) -> tuple[list[Record], int]:
    """The whole records in `buffer[:end]`, and where the first partial one
    begins. Read records that follow each other are one, with the flags of
    the first. Raises WireError at the first byte that can begin no record."""
    found: list[Record] = []
    at = 0
    unpack, fixed = RECORD.unpack_from, _FIXED
    while end - at >= RECORD_SIZE:
        size, version, kind, flags = unpack(buffer, at)
        if version != _VERSION:
            raise WireError(f"protocol version {version}, this is {_VERSION}")
        if not fixed[kind]:
            raise WireError(f"unknown record type {kind}")
        if size < fixed[kind] or size > _MAX or size % ALIGN:
            raise WireError(f"record type {kind} of {size} bytes")
        if size > end - at:
            break
        stop = at + size
        if kind == _READ and stop < end:  # a build sends these by the thousand
            stop = C.nc_readings_run(buffer, stop, end)
        found.append((kind, flags, at, stop))
        at = stop
    return found, at


def strings(buffer: bytes, at: int, end: int, sizes: Iterable[int]) -> list[bytes]:
    """The strings that follow a struct. Raises WireError past the record."""
    found = []
    for size in sizes:
        if size > end - at:
            raise WireError("a string is longer than its record")
        found.append(bytes(buffer[at : at + size]))
        at += size
    return found


def words(text: bytes) -> list[bytes]:
    """Strings each ended by NUL; a last one that was cut off counts too."""
    parts = text.split(b"\0")
    if not parts[-1]:
        parts.pop()
    return parts


def record(
    kind: int, form: struct.Struct, *fields: int, flags: int = 0, tail: bytes = b""
) -> bytes:
    """One record: a header, the struct's other fields, what follows it."""
    size = form.size + len(tail)
    pad = -size % ALIGN
    return form.pack(size + pad, _VERSION, kind, flags, *fields) + tail + bytes(pad)


def answer(
    question: int, verdict: int, row: int, scope: bytes = b"", text: bytes = b"", flags: int = 0
) -> bytes:
    """An answer to the question of that id."""
    sizes = len(scope), len(text)
    return record(
        C.NC_ANSWER, ANSWER, question, verdict, row, *sizes, flags=flags, tail=scope + text
    )
