"""Terminal escapes, which are no part of a line's text. Line numbers, paths
and diff marks are taken off in csrc/attest-gutters.c. Pure."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, erasing
    rb"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC: titles, hyperlinks
    rb"|[()*+][0-9A-Za-z]|[=>78McDEHNO])"
    rb"|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*)?\Z"  # cut off at the end
)


def uncoloured(piece: bytes) -> bytes:
    """The text without terminal escapes. Of a last line that holds nothing
    else they stay: the lines of both are the same."""
    if b"\x1b" not in piece:
        return piece
    plain = _ESCAPE.sub(b"", piece)
    last = piece[piece.rfind(b"\n") + 1 :]
    return plain + last if last and plain[-1:] in (b"", b"\n") else plain
