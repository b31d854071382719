"""What the daemon itself writes into the journal, beside the reports: packed
and unpacked."""

from __future__ import annotations

import struct

from noclobber import wire
from noclobber.ledger import KEY_SIZE, Edit, Key, Replaced, Stamp

_REPLACED = struct.Struct("=QHB")  # token, op, what was known
_EDIT = struct.Struct("=HH")  # lengths of the command and of the snapshot's name


def packed(what: Replaced) -> bytes:
    """A replacement that was let through."""
    head = _REPLACED.pack(what.token, what.op, what.known + 2 * what.later)
    return what.key + what.stamp + head + what.path


def unpacked(data: bytes) -> Replaced:
    """The same again."""
    key, stamp = data[:KEY_SIZE], data[KEY_SIZE : wire.VERSION.size]
    token, op, known = _REPLACED.unpack_from(data, wire.VERSION.size)
    path = data[wire.VERSION.size + _REPLACED.size :]
    return Replaced(path, key, stamp, token, op, bool(known & 1), bool(known & 2))


def packed_edit(key: Key, edit: Edit) -> bytes:
    """A file that was opened to be written in place."""
    name = edit.snapshot.encode()
    return key + edit.stamp + _EDIT.pack(len(edit.command), len(name)) + edit.command + name


def unpacked_edit(data: bytes) -> tuple[Key, Edit]:
    """The same again."""
    at = wire.VERSION.size
    sizes = _EDIT.unpack_from(data, at)
    command, name = wire.strings(data, at + _EDIT.size, len(data), sizes)
    return data[:KEY_SIZE], Edit(command, data[KEY_SIZE:at], name.decode())


def unpacked_version(data: bytes) -> tuple[Key, Stamp]:
    """A version, packed by joining its two parts."""
    return data[:KEY_SIZE], data[KEY_SIZE:]
