"""Receipts of the dirty guard and of the tier, which stand beside the table."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from noclobber import report
from noclobber.ledger import Image
from noclobber.receipts import Receipt, timestamp
from noclobber.report import Extent
from noclobber.rule import BESIDE, Verdict
from noclobber.session import Session

if TYPE_CHECKING:
    from noclobber.guard import Guard

NOTHING = Extent(0, 0, 0, 0, ())


class Refusals:
    """Writes them where `guard` has its receipts."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def measured(
        self,
        session: Session,
        image: Image,
        path: bytes,
        verdict: Verdict,
        reason: str,
        *,
        measure: bool = True,
    ) -> None:
        """A receipt for a file that git would throw away, with how much of it
        was seen; where not `measure`, only if the session knows the file."""
        extent = NOTHING
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            fd = -1
        if fd >= 0:
            try:
                facts = self._guard.facts_of(session, path, fd)
                if facts.replaceable and (measure or session.ledger.knows(facts.key)):
                    extent = facts.extent
                elif facts.replaceable:
                    extent = report.extent(None, facts.size, ())
            finally:
                os.close(fd)
        self.receipt(session, image, "git", path, verdict, reason, extent)

    def receipt(
        self,
        session: Session,
        image: Image,
        op: str,
        path: bytes,
        verdict: Verdict,
        reason: str,
        extent: Extent = NOTHING,
    ) -> None:
        """One receipt."""
        now = time.time_ns()
        self._guard.write(
            Receipt(
                time=timestamp(now),
                session=os.fsdecode(session.id),
                command=os.fsdecode(image.command),
                pid=image.pid,
                exe=os.fsdecode(image.exe),
                argv=[os.fsdecode(word) for word in image.argv],
                op=op,
                path=os.fsdecode(path.rstrip(b"/") or b"/"),
                verdict=verdict.name.lower(),
                row=BESIDE,
                grade="shown" if session.attested else "read",
                seen_bytes=extent.seen_bytes,
                total_bytes=extent.total_bytes,
                seen_lines=extent.seen_lines,
                total_lines=extent.total_lines,
                unseen=list(extent.unseen),
                reason=reason,
                id=self._guard.new_id(now),
            )
        )
