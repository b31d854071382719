"""What a verdict's receipt says, and the sentence of a refusal that says what
is special about it.

Who was refused although it had looked must learn what happened since: another
session's append, an editor, or that its own half of a command came too late.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from noclobber import coverage, gitargs, report
from noclobber.facts import Gathered
from noclobber.ledger import Image, Key, Ledger, Stamp, version_of
from noclobber.receipts import Receipt
from noclobber.rule import BESIDE, Ruling, Verdict
from noclobber.session import Session
from noclobber.wire import C

_WORDS = 4  # of a command line that are named


OPS: dict[int, str] = {
    C.NC_OP_TRUNCATE: "truncate",
    C.NC_OP_SHRINK: "shrink",
    C.NC_OP_RENAME: "rename",
    C.NC_OP_EXCHANGE: "exchange",
    C.NC_OP_PUNCH: "punch",
    C.NC_OP_DELETE: "delete",
    C.NC_OP_CREATE: "create",
    C.NC_OP_UPDATE: "update",
    C.NC_OP_CHANGE: "change",
    C.NC_OP_CLOSE: "close",
}


def receipt(facts: Gathered, ruling: Ruling, **fields: Any) -> Receipt:
    """The receipt of a verdict; `fields` are those that the facts do not tell."""
    asked, image, found = facts.asked, facts.image, facts.extent
    return Receipt(
        session=os.fsdecode(facts.session.id),
        command=os.fsdecode(image.command),
        pid=image.pid,
        exe=os.fsdecode(image.exe),
        argv=[os.fsdecode(word) for word in image.argv],
        op=OPS[asked.op],
        path=os.fsdecode(asked.path),
        verdict=ruling.verdict.name.lower(),
        row=ruling.row,
        grade=facts.grade,
        seen_bytes=found.seen_bytes,
        total_bytes=found.total_bytes,
        seen_lines=found.seen_lines,
        total_lines=found.total_lines,
        unseen=list(found.unseen),
        kind=facts.kind.value,
        explain=facts.explain(),
        **fields,
    )


def told(facts: Gathered, ruling: Ruling, sessions: Iterable[Session], note: str) -> str:
    """A verdict's reason: for a refusal the whole message."""
    if ruling == Ruling(Verdict.DENY, BESIDE):
        name = gitargs.parse(facts.image.exe, facts.image.argv).name
        return report.git_refusal(name, [facts.asked.path], 0)
    if ruling.verdict is Verdict.DENY:
        found, path = facts.extent, facts.asked.path
        command = facts.session.ledger.command_of(facts.image)
        limit = (command.limit if command else 0) or facts.guarded.config.shown.whole
        grade = "shown" if facts.image.agent else facts.grade  # its own reading is no evidence
        step = report.next_step(path, facts.content, found, limit if grade == "shown" else 0)
        return report.message(path, found, grade, step, because(facts, ruling, sessions), note)
    if ruling.row == 7 and (used := facts.overriding):
        return f"{used.by} allowed it: {used.reason}"
    return report.REASONS[ruling.row]


def because(facts: Gathered, ruling: Ruling, sessions: Iterable[Session]) -> str:
    """One sentence, or none where the numbers say it all."""
    if facts.asked.op == C.NC_OP_CREATE:
        return "Deleting it first makes it no less of a replacement; it stands there again."
    if facts.cut:
        return (
            "What the agent's own process put in its place is a cut of what it had read: "
            "the rest would be lost. The old content stands there."
        )
    if facts.grade == "shown" and _printed_too_late(facts):
        return "What this same command printed does not count for the text that it was given."
    if ruling.row == 8:
        size = coverage.size(facts.lineage_read)
        return f"The program that would replace it took in only {size} bytes itself."
    return changed(facts, sessions)


def _printed_too_late(facts: Gathered) -> bool:
    start, end = facts.asked.start, facts.asked.end
    return coverage.covers(coverage.union(facts.shown, facts.authored), start, end)


def changed(facts: Gathered, sessions: Iterable[Session]) -> str:
    """What changed the file since this session last read it, and when."""
    ledger = facts.session.ledger
    others = [
        read.stamp
        for read in ledger.reads(facts.key)
        if read.ranges and not ledger.same(facts.key, read.stamp, facts.stamp)
    ]
    for session in sessions:
        if session is facts.session:
            continue
        writer = _last_writer(session.ledger, facts.key, facts.stamp)
        if writer is not None:
            image, time = writer
            words = b" ".join(image.argv[:_WORDS]) or image.exe
            return (
                f"Session {report.quote(session.id)} changed it at {_clock(time)} "
                f"({report.quote(words)})."
            )
    now = version_of(facts.key, facts.stamp)
    if others and all(version_of(facts.key, stamp).mtime != now.mtime for stamp in others):
        return f"It was changed at {_clock(now.mtime)}, after this session last read it."
    return ""


def _last_writer(ledger: Ledger, key: Key, stamp: Stamp) -> tuple[Image, int] | None:
    """The image of another session that made the file what it is."""
    for write in reversed(ledger.writes.get(key, [])):
        if ledger.same(key, write.stamp, stamp) and write.token in ledger.images:
            return ledger.images[write.token], write.time
    return None


def _clock(ns: int) -> str:
    moment = datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")
