"""A harness's hooks: an event comes in, what it says is told or asked, and the
harness gets its answer.

The daemon opens no file by a path of its own: the hook, which sees what its
harness sees, is asked for each, and the work goes on when it hands one over.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import weakref
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from noclobber import telling, wire
from noclobber.crediting import Credit, Crediting
from noclobber.harness import ADAPTERS
from noclobber.harness.events import (
    Adapter,
    Answer,
    Asks,
    Began,
    Compacted,
    Deletes,
    Edited,
    Edits,
    Heard,
    Left,
    Page,
    Printed,
    Wrote,
)
from noclobber.judging import Judging
from noclobber.launcher import LAUNCHER
from noclobber.pages import encoded
from noclobber.placing import whole
from noclobber.protected import default_root
from noclobber.scene import Changing, Handed, Looking, Scene
from noclobber.session import Session
from noclobber.telling import Telling
from noclobber.wire import C, WireError

if TYPE_CHECKING:
    from noclobber.guard import Guard
    from noclobber.session import Speaker

_VARIABLES = """\
if [ "${{NOCLOBBER_SESSION-}}" != {session} ] && [ -x {launcher} ]; then
if [ -n "${{BASH_EXECUTION_STRING-}}" ]; then
if shopt -q login_shell; then
exec {begin} "$BASH" -l -c "$BASH_EXECUTION_STRING" "$0" "$@"
else
exec {begin} "$BASH" -c "$BASH_EXECUTION_STRING" "$0" "$@"
fi
elif [ -n "${{ZSH_EXECUTION_STRING-}}" ]; then
exec {begin} zsh -c "$ZSH_EXECUTION_STRING" "$0" "$@"
fi
fi
:
"""
"""For a harness that has its shells read variables before each command. A
shell that runs already cannot be given the shim: so it becomes, by way of the
launcher, the same shell with the same command once more."""


class Caller(NamedTuple):
    """The hook's process."""

    harness: str
    session: bytes  # that it runs in, or empty
    cwd: str
    programs: str
    has_variables: bool
    in_command: bool  # of that session, and is not its agent


class Reply(NamedTuple):
    """What the hook is sent, and what is to be done when it was: its harness
    does not wait for that."""

    record: bytes
    later: tuple[Callable[[], None], ...] = ()


Work = Generator[bytes, Handed, Reply]


