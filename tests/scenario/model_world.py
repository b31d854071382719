"""The tree of test_model.py as it should be, and what may happen to it.

It says what stands where, who wrote it, and what must become of a voiced
replacement; model_steps.py changes it, and test_model.py holds it against the
disk.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from model_oracle import Knowledge

MUST_ALLOW, MUST_DENY, EITHER = "allow", "deny", "either"
OUTPUT = "out.log"  # an output by convention: never refused
NAMES = ("a.txt", "b.py", "c", OUTPUT, "d.txt", "e.txt", "g.txt")


@dataclass
class File:
    """A file of the tree. `names`: all that it had."""

    content: bytes
    names: set[str]


@dataclass(frozen=True)
class Tomb:
    """What a session deleted. `viewed`, `known` whole, `strange`: surely;
    `sure`: and nothing happened at that name since."""

    content: bytes
    viewed: bool
    known: bool
    strange: bool  # it never had to do with it, nor met a line of it
    sure: bool = True


@dataclass
class World:
    """Files by name, what git holds, and what each session knows."""

    files: dict[str, File] = field(default_factory=dict)
    committed: dict[str, bytes] = field(default_factory=dict)
    sessions: dict[str, Knowledge] = field(default_factory=dict)
    copies: set[tuple[str, str, str]] = field(default_factory=set)  # session, one, other
    tombs: dict[tuple[str, str], Tomb] = field(default_factory=dict)
    past: list[tuple[str, bytes]] = field(default_factory=list)
    made: int = 0

    # Text that stands nowhere else.

    def token(self) -> str:
        self.made += 1
        return hashlib.blake2b(b"%d" % self.made, digest_size=5).hexdigest()

    def text(self, count: int, style: int) -> bytes:
        """`count` lines: of their own, equal ones among them, all of one
        kind, or one long line; style 5 has CRLF, style 6 no last newline."""
        own = self.token()
        lines = [
            f"line {n} of {own} has {'0123456789abcdefghijkl'[: n % 23]}" for n in range(count)
        ]
        if style == 1:
            lines[::4] = [("}", "", "    return 0")[n % 3] for n in range(len(lines[::4]))]
        elif style == 2:
            lines = [f"same line of {own}"] * count
        elif style == 3:
            lines = [",".join(lines)]
        elif style == 4:
            lines = [line if n % 9 == 0 else "  pass" for n, line in enumerate(lines)]
        end = "\r\n" if style == 5 else "\n"
        text = "".join(line + end for line in lines).encode()
        return text[:-1] if style == 6 else text

    # What is where.

    def content(self, name: str) -> bytes:
        return self.files[name].content

    @property
    def present(self) -> list[str]:
        return sorted(self.files)

    def free(self, session: str) -> list[str]:
        """Names that are free, and that the session deleted nothing at."""
        taken = {name for by, name in self.tombs if by == session} | self.files.keys()
        return [name for name in NAMES if name not in taken]

    # Changes. `by` is a session, "" somebody else.

    def change(self, name: str, content: bytes, by: str, *, anew: bool = False) -> None:
        """The bytes at `name` are others now (`anew`: in a new file)."""
        if name in self.files and not anew:
            self.files[name].content = content
        else:
            self.files[name] = File(content, {name})
        self.tombs.pop((by, name), None)
        self._moved_on(name, by)

    def touch(self, name: str, by: str) -> None:
        """Somebody gave it new times. What was printed of it still stands
        there; whether these are the bytes that a session wrote, only a hash
        could tell, and DESIGN lets a version be without one."""
        for session, knowledge in self.sessions.items():
            if session != by:
                knowledge.written.pop(name, None)

    def take(self, name: str, by: str) -> None:
        """`name` is deleted."""
        gone = self.files.pop(name)
        if by:
            knowledge = self.sessions[by]
            viewed = knowledge.viewed(name, gone.content)
            known = knowledge.knows(name, gone.content)
            strange = not gone.names & knowledge.touched and not knowledge.met(gone.content)
            tomb = Tomb(gone.content, viewed, known, strange)
            self.tombs[by, name] = tomb
            for other in gone.names - {name}:
                if other not in self.files:
                    self.tombs[by, other] = replace(tomb, sure=False)
        self._moved_on(name, by)

    def move(self, name: str, new: str, by: str) -> None:
        """`name` is called `new` now, which was free."""
        moved = self.files.pop(name)
        moved.names.add(new)
        written = self.sessions[by].written.get(name)
        self._moved_on(name, by)
        self._moved_on(new, by)
        self.files[new] = moved
        if written:
            self.sessions[by].written[new] = written
        self.sessions[by].touched.add(new)

    def _moved_on(self, name: str, by: str) -> None:
        self.copies = {c for c in self.copies if name not in c[1:]}
        for session, knowledge in self.sessions.items():
            knowledge.written.pop(name, None)
            if session == by:
                knowledge.touched.add(name)
            elif (tomb := self.tombs.get((session, name))) is not None:
                self.tombs[session, name] = replace(tomb, sure=False)

    # Verdicts.

    def judge(self, session: str, name: str, start: int = 0) -> str:
        """What must become of a voiced replacement of [start, size)."""
        knowledge = self.sessions[session]
        if name not in self.files:
            return self._judge_again(session, name)
        content = self.content(name)
        if start >= len(content) or name == OUTPUT:
            return MUST_ALLOW
        if knowledge.knows(name, content, start):
            assert knowledge.may_know(content, start), "the oracle contradicts itself"
            return MUST_ALLOW
        if any(session == s and name in (a, b) for s, a, b in self.copies):
            return MUST_ALLOW
        if self._stands_elsewhere(name, content) or knowledge.may_know(content, start):
            return EITHER
        return MUST_DENY

    def _judge_again(self, session: str, name: str) -> str:
        """The same of a name that the session, or somebody, deleted."""
        tomb = self.tombs.get((session, name))
        if tomb is None:
            return MUST_ALLOW
        if tomb.sure and (tomb.known or tomb.strange or not tomb.content or name == OUTPUT):
            return MUST_ALLOW
        knowledge = self.sessions[session]
        if self._stands_elsewhere(name, tomb.content) or not tomb.sure:
            return EITHER
        if tomb.viewed and not knowledge.may_know(tomb.content):
            return MUST_DENY
        return EITHER

    def judge_partial(self, session: str, name: str, source: bytes) -> str:
        """What must become of `name` when a filter's `source` goes over it."""
        content = self.content(name)
        verdict = self.judge(session, name)
        if verdict is MUST_DENY and self.git_holds(name, content):
            return EITHER
        lost = content[len(source) :] if content.startswith(source) else content
        if verdict is MUST_DENY and self.sessions[session].may_know(lost):
            return EITHER
        return verdict

    def must_be_kept(self, session: str, name: str, content: bytes) -> bool:
        """Whether a copy must be kept where `content` goes without refusal."""
        knowledge = self.sessions[session]
        return bool(
            content
            and not self.git_holds(name, content)
            and not self._stands_elsewhere(name, content)
            and not knowledge.may_know(content)
        )

    def git_holds(self, name: str, content: bytes) -> bool:
        return self.committed.get(name) == content

    def _stands_elsewhere(self, name: str, content: bytes) -> bool:
        return any(f.content == content for n, f in self.files.items() if n != name)
