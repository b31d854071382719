"""Gathers what rule.py asks about one question, each fact when it is asked for.

A row that decides early must pay for nothing below it: a walk over processes
costs a hundred microseconds, a question to git milliseconds. What was worked
out stays for the receipt.
"""

from __future__ import annotations

import os
import stat as modes
from itertools import pairwise
from typing import NamedTuple

from noclobber import coverage, cuts, origins
from noclobber.copies import Copies
from noclobber.coverage import Coverage
from noclobber.evidence import Evidence, is_interactive
from noclobber.files import CONTENT_LIMIT, content_of, identity, open_files, reads_through
from noclobber.gitguard import git_holds
from noclobber.guarded import Guarded
from noclobber.holding import Holding, Origin
from noclobber.ledger import Edit, Image, Key, Stamp, is_taken_in, printed_as
from noclobber.lineage import Lineage
from noclobber.once import once
from noclobber.overrides import Override
from noclobber.protected import Place, Standing
from noclobber.report import Extent, extent
from noclobber.rule import Kind
from noclobber.session import Session
from noclobber.voice import Walk
from noclobber.walks import Walks, chain_of, kind
from noclobber.wire import C

TEXT_PROBE = 8192  # bytes; a NUL among them makes it binary
SCOPE_AFTER = 8  # questions of one process before a scope is looked for

# What leaves the old content under its other names.
_LEAVES_INODE = frozenset((C.NC_OP_RENAME, C.NC_OP_EXCHANGE, C.NC_OP_DELETE))


class Question(NamedTuple):
    """May `image` of `session` replace what `fd` is open on? `path` and
    `other` (a rename's source) are what the process calls them."""

    op: int
    path: bytes
    other: bytes
    start: int
    end: int
    fd: int
    source_fd: int | None
    pid: int


