"""What a harness's tool showed to the agent and what it wrote for it, told
when it has: held against the file's bytes, never taken on trust.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from noclobber import changes, coverage, pages, telling
from noclobber.files import content_of, version
from noclobber.harness.events import Edited, Page, Printed, Wrote
from noclobber.pages import encoded
from noclobber.scene import Changing, Handed, Looking, Opened, Scene
from noclobber.telling import PIECE, Telling

if TYPE_CHECKING:
    from noclobber.guard import Guard

SHELL = b"raw-"  # how the launcher names commands whose output it does not carry


class Crediting:
    """Tells the ledgers of `guard`."""

    def __init__(self, guard: Guard, telling: Telling, changing: Changing) -> None:
        self._guard = guard
        self._telling = telling
        self._changing = changing

    def page(self, scene: Scene, path: bytes, act: Page) -> Looking:
        """Lines of a file."""
        handed = yield path
        content = _content(handed)
        if handed.fd is None or content is None:
            return ""
        known = pages.matched(content, act.text, act.first)
        if known:
            self._seen(scene, handed, known, [(s, content[s:e]) for s, e in known])
        return ""

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

    def wrote(self, scene: Scene, path: bytes, act: Wrote) -> Looking:
        """The agent's text, as a whole file."""
        handed = yield path
        content = _content(handed)
        if handed.fd is None or content is None:
            return ""
        source = scene.source(handed.path)
        records: list[bytes] = []
        if content and pages.is_written(content, act.text):
            held = version(os.fstat(handed.fd))
            records = [telling.hello(source, scene.harness), telling.wrote(held, handed.path)]
            if len(content) <= PIECE:  # for what is changed behind its back
                records += telling.shown(source, content)
        else:
            records += telling.shown(source, encoded(act.text))
        self._telling.whole(source, *records)
        return ""

    def edited(self, scene: Scene, path: bytes, act: Edited) -> Looking:
        """The agent's changes: what it knew of the file it knows still, and
        what it put there."""
        if len(act.changes) == 1 and not act.changes[0].old:
            return (yield from self.wrote(scene, path, Wrote(act.path, act.changes[0].new)))
        handed = yield path
        content = _content(handed)
        if handed.fd is None or content is None:
            return ""
        before = self._changing.end(scene.session.id, handed.path)
        if before is None:
            before = self._before(scene, content, act)
        made = changes.made(before.content, before.known, act.changes) if before else None
        if made is None or made.content != content:
            # Something else changed it, too.
            source = scene.source(handed.path)
            texts = [encoded(change.new) for change in act.changes]
            self._telling.whole(source, *_pieces(source, texts))
            return ""
        touched = coverage.intersect(_lines(content, made.written), made.known)
        self._seen(scene, handed, made.known, [(s, content[s:e]) for s, e in touched])
        return ""

    def _before(self, scene: Scene, content: bytes, act: Edited) -> Opened | None:
        """What it was, where nobody said so beforehand."""
        old = changes.undone(content, list(act.changes))
        if old is None:
            return None
        return Opened(old, self._guard.guarded(scene.session).evidence.shown(old))

    def _seen(
        self,
        scene: Scene,
        handed: Handed,
        known: coverage.Coverage,
        texts: Iterable[tuple[int, bytes]],
    ) -> None:
        """Those bytes of the file as it is now, and these texts for when it is
        changed."""
        assert handed.fd is not None
        source = scene.source(handed.path)
        records = [telling.hello(source, scene.harness)]
        records += telling.read(version(os.fstat(handed.fd)), known)
        for at, text in texts:
            records += telling.shown(source, text, at)
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


def _content(handed: Handed) -> bytes | None:
    return None if handed.fd is None else content_of(handed.fd, os.fstat(handed.fd).st_size)


def _pieces(source: telling.Source, pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Records of texts that do not follow each other."""
    at = 0
    for piece in pieces:
        yield from telling.shown(source, piece, at)
        at += len(piece) + 1


def _lines(content: bytes, ranges: coverage.Coverage) -> coverage.Coverage:
    """The whole lines that hold these bytes."""
    return coverage.normal(
        (content.rfind(b"\n", 0, start) + 1, content.find(b"\n", end - 1) + 1 or len(content))
        for start, end in ranges
    )
