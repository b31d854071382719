"""Guards what is the host's: work that was uncommitted when a session began,
and all of a root in the read-only tier.

Git is asked about before it starts (`starts`), by its arguments; behind that
stand the files themselves (`forbids`), for a git that nobody asked about and
for programs that do as git does. Questions to git run aside: an answer may
come later than the question, and other sessions do not wait for it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from noclobber import dirty, gitargs, gitreads, report, wire
from noclobber.aside import Aside
from noclobber.config import Config
from noclobber.dirty import Git, State
from noclobber.endangered import COMMANDS
from noclobber.gitargs import Invocation
from noclobber.gitcalls import Found, Start, is_change, is_git, look, path_of, variables
from noclobber.gitguard import git_holds
from noclobber.journal import HOST, Entry
from noclobber.ledger import Image
from noclobber.overrides import Override
from noclobber.refusals import NOTHING, Refusals
from noclobber.repository import top_of
from noclobber.rule import BESIDE, Kind, Ruling, Verdict
from noclobber.session import Session, Speaker
from noclobber.wire import C, WireError

if TYPE_CHECKING:
    from noclobber.facts import Gathered
    from noclobber.guard import Guard

Done = Callable[[bytes], None]

ENDS_WITHIN = 60_000  # ms in which a commit is expected to end
MEASURED = 50  # files of one refusal whose extent is worked out
REMEMBERED = 4096  # command lines that git resolved

_SUPERVISE: dict[str, int] = {
    "never": 0,
    "auto": C.NC_SUPERVISE,
    "always": C.NC_SUPERVISE | C.NC_SUPERVISE_ALL,
}

# These take the old content in and keep it, as an edit does.
_EDITS = frozenset((b"apply", b"am", b"merge-file", b"checkout", b"switch"))


class HostGuard:
    """What `guard` asks when the host's work may be at stake."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._refusals = Refusals(guard)
        self.aside = Aside()
        self._looking: dict[bytes, list[Callable[[], None]]] = {}
        self._looks: dict[tuple[bytes, ...], bool] = {}

    # The start of a command.

    def begin(self, speaker: Speaker, record: bytes, done: Done) -> None:
        """Answers NC_BEGIN once the state of every root is known. Raises
        WireError."""
        _, _, _, flags, tier, *sizes = wire.BEGIN.unpack_from(record)
        name, command, task, listed = wire.strings(record, wire.BEGIN.size, len(record), sizes)
        if not 0 < len(name) <= C.NC_ID_MAX:
            raise WireError("a command without a session")
        session = self._guard.sessions.get(name, time.time_ns())
        if flags & C.NC_LIFTS and not self._guard.is_inside(speaker.pid):
            whose = b"" if flags & C.NC_AGENT else command
            self._keep(session, session.host.lift(whose, os.fsdecode(task)))

        def answer() -> None:
            root = next(iter([*session.roots, *wire.words(listed)]), None)
            done(self._begun(speaker, session, command, tier, self._guard.configs.of(root)))

        new = [root for root in wire.words(listed) if root not in session.host.begun]
        waiting = self._looking.get(name)
        if waiting is not None:  # another command of the session came first
            done(_looking())
            waiting.append(lambda: self.begin(speaker, record, done))
            return
        modes = {root: self._guard.configs.anew(root).on_dirty for root in new}
        asked = [root for root in new if modes[root] != "ignore" and top_of(root)]
        for root in set(new).difference(asked):
            self._keep(session, session.host.began(root, None, read_only=False))
        if not asked:
            answer()
            return
        done(_looking())
        self._looking[name] = []

        def looked(found: list[State] | Exception) -> None:
            states = [State()] * len(asked) if isinstance(found, Exception) else found
            for root, state in zip(asked, states, strict=True):
                read_only = modes[root] == "read-only"
                self._keep(session, session.host.began(root, state, read_only=read_only))
            self._guard.commit()
            answer()
            for again in self._looking.pop(name):
                again()

        self.aside.run(lambda: [dirty.look(root) for root in asked], looked)

    def _begun(
        self, speaker: Speaker, session: Session, command: bytes, tier: int, config: Config
    ) -> bytes:
        host = session.host
        if host.read_only and tier != C.NC_READ_ONLY:
            task = host.lifted(command)
            if task is None:
                tier = C.NC_READ_ONLY
            else:
                nobody = Image(0, 0, speaker.pid, 0, b"", (), command, 0)
                root = min(host.begun, default=b"/")
                reason = report.lifted(task)
                self._refusals.receipt(session, nobody, "tier", root, Verdict.ALLOW, reason)
        self._guard.fail_mark.show()
        flags = C.NC_FAIL_OPEN if config.fail == "open" else 0
        flags |= _SUPERVISE[config.supervisor]
        limit = config.shown.whole
        return wire.record(C.NC_BEGUN, wire.BEGUN, tier, int(host.has_any), limit, 0, flags=flags)

    def _keep(self, session: Session, change: bytes) -> None:
        self._guard.journal.add(Entry(0, session.id, time.time_ns(), 0, HOST, change))

    # Git, before it starts.

    def starts(self, speaker: Speaker, record: bytes, fds: list[int], done: Done) -> None:
        """Answers NC_EXEC. Raises WireError."""
        _, _, _, flags, ident, *sizes = wire.EXEC.unpack_from(record)
        program, argv, environ = wire.strings(record, wire.EXEC.size, len(record), sizes)
        image, session = speaker.image, speaker.session
        if image is None or session is None or not fds:
            raise WireError("a program that nobody starts")
        words = tuple(wire.words(argv))
        call = gitargs.parse(program, words)
        start = Start(
            speaker, session, image, ident, program, words, call,
            Git(path_of(fds[0]), call.options, variables(environ)),
            bool(flags & C.NC_ASKS_READ_ONLY), bool(flags & C.NC_CUT),
        )  # fmt: skip
        if start.read_only:
            passes = gitreads.is_look(call.name, call.words) or (
                call.name in gitreads.BELOW and is_git(image) and self.only_looks(image)
            )
        else:
            passes = call.name in gitreads.KNOWN and call.name not in COMMANDS
        if passes or not (start.read_only or session.host.has_any):
            if start.read_only:
                self._remember(words, True)
            self._watch(start)
            done(wire.answer(ident, C.NC_ALLOW, 0))
            return
        done(wire.answer(ident, C.NC_WAIT, 0))
        self.aside.run(lambda: look(start), lambda found: done(self._judged(start, found)))

    def _judged(self, start: Start, found: Found | Exception) -> bytes:
        text = b""
        if isinstance(found, Found) and found.call is not None:
            self._remember(start.argv, _only_looks(found.call))
            text = self._refusal(start, found.call, found).encode()
        verdict = Verdict.DENY if text else Verdict.ALLOW
        self._guard.answers[verdict] += 1
        return wire.answer(start.ident, verdict.value, BESIDE, b"", text)

    def _refusal(self, start: Start, call: Invocation, found: Found) -> str:
        """The message, with its receipts written; empty where it may start."""
        session, host = start.session, start.session.host
        lost = [p for p in host.owned(found.danger.files) if not self._is_own(session, p)]
        stashes = len(found.danger.stashes & host.stashes)
        image = replace(start.image, exe=start.program, argv=start.argv)
        if start.read_only and is_change(call) and self._is_below(session, found.places):
            root = next((r for r in session.roots if self._is_below(session, (r,))), b"/")
            reason = report.read_only(b"git " + call.name, root)
            self._refused(session, image, lost or [root], reason)
            return reason
        task = host.lifted(start.image.command)
        if task is not None:
            for path in lost:
                # What git starts for it asks again.
                once = (start.image.command, path)
                if once not in host.lifted_for:
                    host.lifted_for.add(once)
                    reason = report.lifted(task)
                    self._refusals.measured(session, image, path, Verdict.ALLOW, reason)
            return ""
        guarded = self._guard.guarded(session)
        allowed = [each for each in map(guarded.override, lost) if each]
        if lost and not stashes and len(allowed) == len(lost):
            for path, by in zip(lost, allowed, strict=True):
                self._allow(session, image, path, by)
            return ""
        if not lost and not stashes:
            return ""
        reason = report.git_refusal(call.name, lost, stashes)
        where = next((each for each in found.places), b"/")
        self._refused(session, image, lost or [where], reason)
        return reason

    def _allow(self, session: Session, image: Image, path: bytes, by: Override) -> None:
        """Uses up what a person allowed; the file is guarded no longer."""
        if by.until:
            self._guard.allow(replace(by, until=0))
            self._keep(session, session.host.committed([path]))
        reason = f"{by.by} allowed it: {by.reason}"
        self._refusals.measured(session, image, path, Verdict.ALLOW, reason)

    def _refused(self, session: Session, image: Image, paths: list[bytes], reason: str) -> None:
        for number, path in enumerate(paths):
            measure = number < MEASURED
            self._refusals.measured(session, image, path, Verdict.DENY, reason, measure=measure)
        self._guard.commit()

    def _is_own(self, session: Session, path: bytes) -> bool:
        """Whether the session wrote all that stands there by now."""
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return not path.endswith(b"/")  # gone: nothing is left to lose
        try:
            facts = self._guard.facts_of(session, path, fd)
            return facts.replaceable and facts.held
        finally:
            os.close(fd)

    def _is_below(self, session: Session, places: tuple[bytes, ...]) -> bool:
        return any(
            place == root or place.startswith(root.rstrip(b"/") + b"/")
            for place in places
            for root in session.roots
        )

    def _watch(self, start: Start) -> None:
        """What a commit takes in is uncommitted no longer: that is looked up as
        soon as it has ended, before the session can change it again."""
        call, session = start.call, start.session
        commits = call.name == b"commit" or b"--continue" in call.words
        if not session.host.files or not commits:
            return
        try:
            pid = os.pidfd_open(start.image.pid)
        except OSError:
            return

        def ended() -> tuple[bytes, set[bytes]] | None:
            with os.fdopen(pid):
                poll = select.poll()
                poll.register(pid, select.POLLIN)
                poll.poll(ENDS_WITHIN)
            top = start.git.ask("rev-parse", "--show-toplevel")
            entries = start.git.status()
            if not top or entries is None:
                return None
            below = top[:-1].rstrip(b"/") + b"/"
            return below, {below + entry.path for entry in entries}

        def looked(found: tuple[bytes, set[bytes]] | Exception | None) -> None:
            if isinstance(found, tuple):
                below, still = found
                gone = [p for p in session.host.files if p.startswith(below) and p not in still]
                if gone:
                    self._keep(session, session.host.committed(gone))

        self.aside.run(ended, looked)

    # The files themselves.

    def forbids(self, facts: Gathered, ruling: Ruling) -> bool:
        """Whether what the table lets through is git's way with the host's
        uncommitted work: by git, or by a program that reads its index."""
        host, path = facts.session.host, facts.asked.path
        if path not in host.files or ruling.verdict is Verdict.DENY or ruling.row < 4:
            return False
        if facts.asked.op in (C.NC_OP_UPDATE, C.NC_OP_CREATE):
            return False
        if host.lifted(facts.image.command) is not None or facts.override:
            return False
        if not self._acts_as_git(facts, ruling):
            return False
        repositories = facts.guarded.repositories
        return not git_holds(repositories, path, facts.asked.fd, ("HEAD",))

    def may_keep(self, facts: Gathered) -> bool:
        """Whether a process may go on deleting without a question for each: it
        keeps what it deletes, and is none that `forbids` is about."""
        session = facts.session
        if session.tier != C.NC_WORKSPACE_WRITE:
            return False
        return not session.host.files or not (is_git(facts.image) or facts.read_index)

    def _acts_as_git(self, facts: Gathered, ruling: Ruling) -> bool:
        image = facts.image
        if is_git(image):
            name = gitargs.parse(image.exe, image.argv).name
            return name not in _EDITS or not facts.transform
        if ruling.row != 11 or facts.kind not in (Kind.DIRECT, Kind.DRIVEN):
            return False
        return facts.read_index

    # The read-only tier.

    def changes(self, facts: Gathered, ident: int) -> bytes:
        """The answer to NC_OP_CHANGE: no, but for what a look writes into git's
        own store."""
        session, image, path = facts.session, facts.image, facts.asked.path
        if (scope := facts.standing.store) and is_git(image) and self.only_looks(image):
            return wire.answer(ident, C.NC_ALLOW, BESIDE, scope)
        reason = report.read_only(b"", path)
        self._guard.answers[Verdict.DENY] += 1
        extent = facts.extent if facts.replaceable else NOTHING
        self._refusals.receipt(session, image, "change", path, Verdict.DENY, reason, extent)
        self._guard.commit()
        return wire.answer(ident, C.NC_DENY, BESIDE, b"", reason.encode())

    def only_looks(self, image: Image) -> bool:
        """Whether a git process is one that changes nothing, or that such a
        one started."""
        known = self._looks.get(image.argv)
        if known is not None:
            return known
        return _only_looks(gitargs.parse(image.exe, image.argv))

    def _remember(self, argv: tuple[bytes, ...], looks: bool) -> None:
        if len(self._looks) >= REMEMBERED:
            self._looks.clear()
        self._looks[argv] = looks


def _only_looks(call: Invocation) -> bool:
    below = call.name in gitreads.BELOW or call.name == b"clone"  # it links objects
    return below or gitreads.is_look(call.name, call.words)


def _looking() -> bytes:
    return wire.record(C.NC_BEGUN, wire.BEGUN, 0, 0, 0, 0, flags=C.NC_LOOKING)