class Gathered:
    """The facts of one question (rule.Facts), worked out once each."""

    def __init__(
        self,
        asked: Question,
        session: Session,
        image: Image,
        guarded: Guarded,
        deleted: tuple[Key, Stamp] | None = None,
        new: bytes | None = None,
    ) -> None:
        self.asked = asked
        self.session = session
        self.image = image
        self.guarded = guarded
        self.stat = os.fstat(asked.fd)
        # Of what is gone already `asked.fd` is open on the kept content.
        self.key, self.stamp = deleted or identity(self.stat)
        self._new = new
        self.size = self.stat.st_size

    # The rows' facts.

    @property
    def replaceable(self) -> bool:
        return modes.S_ISREG(self.stat.st_mode) and self.size > 0

    @once
    def protected(self) -> bool:
        place = self.standing.place
        if place is Place.ROOT:
            # Row 3 allows as row 2 does, and needs neither git nor a walk.
            if self.held and not self._seeks_scope:
                return True
            if not self.standing.ignored.ignored:
                return True
        elif place is not Place.OUTSIDE:
            return False
        return self.standing.protected_from(self.kind.value)

    @once
    def held(self) -> bool:
        found = origins.sole_origin(self.session.ledger, self.key, self.stamp)
        if found in (Origin.MAKES, Origin.BRINGS):
            return found is Origin.MAKES
        return coverage.covers(self.authored, 0, self.size)

    @once
    def restamped(self) -> bool:
        return self.key in self.session.ledger.writes and self.holding.was_held(
            self.key, self.stamp
        )

    @once
    def known(self) -> bool:
        start, end = self.asked.start, self.asked.end
        if coverage.covers(self.seen, start, end):
            return True
        # What a `-c` command printed itself counts unless it is its own text
        # that is written: a walk, where only that can make the difference.
        if self._own_command is None or self.grade == "read":
            return False
        every = coverage.union(self.shown, self.authored)
        return coverage.covers(every, start, end) and self.kind is not Kind.VOICED

    @property
    def known_before(self) -> bool:
        """Whether the session knew all of T when W's command was given."""
        return self.held or coverage.covers(self.seen, 0, self.size)

    @property
    def known_now(self) -> bool:
        """The same, with what W's command printed itself up to now."""
        if self._own_command is None or self.grade == "read":
            return False
        return coverage.covers(coverage.union(self.shown, self.authored), 0, self.size)

    @once
    def copied(self) -> bool:
        copies = Copies(
            self.session.ledger, self.key, self.stamp, self.asked.path, self._is_lasting
        )
        if self.asked.op in _LEAVES_INODE and self.stat.st_nlink > 1 and copies.linked():
            return True
        content = self.content
        return content is not None and copies.stand(content)

    def _is_lasting(self, path: bytes) -> bool:
        """Whether a copy at that place counts: not in a temp directory."""
        return self.guarded.protection.standing(path).place is not Place.TEMPORARY

    @once
    def transform(self) -> bool:
        read = self.lineage_read
        if self.image.agent and self.grade == "read":
            read = coverage.union(read, self.read)
        return coverage.covers(read, self.asked.start, self.asked.end)

    @property
    def cut(self) -> bool:
        return bool(self.lost)

    @once
    def lost(self) -> Coverage:
        """What the agent's own process leaves out of T, by all evidence unseen:
        it writes a cut back."""
        old, new = self.content, self._replacing
        if not self.image.agent or not self.text or old is None or new is None:
            return coverage.NOTHING
        return coverage.subtract(cuts.lost(old, new), self._evident)

    @property
    def _replacing(self) -> bytes | None:
        """What takes T's place; None where it is not there yet."""
        asked = self.asked
        if asked.source_fd is not None:
            return content_of(asked.source_fd, os.fstat(asked.source_fd).st_size)
        if asked.op == C.NC_OP_SHRINK and asked.start:
            return (self.content or b"")[: asked.start]
        return self._new

    @property
    def override(self) -> bool:
        return self.overriding is not None

    @once
    def text(self) -> bool:
        content = self.content
        return content is not None and b"\0" not in content[:TEXT_PROBE]

    @property
    def output(self) -> bool:
        return self.standing.output

    @property
    def partial(self) -> bool:
        return bool(self.lineage_read) and not self.transform

    @once
    def kind(self) -> Kind:
        return kind(self.walk)

    @once
    def viewed(self) -> bool:
        if self.image.agent and self.lineage_read:
            return True  # its own Read tool showed some of it
        ledger, evidence = self.session.ledger, self._evidence
        stood = ledger.past(self.key, self.asked.path)
        if self.grade == "read":
            return any(map(ledger.was_read, stood))
        content = self.content
        if content is not None and evidence.viewed(content, evidence.readers(stood)):
            return True
        return evidence.saw_other_version(stood, self.key, self.stamp)

    @once
    def git_holds(self) -> bool:
        if self.size > CONTENT_LIMIT:
            return False
        return git_holds(self.guarded.repositories, self.asked.path, self.asked.fd)

    @property
    def read_index(self) -> bool:
        """Whether W itself read the index of the repository that T lies in, as
        whoever does git's work must."""
        repository = self.guarded.repositories.at(self.asked.path)
        try:
            index = os.stat(repository.index) if repository else None  # noqa: PTH116
        except OSError:
            return False
        if index is None:
            return False
        key, stamp = identity(index)
        return bool(self.session.ledger.read_by([self.image.token], key, stamp))

    @property
    def programs_denied(self) -> bool:
        return self.guarded.config.programs == "deny"

    @property
    def scope(self) -> bytes:
        """A directory under which nothing is protected from W, or empty."""
        if "protected" in self.__dict__ and not self.protected:
            return self.standing.scope(self.kind.value)
        return b""

    # What they are made of.

    @once
    def overriding(self) -> Override | None:
        """Who lets T be replaced, and why."""
        return self.guarded.override(self.asked.path)

    @once
    def standing(self) -> Standing:
        """Where T lies."""
        return self.guarded.standing(self.asked.path)

    @property
    def _seeks_scope(self) -> bool:
        """Whether W has asked so often that it should be told where it need
        not: worth a question to git, now and then."""
        asked = self.image.asked
        return asked >= SCOPE_AFTER and asked & (asked - 1) == 0

    @once
    def walk(self) -> Walk:
        """The walk from W to its command."""
        return Walks(self.session, self.holding).live(self.image, self.asked.pid)

    @property
    def grade(self) -> str:
        """The weaker grade in force."""
        return "shown" if self.session.attested else "read"

    @once
    def content(self) -> bytes | None:
        """T's present bytes, None where they are not looked at."""
        return content_of(self.asked.fd, self.size)

    @once
    def holding(self) -> Holding:
        return Holding(
            self.session.ledger,
            origins.origin,
            self.grade == "read",
            self.image.command if self._own_command else b"",
        )

    @once
    def authored(self) -> Coverage:
        """What the session wrote of T, in row 3's sense."""
        return self.holding.held(self.key, self.stamp)

    @once
    def read(self) -> Coverage:
        """What any process of the session read of T's present version."""
        return self.session.ledger.read_by(None, self.key, self.stamp)

    @once
    def shown(self) -> Coverage:
        """What of T's present bytes the session's commands printed, and what
        of its present version a harness said that it showed."""
        content = self.content
        printed = self._evidence.shown(content) if content is not None else ()
        return coverage.union(printed, self._told, self.helped)

    @once
    def helped(self) -> Coverage:
        """What sub-agents that are at work were shown: which of them it is that
        had W begin, or the agent itself, nobody can tell."""
        found: list[Coverage] = []
        for helper in self.guarded.helpers:
            ledger = helper.session.ledger
            found.append(ledger.read_by(ledger.told, self.key, self.stamp))
            if self.content is not None:
                found.append(helper.evidence.shown(self.content))
        return coverage.union(*found)

    @once
    def _evidence(self) -> Evidence:
        """What the session was shown, W's command's output up to now with it."""
        self.session.catch_up(self.image.command)
        return self.guarded.evidence

    @once
    def _told(self) -> Coverage:
        told = self.session.ledger.told
        return self.session.ledger.read_by(told, self.key, self.stamp) if told else ()

    @once
    def _own_command(self) -> frozenset[bytes] | None:
        """W's command, where what it printed itself is no evidence for a text
        that it was given."""
        self._evidence.take_in()
        commands = self.session.ledger.commands
        own = printed_as(self.image.command)
        if not any(ident in commands and commands[ident].text for ident in own):
            return None
        if is_interactive(self._told_to):
            return None
        return own

    @property
    def _told_to(self) -> tuple[bytes, ...]:
        """The words of W's command; of a child of the agent: its own."""
        ledger = self.session.ledger
        command = ledger.command_of(self.image)
        if not is_taken_in(self.image.command):
            return command.argv if command else ()
        agents = {ledger.images[token].pid for token in ledger.agents}
        chain = chain_of(self.session, self.image, self.asked.pid)
        for below, program in pairwise(chain):
            if program.pid in agents:
                return tuple(map(os.fsencode, below.argv))
        return ()

    @once
    def seen(self) -> Coverage:
        """What the agent knew of T when W was told what to do: by the grade in
        force, and as its author. What its own process read proves nothing of
        what it was told; that it writes a line back does."""
        if self.image.agent:
            kept = coverage.gaps(self.lost, 0, self.size) if self.lost else coverage.NOTHING
            return coverage.union(self._evident, kept)
        if self.grade == "read":
            return coverage.union(self.read, self.authored)
        shown = self.shown
        if self._own_command is not None and self.content is not None:
            printed = self._evidence.shown(self.content, self._own_command)
            shown = coverage.union(printed, self._told, self.helped)
        return coverage.union(shown, self.authored)

    @once
    def _evident(self) -> Coverage:
        """What the session was shown of T, by whatever way, and what it wrote."""
        return coverage.union(self.shown, self.authored)

    @once
    def lineage(self) -> Lineage:
        return Lineage(self.session.ledger, self.key, self.size)

    @once
    def behind(self) -> frozenset[int]:
        """Tokens of the images whose reading stands behind W."""
        ledger = self.session.ledger
        one = ledger.agents if self.image.agent else (self.image.token,)
        tokens = self.lineage.of(one)
        if self.asked.source_fd is not None:
            source: tuple[Key, Stamp] = identity(os.fstat(self.asked.source_fd))
            tokens |= self.lineage.of_source(*source)
        for source in self._sources:
            tokens |= self.lineage.of_source(*source)
        return tokens

    @once
    def _open(self) -> list[tuple[str, Key, Stamp]]:
        """The regular files that W has open, their fdinfo's names first."""
        return [(fdinfo, *identity(stat)) for fdinfo, stat in open_files(self.asked.pid)]

    @property
    def _sources(self) -> list[tuple[Key, Stamp]]:
        """Files of the session's making that W has open for reading: cp opens
        what it copies before it asks, and reads it afterwards."""
        writes = self.session.ledger.writes
        return [
            (key, stamp)
            for fdinfo, key, stamp in self._open
            if key != self.key and key in writes and reads_through(fdinfo)
        ]

    @property
    def still_open(self) -> bool:
        """Whether W holds T itself open: perl -i deletes what it reads."""
        return any(key == self.key for _, key, _ in self._open)

    @once
    def lineage_read(self) -> Coverage:
        """What W's lineage read or wrote of T's present version."""
        return self.lineage.read(self.behind, self.stamp)

    @once
    def extent(self) -> Extent:
        """What of T was seen, for people."""
        return extent(self.content if self.text else None, self.size, self.seen)

    def opened(self, snapshot: str) -> tuple[Key, Edit]:
        """T is open for writing in place: what was kept may have to go back."""
        edit = Edit(self.image.command, self.stamp, snapshot)
        self.session.ledger.edits[self.key] = edit
        return self.key, edit

    def settle(self) -> None:
        """Works out what a receipt needs while the descriptor is open."""
        self.extent, self.git_holds, self.content  # noqa: B018 (cached)

    def explain(self) -> dict[str, object]:
        """What decided, for `noclobber explain`: the lineage and the walk."""
        images = self.session.ledger.images
        lineage = [
            {"pid": i.pid, "argv": [os.fsdecode(word) for word in i.argv]}
            for i in (images[t] for t in sorted(self.behind) if t in images)
        ]
        walk = [
            {"pid": step.program.pid, "name": step.name, "kind": step.kind, "why": step.why}
            for step in self.walk.steps
        ]
        return {"lineage": lineage, "walk": walk, "lineage_read": list(self.lineage_read)}
