"""The rule: a file may be replaced only by someone who has seen what the
replacement destroys.

`decide` is DESIGN's table, row by row; the first row that fits wins. Pure:
facts in, ruling out. Facts that cost something (a walk over processes, a
question to git, matching text) are properties worked out when they are asked
for, so a row that decides early pays for nothing below it.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple, Protocol

BESIDE = 12  # in the place of a row: the dirty guard and the tier, beside the table


class Kind(Enum):
    """Whose bytes the process writes."""

    VOICED = "voiced"  # the agent's own text
    DIRECT = "direct"  # a program that the agent's shell started
    DRIVEN = "driven"  # a program below a driver: make, git, npm
    UNKNOWN = "unknown"  # nothing could be learned of it


class Verdict(IntEnum):
    """What the process is told. The values are protocol.h's nc_verdict."""

    ALLOW = 0
    DENY = 1
    SNAPSHOT = 2  # allow, after the old content was kept


class Ruling(NamedTuple):
    """A verdict, and the row of the table (1 to 11) that gave it."""

    verdict: Verdict
    row: int


class Facts(Protocol):
    """What the table asks about a target T, a process W and a session S.
    "Destroyed" is the range that is judged: all of T, or what a shrink cuts."""

    @property
    def replaceable(self) -> bool:
        """T is there, regular and not empty."""

    @property
    def protected(self) -> bool:
        """T is protected from W."""

    @property
    def held(self) -> bool:
        """S wrote every byte of T: the agent's text, a program's output."""

    @property
    def restamped(self) -> bool:
        """S held T, and since then its ctime has changed: its mode, it seems."""

    @property
    def known(self) -> bool:
        """What S was shown and what S wrote together cover what is destroyed."""

    @property
    def copied(self) -> bool:
        """T's present bytes stand in a plain copy that S made from T or to T."""

    @property
    def transform(self) -> bool:
        """W's lineage read or wrote all of what is destroyed."""

    @property
    def cut(self) -> bool:
        """W is the agent's own process, and what it puts in T's place is a part
        of T of which the rest is not known."""

    @property
    def override(self) -> bool:
        """A person allowed one replacement of T."""

    @property
    def text(self) -> bool:
        """T is text: no NUL in its first 8 KiB."""

    @property
    def output(self) -> bool:
        """T's name is an output by convention (`*.log`)."""

    @property
    def partial(self) -> bool:
        """W's lineage read a part of T and not the rest."""

    @property
    def kind(self) -> Kind:
        """What W is."""

    @property
    def viewed(self) -> bool:
        """S viewed a part of T, or saw an older version."""

    @property
    def git_holds(self) -> bool:
        """T's present bytes are in HEAD or the index."""

    @property
    def programs_denied(self) -> bool:
        """The configuration's `programs` is "deny"."""


def decide(facts: Facts) -> Ruling:
    """The verdict on a replacement of T by W in S."""
    if not facts.replaceable:
        return Ruling(Verdict.ALLOW, 1)
    if not facts.protected:
        return Ruling(Verdict.ALLOW, 2)
    if facts.held:
        return Ruling(Verdict.ALLOW, 3)
    if facts.known:
        return Ruling(Verdict.ALLOW, 4)
    if facts.restamped:
        return _kept(facts, 3)
    if facts.copied:
        return _kept(facts, 5)
    if facts.transform and not facts.cut:
        return _kept(facts, 6)
    if facts.override:
        return Ruling(Verdict.SNAPSHOT, 7)  # always with a receipt
    if facts.text and not facts.output:
        if facts.partial and facts.kind is not Kind.DRIVEN and not facts.git_holds:
            return Ruling(Verdict.DENY, 8)
        if facts.kind is Kind.VOICED:
            return Ruling(Verdict.DENY, 9)
        if (
            facts.programs_denied
            and facts.kind is not Kind.DRIVEN
            and facts.viewed
            and not facts.git_holds
        ):
            return Ruling(Verdict.DENY, 10)
    return _kept(facts, 11)


def _kept(facts: Facts, row: int) -> Ruling:
    """A snapshot, left out where git holds the bytes."""
    return Ruling(Verdict.ALLOW if facts.git_holds else Verdict.SNAPSHOT, row)


def decide_deletion(facts: Facts) -> Ruling:
    """A deletion is never refused; what the session did not make is kept."""
    if not facts.replaceable:
        return Ruling(Verdict.ALLOW, 1)
    if not facts.protected:
        return Ruling(Verdict.ALLOW, 2)
    if facts.held:
        return Ruling(Verdict.ALLOW, 3)
    return _kept(facts, 11)


def decide_update(facts: Facts) -> Ruling:
    """An in-place opening is an edit, never refused; where the agent or a
    program of its shell edits text that is not known whole, it is kept, also
    where git holds it: a shrink that is refused later puts it back."""
    if not facts.replaceable:
        return Ruling(Verdict.ALLOW, 1)
    if not facts.protected:
        return Ruling(Verdict.ALLOW, 2)
    if facts.held:
        return Ruling(Verdict.ALLOW, 3)
    if facts.known:
        return Ruling(Verdict.ALLOW, 4)
    if facts.text and not facts.output and facts.kind is not Kind.DRIVEN:
        return Ruling(Verdict.SNAPSHOT, 11)
    return Ruling(Verdict.ALLOW, 11)
