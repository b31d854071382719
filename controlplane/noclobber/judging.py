"""What a harness's tool may do to a file, asked before it does.

The tool works in the harness's own process, where its reading and writing
tell nothing of what the agent saw. So it is judged here as the agent's own
text, by what the agent was shown; what the rule keeps is kept here, unless the
harness's process is followed and asks for itself.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from noclobber import changes, coverage, placing, report, rule, tombs
from noclobber.coverage import Coverage
from noclobber.deletions import outlives_git
from noclobber.facts import Gathered, Question
from noclobber.harness.events import Edits
from noclobber.harnesses import Foreseen
from noclobber.keeping import Kept
from noclobber.ledger import Tomb
from noclobber.once import once
from noclobber.protected import Place
from noclobber.refusals import NOTHING, Refusals
from noclobber.report import Extent
from noclobber.rule import Ruling, Verdict
from noclobber.scene import Changing, Handed, Looking, Opened, Scene
from noclobber.session import Session
from noclobber.wire import C

if TYPE_CHECKING:
    from noclobber.guard import Guard


class Proposed(Foreseen):
    """The facts of what a harness's tool would do. What processes of the whole
    session wrote a sub-agent may have written as well; what its agent's own
    tools did, it has not."""

    above: Gathered | None = None

    @once
    def authored(self) -> Coverage:
        """What the agent wrote of the file."""
        own = super().authored
        if self.above is None:
            return own
        ledger = self.above.session.ledger
        images = (ledger.images.get(w.token) for w in ledger.authors(self.key, self.stamp))
        if all(image and image.pid for image in images):
            return coverage.union(own, self.above.authored)
        return own


class Judging:
    """Judges for `guard`. Every method asks for the file and comes to a
    refusal, or to none."""

    def __init__(self, guard: Guard, changing: Changing) -> None:
        self._guard = guard
        self._changing = changing
        self._refusals = Refusals(guard)

    def replace(self, scene: Scene, path: bytes) -> Looking:
        """A text of the agent's own in the file's place."""
        handed = yield path
        if refused := self._tier(scene, handed):
            return refused
        if handed.fd is None:
            return (yield from self._recreate(scene, handed))
        facts = self._facts(scene, handed.path, handed.fd, C.NC_OP_TRUNCATE)
        return self._ruled(scene, facts, rule.decide(facts))

    def edit(self, scene: Scene, path: bytes, act: Edits) -> Looking:
        """Changes in place: they pass, unless it is not clear where they go."""
        handed = yield path
        if refused := self._tier(scene, handed):
            return refused
        if handed.fd is None:
            return ""
        facts = self._facts(scene, handed.path, handed.fd, C.NC_OP_UPDATE)
        content = facts.content
        if content is None or not facts.replaceable:
            return ""
        if lines := changes.ambiguous(content, act.changes):
            message = changes.refusal(report.quote(handed.path), lines, act.every)
            return self._refused(scene, handed.path, "edit", message, facts.extent)
        ruling = rule.decide_update(facts)
        if ruling.verdict is Verdict.SNAPSHOT and not scene.followed:
            self._guard.record(facts, ruling)
        opened = Opened(content, coverage.union(facts.shown, facts.authored))
        self._changing.begin(scene.session.id, handed.path, opened)
        return ""

    def delete(self, scene: Scene, path: bytes) -> Looking:
        """A deletion: it passes, and what it takes is kept."""
        handed = yield path
        if refused := self._tier(scene, handed):
            return refused
        if handed.fd is None or scene.followed:
            return ""
        guard = self._guard
        facts = self._facts(scene, handed.path, handed.fd, C.NC_OP_DELETE)
        ruling = rule.decide_deletion(facts)
        if ruling.verdict is Verdict.ALLOW and not outlives_git(facts, ruling):
            return ""
        # It may not come to it, and then the file is to be written to again:
        # a copy, and no link.
        copied = self._facts(scene, handed.path, handed.fd, C.NC_OP_TRUNCATE)
        try:
            kept = guard.keeper.keep(copied, guard.new_id(time.time_ns()), guard.configs.of(None))
        except OSError as error:
            return report.not_kept(handed.path, "delete", error.strerror or str(error))
        guard.record(facts, ruling, kept)
        speaker = guard.speaker(0)
        speaker.session = scene.top
        guard.laid(speaker, facts, kept.name)
        return ""

    def _recreate(self, scene: Scene, handed: Handed) -> Looking:
        """A new file, where one stood that a command of the session deleted."""
        self._guard.incoming.settle(scene.top, handed.path)
        tomb = scene.top.ledger.tombs.get(handed.path)
        if tomb is None:
            return ""
        store = self._guard.keeper.store
        try:
            kept = store.open(tomb.snapshot)
        except OSError:
            return ""  # the store has let it go
        try:
            facts = self._facts(scene, handed.path, kept, C.NC_OP_CREATE, tomb)
            ruling = rule.decide(facts)
            if ruling.verdict is not Verdict.DENY:
                return ""
            parent, _, name = handed.path.rpartition(b"/")
            trouble = _stand_again((yield parent or b"/"), name, kept, tomb)
            _, receipt = self._guard.record(facts, ruling, Kept(tomb.snapshot), trouble)
        finally:
            os.close(kept)
        return receipt.reason

    def _facts(
        self, scene: Scene, path: bytes, fd: int, op: int, tomb: Tomb | None = None
    ) -> Proposed:
        guard = self._guard
        size = os.fstat(fd).st_size
        asked = Question(op, path, b"", 0, size, fd, None, 0)
        deleted = (tomb.key, tomb.stamp) if tomb else None
        image = scene.image(path)

        def of(session: Session) -> Proposed:
            return Proposed(asked, session, image, guard.guarded(session), deleted)

        facts = of(scene.session)
        if scene.session is not scene.top:
            facts.above = of(scene.top)
        return facts

    def _ruled(self, scene: Scene, facts: Proposed, ruling: Ruling) -> str:
        guard = self._guard
        if ruling.verdict is Verdict.DENY or (
            ruling.verdict is Verdict.SNAPSHOT and not scene.followed
        ):
            ruling, receipt = guard.record(facts, ruling)
            guard.answers[ruling.verdict] += 1
            guard.commit()
            return receipt.reason if ruling.verdict is Verdict.DENY else ""
        guard.answers[ruling.verdict] += 1
        return ""

    def _tier(self, scene: Scene, handed: Handed) -> str:
        """The refusal in the read-only tier."""
        if not scene.is_read_only:
            return ""
        if self._guard.guarded(scene.top).standing(handed.path).place is not Place.ROOT:
            return ""
        return self._refused(
            scene, handed.path, "change", report.read_only(b"", handed.path), NOTHING
        )

    def _refused(self, scene: Scene, path: bytes, op: str, message: str, seen: Extent) -> str:
        """A refusal that stands beside the table, with its receipt."""
        image = scene.image(path)
        self._refusals.receipt(scene.session, image, op, path, Verdict.DENY, message, seen)
        self._guard.answers[Verdict.DENY] += 1
        return message


def _stand_again(folder: Handed, name: bytes, kept: int, tomb: Tomb) -> str:
    """Puts a deleted file back where it stood; says what went wrong."""
    if folder.fd is None:
        return "It could not be put back: its directory is gone."
    aside = f".noclobber-{os.getpid()}-{time.time_ns():x}"
    try:
        fd, is_named = placing.new(aside, folder.fd)
        try:
            tombs.put_back(fd, kept, tomb)
            placing.appear(fd, aside if is_named else "", os.fsdecode(name), folder.fd)
        finally:
            os.close(fd)
            if is_named:
                os.unlink(aside, dir_fd=folder.fd)
    except OSError as error:
        return f"It could not be put back: {error.strerror}."
    return ""