class Hooks:
    """Answers the hooks of harnesses for `guard`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._telling = Telling(guard)
        changing = Changing()
        self._judging = Judging(guard, changing)
        self._crediting = Crediting(guard, self._telling, changing)
        self._working: weakref.WeakKeyDictionary[Speaker, Work] = weakref.WeakKeyDictionary()

    def begin(self, speaker: Speaker, record: bytes, fds: list[int]) -> Reply:
        """What follows on an event (NC_HARNESS). Raises WireError."""
        flags, *sizes = wire.HARNESS.unpack_from(record)[3:]
        parts = wire.strings(record, wire.HARNESS.size, len(record), sizes)
        name, session, cwd, programs = parts
        adapter = ADAPTERS.get(os.fsdecode(name))
        if adapter is None or len(fds) != 1:
            raise WireError("an event of no harness")
        try:
            event = json.loads(whole(fds[0]).decode("utf-8", "surrogateescape"))
            if not isinstance(event, dict):
                raise ValueError("it is no object")
        except (ValueError, RecursionError) as error:
            why = f"what came is no event of {os.fsdecode(name)}: {error}; this step goes unguarded"
            return Reply(_hooked(adapter.trouble(why)))
        caller = Caller(
            os.fsdecode(name), session, os.fsdecode(cwd), os.fsdecode(programs),
            bool(flags & C.NC_HAS_VARIABLES), bool(session and flags & C.NC_IN_COMMAND),
        )  # fmt: skip
        heard = adapter.hear({"cwd": caller.cwd, **event})
        self._working[speaker] = self._work(adapter, heard, caller)
        return self._advance(speaker, None)

    def go_on(self, speaker: Speaker, record: bytes, fds: list[int]) -> Reply:
        """What follows on a file (NC_HANDED). Raises WireError."""
        if speaker not in self._working or len(fds) > 1:
            raise WireError("a file that nobody wants")
        _, size = wire.HANDED.unpack_from(record)[4:]
        (path,) = wire.strings(record, wire.HANDED.size, len(record), [size])
        return self._advance(speaker, Handed(path, fds[0] if fds else None))

    def _advance(self, speaker: Speaker, handed: Handed | None) -> Reply:
        work = self._working[speaker]
        try:
            path = next(work) if handed is None else work.send(handed)
        except StopIteration as done:
            del self._working[speaker]
            reply: Reply = done.value
            return reply
        return Reply(wire.record(C.NC_WANTED, wire.WANTED, len(path), 0, tail=path))

    def _work(self, adapter: Adapter, heard: Heard, caller: Caller) -> Work:
        if not heard.acts:
            return Reply(_hooked(adapter.quiet))
        scene = self._scene(heard, caller)
        later: list[Callable[[], None]] = []
        variables = ""
        for act in heard.acts:
            if isinstance(act, (Asks, Edits, Deletes)):
                if message := (yield from self._judge(scene, act)):
                    return Reply(_hooked(adapter.refuse(heard, message)))
            elif isinstance(act, (Page, Wrote, Edited)):
                later.append((yield from self._credit(scene, act)))
            elif isinstance(act, Printed):
                later.append(partial(self._crediting.printed, scene, act))
            elif isinstance(act, Left):
                scene.top.helpers.discard(scene.session.id)
            elif isinstance(act, Compacted):
                later.append(partial(self._forget, scene))
            elif adapter.takes_variables and caller.has_variables and not caller.session:
                variables = _variables(scene.top, caller)
        return Reply(_hooked(adapter.quiet, variables), tuple(later))

    def _judge(self, scene: Scene, act: Asks | Edits | Deletes) -> Looking:
        path = encoded(act.path)
        match act:
            case Asks():
                return (yield from self._judging.replace(scene, path))
            case Edits():
                return (yield from self._judging.edit(scene, path, act))
            case Deletes():
                return (yield from self._judging.delete(scene, path))

    def _credit(self, scene: Scene, act: Page | Wrote | Edited) -> Credit:
        path = encoded(act.path)
        match act:
            case Page():
                return (yield from self._crediting.page(scene, path, act))
            case Wrote():
                return (yield from self._crediting.wrote(scene, path, act))
            case Edited():
                return (yield from self._crediting.edited(scene, path, act))

    def _forget(self, scene: Scene) -> None:
        if self._guard.guarded(scene.session).config.on_compact == "clear":
            self._guard.forget_shown(scene.session)

    def _scene(self, heard: Heard, caller: Caller) -> Scene:
        """Whose event it is. A session that is not known is opened. A harness
        that the agent itself runs is one more sub-agent."""
        own = heard.session or caller.harness
        name = caller.session or _name(own)
        begins = any(isinstance(act, Began) for act in heard.acts)
        roots = [default_root(encoded(root)) for root in heard.roots]
        top = self._opened(name, roots, begins=begins and not caller.session)
        below = [own] if caller.in_command else []
        below += [heard.agent] if heard.agent else []
        session = top
        if below:
            session = self._opened(_name("/".join([os.fsdecode(name), *below])), top.roots)
            top.helpers.add(session.id)
        elif begins:
            top.helpers.clear()
        return Scene(caller.harness.encode(), encoded(heard.tool), session, top)

    def _opened(self, name: bytes, roots: Sequence[bytes], *, begins: bool = False) -> Session:
        guard = self._guard
        is_new = name not in guard.sessions.all and name not in guard.asleep()
        if is_new or (begins and not set(roots).issubset(guard.sessions.get(name, 0).roots)):
            self._telling.open(name, roots or [b"/"])
            # Nobody waits for it: no tool has begun yet.
            guard.host.begin(guard.speaker(0), _begin(name, roots), lambda _: None)
        return guard.sessions.get(name, 0)


def _name(text: str) -> bytes:
    """A session's name; of one that is too long it is told apart by a hash."""
    name = encoded(text).replace(b"\0", b"")
    if len(name) <= C.NC_ID_MAX:
        return name
    return name[:64] + b"-" + hashlib.sha256(name).hexdigest()[:32].encode()


def _begin(name: bytes, roots: Sequence[bytes]) -> bytes:
    words = name, telling.new_command(), b"", b"".join(root + b"\0" for root in roots)
    return wire.record(
        C.NC_BEGIN, wire.BEGIN, C.NC_WORKSPACE_WRITE, *map(len, words), tail=b"".join(words)
    )


def _variables(session: Session, caller: Caller) -> str:
    """What the harness's shells are to read."""
    launcher = str(Path(caller.programs, LAUNCHER))
    name = os.fsdecode(session.id)
    roots = [f"--root={os.fsdecode(root)}" for root in session.roots]
    return _VARIABLES.format(
        session=shlex.quote(name),
        launcher=shlex.quote(launcher),
        begin=shlex.join([launcher, "--no-pump", f"--session={name}", *roots, "--"]),
    )


def _hooked(answer: Answer, variables: str = "") -> bytes:
    parts = list(map(encoded, (answer.out, answer.error, variables)))
    return wire.record(
        C.NC_HOOKED, wire.HOOKED, answer.status, *map(len, parts), tail=b"".join(parts)
    )
