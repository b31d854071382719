"""What the commands of a session printed, held against a file's bytes.

attest does the matching; here is which text counts for whom. What a command
prints cannot have informed the text that the same command was given with
`-c`; in an interactive shell it can. And a view of a file is only what a
command printed one of whose processes read that file: a licence header that
another file shares is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from noclobber import voice, voice_lists
from noclobber.attest import VIEW_LINES, VIEW_SHARE, Spool
from noclobber.cmdline import given
from noclobber.coverage import Coverage
from noclobber.ledger import Command, Key, Ledger, Stamp, size_of

FEW = 3  # files; of what a command printed that read more, nobody can tell whose it was


class Evidence:
    """The spool of one session, indexed as its commands end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ended = Spool()
        self._indexed: dict[bytes, int] = {}  # reports of each command's text

    def shown(self, content: bytes, but: bytes | None = None) -> Coverage:
        """The ranges of `content` that were printed, by any command but one."""
        return tuple(self._spool(but).seen(content))

    def viewed(self, content: bytes, commands: Iterable[bytes]) -> bool:
        """Whether these commands printed a view of `content`."""
        printed = [piece for ident in commands for piece in self._printed(ident)]
        return bool(printed) and Spool(printed).viewed(content)

    def readers(self, keys: Iterable[Key]) -> set[bytes]:
        """The commands one of whose processes read one of these files."""
        images = self._ledger.images
        return {
            images[read.token].command
            for key in keys
            for read in self._ledger.reads(key)
            if read.ranges and read.token in images
        }

    def saw_other_version(self, keys: Iterable[Key], key: Key, stamp: Stamp) -> bool:
        """Whether a command read and printed what the file was before. Those
        bytes are gone: that it printed lines enough has to do."""
        images = self._ledger.images
        for other in keys:
            for read in self._ledger.reads(other):
                if read.token not in images or not read.ranges:
                    continue
                if other == key and self._ledger.same(key, read.stamp, stamp):
                    continue
                if self._printed_much(images[read.token].command, size_of(read.stamp)):
                    return True
        return False

    def _printed_much(self, ident: bytes, size: int) -> bool:
        printed = b"".join(self._printed(ident))
        if not printed or len(self._files_of(ident)) > FEW:
            return False
        return printed.count(b"\n") >= VIEW_LINES or len(printed) * VIEW_SHARE >= size

    def _files_of(self, ident: bytes) -> set[Key]:
        found: set[Key] = set()
        for image in self._ledger.images.values():
            if image.command == ident:
                found.update(self._ledger.keys_read(image))
        return found

    def _printed(self, ident: bytes) -> list[bytes]:
        command = self._ledger.commands.get(ident)
        return command.printed() if command else []

    def _spool(self, but: bytes | None) -> Spool:
        running: list[Command] = []
        for command in self._ledger.commands.values():
            if command.ended:
                done = self._indexed.get(command.id, 0)
                if done < len(command.text):  # a child of it may print on
                    self._indexed[command.id] = len(command.text)
                    for piece in command.printed(done):
                        self._ended.add(piece)
            elif command.text and command.id != but:
                running.append(command)
        if not running and but not in self._indexed:
            return self._ended
        return Spool(
            piece
            for command in self._ledger.commands.values()
            if command.id != but
            for piece in command.printed()
        )


def is_interactive(command: Command) -> bool:
    """Whether the command is a shell that is told what to do as it goes."""
    words = [os.fsdecode(word) for word in command.argv]
    if not words:
        return False
    name = voice.program_name(voice.Program(0, "", tuple(words)))
    syntax = voice_lists.SHELLS.get(name)
    return syntax is not None and given(words, syntax).kind == "stdin"
