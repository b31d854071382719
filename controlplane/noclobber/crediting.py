"""What a harness's tool showed to the agent and what it wrote for it, told
when it has: held against the file's bytes, never taken on trust.

A harness does not wait while it is worked out: every method takes what it needs
of the file and returns the rest of its work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple

from noclobber import changes, coverage, pages, telling
from noclobber.coverage import Coverage
from noclobber.files import content_of, version
from noclobber.harness.events import Edited, Page, Printed, Wrote
from noclobber.pages import encoded
from noclobber.scene import Changing, Handed, Opened, Scene
from noclobber.telling import PIECE, Telling
from noclobber.wire import Version

if TYPE_CHECKING:
    from noclobber.guard import Guard

SHELL = b"raw-"  # how the launcher names commands whose output it does not carry


Credit = Generator[bytes, Handed, Callable[[], None]]


class File(NamedTuple):
    """What a file held when it was looked at."""

    path: bytes
    held: Version
    content: bytes


class Crediting:
    """Tells the ledgers of `guard`."""

    def __init__(self, guard: Guard, telling: Telling, changing: Changing) -> None:
        self._guard = guard
        self._telling = telling
        self._changing = changing

    def page(self, scene: Scene, path: bytes, act: Page) -> Credit:
        """Lines of a file."""
        file = _look((yield path))
        return lambda: self._page(scene, file, act) if file else None

    def printed(self, scene: Scene, act: Printed) -> None:
        """What a command printed: of the last one that the session's shells
        began, where it may be that."""
        pieces = list(map(encoded, act.pieces))
        ident = self._last_command(scene) if act.command else b""
        if not ident:
            source = scene.source()
            self._telling.whole(source, *_pieces(source, pieces))
        else:
            source = scene.source()._replace(command=ident)
            self._telling.say(*_pieces(source, pieces))

    def wrote(self, scene: Scene, path: bytes, act: Wrote) -> Credit:
        """The agent's text, as a whole file."""
        file = _look((yield path))
        return lambda: self._wrote(scene, file, act.text) if file else None

    def edited(self, scene: Scene, path: bytes, act: Edited) -> Credit:
        """The agent's changes: what it knew of the file it knows still, and
        what it put there."""
        file = _look((yield path))
        return lambda: self._edited(scene, file, act) if file else None

    def _page(self, scene: Scene, file: File, act: Page) -> None:
        known = pages.matched(file.content, act.text, act.first)
        if known:
            self._seen(scene, file, known, known)

    def _wrote(self, scene: Scene, file: File, text: str) -> None:
        source = scene.source(file.path)
        records: list[bytes] = []
        if file.content and pages.is_written(file.content, text):
            records = [telling.hello(source, scene.harness), telling.wrote(file.held, file.path)]
            if len(file.content) <= PIECE:  # for what is changed behind its back
                records += telling.shown(source, file.content)
        else:
            records += telling.shown(source, encoded(text))
        self._telling.whole(source, *records)

    def _edited(self, scene: Scene, file: File, act: Edited) -> None:
        before = self._changing.end(scene.session.id, file.path)
        if len(act.changes) == 1 and not act.changes[0].old:
            self._wrote(scene, file, act.changes[0].new)
            return
        if before is None:
            before = self._before(scene, file.content, act)
        made = changes.made(before.content, before.known, act.changes) if before else None
        if made is None or made.content != file.content:
            # Something else changed it, too.
            source = scene.source(file.path)
            texts = [encoded(change.new) for change in act.changes]
            self._telling.whole(source, *_pieces(source, texts))
            return
        touched = coverage.intersect(_lines(file.content, made.written), made.known)
        self._seen(scene, file, made.known, touched)

    def _before(self, scene: Scene, content: bytes, act: Edited) -> Opened | None:
        """What it was, where nobody said so beforehand."""
        old = changes.undone(content, list(act.changes))
        if old is None:
            return None
        return Opened(old, self._guard.guarded(scene.session).evidence.shown(old))

    def _seen(self, scene: Scene, file: File, known: Coverage, told: Coverage) -> None:
        """`known` of the file as it is now, and the text of `told` for when it
        is changed."""
        source = scene.source(file.path)
        records = [telling.hello(source, scene.harness), *telling.read(file.held, known)]
        for start, end in told:
            records += telling.shown(source, file.content[start:end], start)
        self._telling.whole(source, *records)

    def _last_command(self, scene: Scene) -> bytes:
        """The shell's last command, if it has printed nothing yet; of whose
        shell it was nobody can tell when a sub-agent speaks."""
        if scene.session is not scene.top:
            return b""
        for command in reversed(scene.top.ledger.commands.values()):
            if command.id.startswith(SHELL):
                return b"" if command.text else command.id
        return b""


def _look(handed: Handed) -> File | None:
    """The file as it is; None where there is none to look at."""
    if handed.fd is None:
        return None
    stat = os.fstat(handed.fd)
    content = content_of(handed.fd, stat.st_size)
    return None if content is None else File(handed.path, version(stat), content)


def _pieces(source: telling.Source, pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Records of texts that do not follow each other."""
    at = 0
    for piece in pieces:
        yield from telling.shown(source, piece, at)
        at += len(piece) + 1


def _lines(content: bytes, ranges: Coverage) -> Coverage:
    """The whole lines that hold these bytes."""
    return coverage.normal(
        (content.rfind(b"\n", 0, start) + 1, content.find(b"\n", end - 1) + 1 or len(content))
        for start, end in ranges
    )
