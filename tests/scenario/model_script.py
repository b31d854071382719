"""What test_model.py did, as a shell script that does it again."""

from __future__ import annotations

import base64
import gzip
from shlex import quote

PLAIN = 2000  # bytes of a file that are written out


class Script:
    """Lines of shell. Sessions are called as the model calls them."""

    def __init__(self) -> None:
        self._lines = ["#!/bin/bash", 'cd "$(mktemp -d)"']

    def __str__(self) -> str:
        return "\n".join([*self._lines, "noclobber log", ""])

    def run(self, session: str, text: str) -> None:
        """One command of a session."""
        self._lines.append(f'noclobber-exec --session {session} --root "$PWD" -- \\')
        self._lines.append(f"    bash -c {quote(text)}")

    def outside(self, text: str) -> None:
        """What somebody else did."""
        self._lines.append(text)

    def put(
        self, name: str, content: bytes, *, anew: bool = False, keeps_time: bool = False
    ) -> None:
        """Somebody else gave a file that content, in a new file (`anew`) or in
        the old one, the time put back (`keeps_time`)."""
        place = f"{name}.new" if anew else name
        if keeps_time:
            self._lines.append(f"touch -r {name} ../time")
        if len(content) <= PLAIN:
            self._lines.append(f"printf %s {quote(content.decode())} > {place}")
        else:
            packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
            self._lines.append(f"base64 -d <<< {packed} | gunzip > {place}")
        if anew:
            self._lines.append(f"mv {place} {name}")
        if keeps_time:
            self._lines.append(f"touch -r ../time {name}")

    def wait(self, seconds: float) -> None:
        """The clock of file times moves on."""
        self._lines.append(f"sleep {seconds}")

    def remark(self, text: str) -> None:
        """For who reads it."""
        self._lines.append(f"# {text}")
