"""The guard: what the daemon knows and decides, without its sockets.

Reports go to the sessions' ledgers and into the journal; a question's facts
are gathered, the rule is asked, and what it says is put on disk before it is
told: a refusal that nobody can look up later would be a mystery, and an
allowed loss without a receipt a lie.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from noclobber import config as configs
from noclobber import entries, reasons, report, rule, tombs, wire
from noclobber.deletions import Deletions, outlives_git
from noclobber.export import Export
from noclobber.facts import Gathered, Question
from noclobber.failmark import FailMark
from noclobber.files import identity
from noclobber.guarded import Guarded
from noclobber.holds import Holds
from noclobber.hooks import Hooks
from noclobber.hostguard import HostGuard
from noclobber.incoming import Incoming
from noclobber.journal import (
    AGAIN,
    EDIT,
    FORGOT,
    HOST,
    OVERRIDE,
    RECORDS,
    REPLACED,
    TAKEN,
    TOMB,
    Entry,
    Journal,
)
from noclobber.keeping import Keeper, Kept
from noclobber.ledger import Image, Replaced
from noclobber.made import Made
from noclobber.overrides import Override, Overrides, is_inside
from noclobber.people import People
from noclobber.receipts import Receipt, Receipts, Syncing, timestamp
from noclobber.repository import Repositories
from noclobber.rule import BESIDE, Kind, Ruling, Verdict
from noclobber.session import Session, Sessions, Speaker
from noclobber.snapshots import Store
from noclobber.system import System
from noclobber.tombs import Page
from noclobber.wire import C, Record, WireError

MADE = "made"  # beside the socket; processes look for it there, and for the next
TOMBS = "tombs"  # beside the socket; processes look for it there
NOT_KEPT = 0  # in the place of a row: the old content could not be kept
IDLE = 3_600_000_000_000  # ns of silence after which a session is let go of

_IN_PLACE = frozenset((C.NC_OP_TRUNCATE, C.NC_OP_SHRINK, C.NC_OP_PUNCH, C.NC_OP_UPDATE))
_COMMAND: int = C.NC_COMMAND
_FOLDER: int = C.NC_FOLDER_GONE
_GONE: int = C.NC_GONE
_NAMED: int = C.NC_NAMED

_TABLES: dict[int, Callable[[rule.Facts], Ruling]] = {
    C.NC_OP_DELETE: rule.decide_deletion,
    C.NC_OP_UPDATE: rule.decide_update,
}


class Guard:
    """Everything under one state directory; `runtime` holds what processes look
    at themselves. Raises OSError where either cannot be used."""

    def __init__(self, state: Path, runtime: Path) -> None:
        self.state = state
        self.keeper = Keeper(Store(state / "snapshots"))
        self.started = time.time_ns()
        self.sessions = Sessions()
        self.receipts = Receipts(state / "receipts.jsonl")
        self._syncing = Syncing(self.receipts)
        self.export: Export | None = None
        self.journal = Journal(state / "ledger.db")
        self.configs = configs.Configs()
        self.overrides = Overrides()
        self.people = People(self)
        self.hooks = Hooks(self)
        self.host = HostGuard(self)
        self._guarded: dict[bytes, Guarded] = {}
        self._repositories = Repositories()
        self.answers = dict.fromkeys(Verdict, 0)  # since the daemon started
        self._speakers = 0
        self._receipt = 0
        self._asleep: dict[bytes, tuple[int, int]] = {}
        self._here: weakref.WeakSet[Speaker] = weakref.WeakSet()
        self.incoming = Incoming(self, self.keeper.store.place, runtime)
        self._deletions = Deletions(self.keeper.store, Page(runtime / TOMBS))
        self._made = Made(runtime / MADE)
        self._start()
        self.sessions.live = System()
        self.sessions.made = self._made.add
        self._holds = Holds(self.keeper.store)
        self._deletions.mark(self.sessions.all.values())
        self._show_tombs()
        self.fail_mark = FailMark(runtime, self.configs)
        self.fail_mark.show()

    # What the daemon's loop asks for.

    def speaker(self, pid: int) -> Speaker:
        """A new connection's other end; `pid` by the kernel's word."""
        self._speakers += 1
        speaker = Speaker(self._speakers, pid)
        self._here.add(speaker)
        return speaker

    def take(self, speaker: Speaker, chunk: bytes, found: list[Record]) -> None:
        """Reports that came in one piece. Raises WireError."""
        now = time.time_ns()
        try:
            self.sessions.take(speaker, chunk, found, now)
        finally:
            # Replayed, a chunk fails at the same record.
            name = speaker.session.id if speaker.session else b""
            if name:
                self.journal.add(Entry(speaker.id, name, now, speaker.pid, RECORDS, chunk))
        if found[0][0] == _COMMAND:
            self.commit()  # who does not know a session's roots protects nothing
            if found[0][1] & C.NC_ENDED and speaker.session:
                self.guarded(speaker.session).evidence.take_in()
        if any(kind == _NAMED or (kind == _GONE and flags & _FOLDER) for kind, flags, *_ in found):
            self._show_tombs()

    def question(self, speaker: Speaker, record: bytes, fds: list[int]) -> bytes:
        """The answer to a question, ready to be sent. Raises WireError."""
        *_, ident, op, start, end, size, other = wire.QUESTION.unpack_from(record)
        path, source = wire.strings(record, wire.QUESTION.size, len(record), [size, other])
        image, session = speaker.image, speaker.session
        if image is None or session is None:
            raise WireError("a question before the hello")
        if not fds or op not in reasons.OPS:
            raise WireError("a question about nothing")
        if not session.roots:  # lost with a daemon that was killed: no answer is a refusal
            raise WireError("a question of a session without a command")
        asked = Question(
            op, path, source, start, end, fds[0], fds[1] if len(fds) > 1 else None, image.pid
        )
        image.asked += 1
        try:
            return self._answer(speaker, asked, ident)
        except OSError as error:
            if op in (C.NC_OP_UPDATE, C.NC_OP_CLOSE):
                raise  # nothing waits for what it says
            why = f"{error.strerror}: {error.filename or self.state}"
            text = report.unrecorded(path, reasons.OPS[op], why)
            return wire.answer(ident, C.NC_DENY, NOT_KEPT, b"", text.encode())

    def _answer(self, speaker: Speaker, asked: Question, ident: int) -> bytes:
        image, session, op = speaker.image, speaker.session, asked.op
        assert image is not None and session is not None
        if op == C.NC_OP_CREATE:
            return self._created(speaker, asked, ident)
        if op == C.NC_OP_CLOSE:
            return self._closed(speaker, asked, ident)
        if op in _IN_PLACE and image.agent and self._holds.has(session, asked.fd):
            return wire.answer(ident, C.NC_HOLD, 6)
        facts = Gathered(asked, session, image, self.guarded(session))
        if op == C.NC_OP_CHANGE:
            return self.host.changes(facts, ident)
        ruling = _TABLES.get(op, rule.decide)(facts)
        if session.host.files and self.host.forbids(facts, ruling):
            ruling = Ruling(Verdict.DENY, BESIDE)
        text, snapshot = b"", ""
        if ruling.verdict is not Verdict.ALLOW or outlives_git(facts, ruling):
            ruling, receipt = self.record(facts, ruling)
            text = receipt.reason.encode() if ruling.verdict is Verdict.DENY else b""
            snapshot = receipt.snapshot
            if op == C.NC_OP_DELETE and ruling.verdict is not Verdict.DENY:
                self.laid(speaker, facts, snapshot)
            elif op == C.NC_OP_UPDATE:
                self._journal(speaker, EDIT, entries.packed_edit(*facts.opened(snapshot)))
        self.answers[ruling.verdict] += 1
        if ruling.verdict is Verdict.DENY:
            self.commit()  # what it rests on must outlive this daemon
        elif ruling.row >= 3:
            self.replaced(speaker, facts, ruling)
        verdict = ruling.verdict.value
        if self._holds.wants(facts, ruling):
            verdict = self._holds.add(facts, asked.fd, snapshot)
        flags = 0
        if op == C.NC_OP_UPDATE and facts.kind is Kind.DRIVEN:
            flags = C.NC_NO_UPDATES
        elif op == C.NC_OP_DELETE and self.host.may_keep(facts):
            flags = C.NC_KEEPS
        return wire.answer(ident, verdict, ruling.row, facts.scope, text, flags)

    def request(
        self, speaker: Speaker, record: bytes, fds: list[int], stop: Callable[[], None]
    ) -> bytes:
        """The reply to a person's request. Raises WireError."""
        return self.people.reply(speaker.pid, record, fds, stop)

    @property
    def dirty(self) -> bool:
        """Whether reports wait to be written to disk."""
        return self.journal.dirty

    @property
    def failing(self) -> bool:
        """Whether they could not be written the last time."""
        return self.journal.failing

    def commit(self) -> None:
        """Writes the reports that wait."""
        self.journal.commit()

    @property
    def has_work(self) -> bool:
        """Whether something can be done when nothing else is."""
        return self.keeper.pressed or self.incoming.waits

    def work(self) -> None:
        """Does some of it."""
        if self.incoming.waits:
            self.incoming.work()
            if not self.incoming.waits:
                self._deletions.sweep()
        elif self.keeper.pressed:
            self._evict()

    def _evict(self) -> None:
        known = [(s.first, s.last) for s in self.sessions.all.values()]
        with contextlib.suppress(OSError):  # a store that cannot be read has trouble enough
            self.keeper.evict(self.configs.of(None), [*known, *self._asleep.values()])

    def tidy(self) -> None:
        """Forgets sessions that were silent too long, and lets go of those that
        are silent now: the journal has them."""
        since = self.configs.since()
        self.journal.forget(since)
        self._evict()
        self.incoming.retry()
        with contextlib.suppress(OSError):  # it is looked at again
            self.incoming.forget(self.keeper.oldest(self.configs.of(None)))
        idle = time.time_ns() - IDLE
        here = {id(speaker.session) for speaker in self._here}
        for name, session in list(self.sessions.all.items()):
            if session.last < idle and id(session) not in here and not session.ledger.tombs:
                del self.sessions.all[name]
                self._guarded.pop(name, None)
                if session.last >= since:
                    self._asleep[name] = session.first, session.last
        self._asleep = {n: times for n, times in self._asleep.items() if times[1] >= since}

    def close(self) -> None:
        """Leaves everything on disk."""
        self.journal.close()
        self._syncing.close()
        self.receipts.close()
        self._repositories.close()
        self._deletions.close()
        self._made.close()

    def allow(self, override: Override) -> None:
        """A person lets one replacement through, or it is used up (`until` 0).
        What is promised to a person, or is no more, outlives this daemon."""
        self.overrides.load(override.packed())
        self.journal.add(Entry(0, b"", time.time_ns(), 0, OVERRIDE, override.packed()))
        self.commit()

    def forget_shown(self, session: Session) -> None:
        """What the session's agent was shown is no longer before it."""
        session.ledger.forget_shown()
        self.journal.add(Entry(0, session.id, time.time_ns(), 0, FORGOT, b""))
        self.commit()

    def facts_of(self, session: Session, path: bytes, fd: int) -> Gathered:
        """What is known of a file where nobody asks to replace it."""
        size = os.fstat(fd).st_size
        asked = Question(C.NC_OP_TRUNCATE, path, b"", 0, size, fd, None, 0)
        nobody = Image(0, 0, 0, 0, b"", (), b"", 0)
        return Gathered(asked, session, nobody, self.guarded(session))

    def guarded(self, session: Session) -> Guarded:
        """What is protected in a session, and by which configuration."""
        config = self.configs.of(session.roots[0] if session.roots else None)
        known = self._guarded.get(session.id)
        if known is None or known.config is not config or known.roots != session.roots:
            known = self._guarded[session.id] = Guarded(
                config, session, self._repositories, self.overrides
            )
        helpers = session.helpers & self.sessions.all.keys() if session.helpers else ()
        known.helpers = [self.guarded(self.sessions.all[name]) for name in helpers]
        return known

    def is_inside(self, pid: int) -> bool:
        """Whether a process belongs to a session."""
        return is_inside(pid, self.sessions.all.values(), [*self.sessions.all, *self._asleep])

    def new_id(self, now: int) -> str:
        """A receipt's name, for one that is written at `now` (ns)."""
        self._receipt += 1
        return f"{now:x}-{self._receipt}"

    def write(self, receipt: Receipt) -> None:
        """A receipt goes to disk."""
        self.receipts.add(receipt)
        self._syncing.written()
        if self.export:
            self.export.written()

    def asleep(self) -> dict[bytes, tuple[int, int]]:
        """The sessions that are on disk alone: first and last time, in ns."""
        return dict(self._asleep)

    # Its own business.

    def _created(self, speaker: Speaker, asked: Question, ident: int) -> bytes:
        """The answer where a deleted name is created again."""
        image, session = speaker.image, speaker.session
        assert image is not None and session is not None
        self.incoming.settle(session, asked.path)
        facts, ruling = self._deletions.judge(
            asked,
            session,
            lambda about, deleted: Gathered(about, session, image, self.guarded(session), deleted),
        )
        self.answers[ruling.verdict] += 1
        text, verdict = b"", ruling.verdict.value
        if facts is not None:
            tomb = session.ledger.tombs.pop(asked.path)
            if ruling.verdict is not Verdict.ALLOW:
                _, receipt = self.record(facts, ruling, Kept(tomb.snapshot))
                text = receipt.reason.encode() if ruling.verdict is Verdict.DENY else b""
            if ruling.verdict is not Verdict.DENY:
                self.replaced(speaker, facts, ruling)
                if asked.source_fd is None and self._holds.wants(facts, ruling):
                    verdict = self._holds.add(facts, asked.fd, tomb.snapshot)
            self._journal(speaker, TAKEN, asked.path)
            self._show_tombs()
        return wire.answer(ident, verdict, ruling.row, b"", text)

    def _closed(self, speaker: Speaker, asked: Question, ident: int) -> bytes:
        """The answer where the agent's process closes what it wrote anew."""
        image, session = speaker.image, speaker.session
        assert image is not None and session is not None
        key, _ = identity(os.fstat(asked.fd))
        kept = Kept(self._holds.snapshot(session, key))
        facts, ruling, trouble = self._holds.judge(
            asked,
            session,
            key,
            lambda about, old, new: Gathered(
                about, session, image, self.guarded(session), old, new
            ),
        )
        text = b""
        if facts is not None and ruling.verdict is Verdict.DENY:
            self.answers[ruling.verdict] += 1
            text = self.record(facts, ruling, trouble=trouble)[1].reason.encode()
            if not trouble:
                now = identity(os.fstat(asked.fd))
                session.ledger.stands_again(*now)
                self._journal(speaker, AGAIN, b"".join(now))
            self.commit()
        elif facts is not None and ruling.row == 7:
            self.record(facts, ruling, kept)  # a cut that somebody allowed
        verdict = Verdict.DENY if text else Verdict.ALLOW
        return wire.answer(ident, verdict.value, ruling.row, b"", text)

    def laid(self, speaker: Speaker, facts: Gathered, snapshot: str) -> None:
        """What was deleted and kept may stand in the way of a new file."""
        for path, tomb in self._deletions.lay(facts, snapshot):
            self._journal(speaker, TOMB, tombs.packed(path, tomb))
        self._show_tombs()

    def _show_tombs(self) -> None:
        self._deletions.show(self.sessions.all.values(), waits=self.incoming.waits)

    def _journal(self, speaker: Speaker, kind: int, data: bytes) -> None:
        assert speaker.session is not None
        self.journal.add(
            Entry(speaker.id, speaker.session.id, time.time_ns(), speaker.pid, kind, data)
        )

    def _wake(self, session: Session) -> None:
        """Replays what was reported of a session before this daemon, or before
        it was let go of."""
        times = self._asleep.pop(session.id, None)
        if times is None:
            return
        session.first, session.last = times
        live, self.sessions.live = self.sessions.live, None
        speakers: dict[int, Speaker] = {}
        try:
            for entry in self.journal.entries(session.id):
                if entry.kind == RECORDS:
                    new = Speaker(entry.speaker, entry.pid)
                    self._replay(speakers.setdefault(entry.speaker, new), entry)
                elif entry.kind == REPLACED:
                    session.ledger.replaced(entries.unpacked(entry.data))
                elif entry.kind == TOMB:
                    session.ledger.tombs.update([tombs.unpacked(entry.data)])
                elif entry.kind == EDIT:
                    session.ledger.edits.update([entries.unpacked_edit(entry.data)])
                elif entry.kind == TAKEN:
                    session.ledger.tombs.pop(entry.data, None)
                elif entry.kind == HOST:
                    session.host.replay(entry.data)
                elif entry.kind == FORGOT:
                    session.ledger.forget_shown()
                elif entry.kind == AGAIN:
                    session.ledger.stands_again(*entries.unpacked_version(entry.data))
        finally:
            self.sessions.live = live

    def _replay(self, speaker: Speaker, entry: Entry) -> None:
        with contextlib.suppress(WireError):  # as when it came
            found, _ = wire.records(entry.data, len(entry.data))
            self.sessions.take(speaker, entry.data, found, entry.time)

    def _start(self) -> None:
        """Takes up what the journal has: tombstones and overrides at once, the
        rest of a session when it is heard of again."""
        self._asleep = self.journal.open(self.configs.since())
        self._speakers = self.journal.last_speaker
        for entry in self.journal.entries(b""):
            self.overrides.load(entry.data)
        self._asleep.pop(b"", None)
        self.sessions.load = self._wake
        self.sessions.kept = self.incoming.kept
        wanted = set(self._asleep) if self.incoming.left else self.journal.having(TOMB)
        for name in wanted & self._asleep.keys():
            self.sessions.get(name, 0)
        self.incoming.caught_up()

    def replaced(self, speaker: Speaker, facts: Gathered, ruling: Ruling) -> None:
        """What was let through is known to the session from now on."""
        asked = facts.asked
        later = ruling.row in (4, 5, 6) and not facts.known_before and facts.known_now
        known = later or ruling.row == 3 or (ruling.row == 4 and facts.known_before)
        if asked.op == C.NC_OP_UPDATE and not known:
            return
        if ruling.row == 3 and asked.op in _IN_PLACE:
            return  # the reports of the writers say as much
        token = facts.image.token
        what = Replaced(asked.path, facts.key, facts.stamp, token, asked.op, known, later)
        facts.session.ledger.replaced(what)
        self._journal(speaker, REPLACED, entries.packed(what))

    def record(
        self, facts: Gathered, ruling: Ruling, kept: Kept | None = None, trouble: str = ""
    ) -> tuple[Ruling, Receipt]:
        """Keeps the old content where that is the verdict and it is not `kept`
        already, and writes the receipt, whose `reason` is the message for a
        refusal. What cannot be kept is refused, but for an edit in place."""
        now = time.time_ns()
        ident = self.new_id(now)
        asked, failure = facts.asked, ""
        if ruling.verdict is Verdict.DENY:
            kept = self.keeper.put_back(facts)
        elif kept is None:
            try:
                kept = self.keeper.keep(facts, ident, self.configs.of(None))
            except OSError as error:
                kept, failure = Kept(), f"{error.strerror}: {error.filename}"
                if asked.op != C.NC_OP_UPDATE:
                    ruling = Ruling(Verdict.DENY, NOT_KEPT)
        note = " ".join(filter(None, (trouble, failure, kept.note, self.configs.trouble)))
        if ruling == Ruling(Verdict.DENY, NOT_KEPT):
            reason = report.not_kept(asked.path, reasons.OPS[asked.op], failure)
        else:
            reason = reasons.told(facts, ruling, self.sessions.all.values(), note)
        used = facts.overriding if ruling.row == 7 else None
        receipt = reasons.receipt(
            facts,
            ruling,
            id=ident,
            time=timestamp(now),
            reason=reason,
            snapshot=kept.name,
            attributes=kept.attributes,
            note=note,
            override=asdict(used) if used else {},
        )
        self.write(receipt)
        if used and used.until:  # only now: what nobody can look up was no use of it
            self.allow(replace(used, until=0))
        return ruling, receipt
