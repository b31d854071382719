"""For harnesses in Python: what the agent was shown, and what it may replace.

A harness reads a whole file, shows a part of it to the agent and later writes
what the agent made of that, all in one process: no system call tells which
part it was. Two lines in its Read tool do:

    session = Session()
    session.shown(path, lines=(1, 1000))

Under `noclobber run -- HARNESS` this is the session of that run, and the
writes themselves are judged. Elsewhere it is one of its own: ask
`may_replace` before a write, start what the agent runs with `environ()`, and
say `shown(path)` after a write of the agent's own text.

Nothing is taken on trust: what was shown is held against what the file holds
when it is to be replaced. What changed since then was not shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from noclobber import service
from noclobber.errors import NoclobberError
from noclobber.launcher import LAUNCHER, beside
from noclobber.receipts import Unseen

__all__ = ["NoclobberError", "Session", "Unseen", "Verdict"]

PIECE = 512 << 10  # bytes of one request
_TIMEOUT = 30.0  # s for the launcher, which may have to start the daemon
_NAMED = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
_START = "import sys; from noclobber.cli.starter import start; sys.exit(start())"

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Verdict:
    """Whether the agent may put a text of its own in a file's place. True in a
    condition where it may. `row` is the rule's, `reason` one sentence. Where it
    may not, `message` is a paragraph for the agent, with the command that shows
    what is missing. Sizes in bytes."""

    allowed: bool
    verdict: Literal["allow", "deny", "snapshot"]
    row: int
    reason: str
    message: str
    grade: Literal["shown", "read"]
    seen_bytes: int
    total_bytes: int
    unseen: tuple[Unseen, ...]

    def __bool__(self) -> bool:
        return self.allowed


class Session:
    """One agent at work.

    `root` is a directory, or several, to protect; the default is the session's
    own, else the git top level of the working directory, else that directory.
    `session` names it; the default is the one that this process runs in, else
    a new one. Opened when it is first needed, which starts the daemon where
    none runs. Every method raises NoclobberError where that fails."""

    def __init__(
        self, root: StrPath | Iterable[StrPath] | None = None, session: str | None = None
    ) -> None:
        inherited = os.environ.get("NOCLOBBER_SESSION", "")
        self.name = session or inherited or _new_name()
        self._joined = bool(inherited) and self.name == inherited
        self.roots = _roots(root, self._joined)
        self._environ: dict[str, str] | None = None
        self._command = ""
        self._open = False

    def __enter__(self) -> Session:
        self._ask({"do": "status"})  # opens it
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """The agent is done. What is known of its session stays known."""
        if self._command:
            with contextlib.suppress(NoclobberError):
                service.ask({"do": "close", "session": self.name, "command": self._command})
        self._environ, self._command, self._open = None, "", False

    def shown(
        self,
        path: StrPath,
        start: int = 0,
        end: int | None = None,
        *,
        lines: tuple[int, int] | None = None,
    ) -> None:
        """The agent was shown the bytes `[start, end)` of a file (to its end,
        where `end` is None), or its lines from the first to the last of
        `lines`, counted from 1, both included. What lies behind the file's end
        counts for nothing. To be said at once: the bytes are those that the
        file holds now; where it may have changed, use `shown_text`. Raises
        OSError, ValueError."""
        if start < 0 or (end is not None and end < start):
            raise ValueError(f"no range of bytes: {start} to {end}")
        if lines is not None and (start or end is not None):
            raise ValueError("bytes or lines, not both")
        self._check_harness()
        fd = os.open(path, _NAMED)
        try:
            if lines is not None:
                first, last = lines
                if not 1 <= first <= last:
                    raise ValueError(f"no range of lines: {first} to {last}")
                found = self._ask({"do": "lines", "first": first, "last": last}, fd)
                start, end = found["start"], found["end"]
            size = os.fstat(fd).st_size
            self._show(fd, start, size if end is None else min(end, size), os.path.realpath(path))
        finally:
            os.close(fd)

    def shown_text(self, text: str | bytes) -> None:
        """The agent was shown this text: a command's output, a diff, a page of
        a file with line numbers. What of it stands in a file counts for that
        file. One call for each unbroken piece; what was cut away is not part
        of it."""
        self._check_harness()
        data = os.fsencode(text) if isinstance(text, str) else text
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            self._show(file.fileno(), 0, len(data), "")

    def may_replace(self, path: StrPath) -> Verdict:
        """Whether a text of the agent's own may be put in that file's place
        now. Asks only: nothing is kept, no override is used up, and no receipt
        is written. Raises OSError."""
        real = os.path.realpath(path)
        asked = {"do": "may_replace", "session": self.name, "path": real}
        try:
            fd = os.open(real, _NAMED)
        except (FileNotFoundError, NotADirectoryError):
            found = self._ask(asked)
        else:
            try:
                found = self._ask(asked, fd)
            finally:
                os.close(fd)
        return Verdict(**{**found, "unseen": tuple(Unseen(**each) for each in found["unseen"])})

    def environ(self) -> dict[str, str]:
        """An environment for subprocess: what is started with it belongs to
        the session and is judged. What it prints was shown only if `shown_text`
        says so, or if it was started through `noclobber-exec`."""
        if self._joined:
            self._ask({"do": "status"})
            return dict(os.environ)
        if self._environ is None:
            self._environ = self._guarded_environ()
        return {**os.environ, **self._environ}

    def _guarded_environ(self) -> dict[str, str]:
        """The variables that the launcher sets for an agent."""
        launcher = beside(LAUNCHER)
        if launcher is None:
            raise NoclobberError(f"{LAUNCHER} is not beside this program or on PATH")
        roots = [f"--root={root}" for root in self.roots]
        words = [str(launcher), f"--session={self.name}", *roots, "--agent", "--", "env", "-0"]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT
        )
        pairs = (os.fsdecode(word).partition("=") for word in done.stdout.split(b"\0") if word)
        found = {name: value for name, _, value in pairs if os.environ.get(name) != value}
        if done.returncode or found.get("NOCLOBBER_SESSION") != self.name:
            said = done.stderr.decode(errors="replace").strip()
            raise NoclobberError(said or f"{LAUNCHER} guards nothing here")
        self._command = found["NOCLOBBER_COMMAND"]
        self._ask({"do": "agent", "session": self.name, "command": self._command})
        return found

    def _show(self, fd: int, start: int, end: int, path: str) -> None:
        for at in range(start, end, PIECE):
            asked = {"do": "shown", "session": self.name, "path": path}
            self._ask({**asked, "start": at, "end": min(end, at + PIECE)}, fd)

    def _check_harness(self) -> None:
        """A program that the agent runs has its output carried by the pump, and
        cannot say what reached the agent besides."""
        if self._joined and os.environ.get("NOCLOBBER_COMMAND", "").startswith("cmd-"):
            raise NoclobberError(
                "this is a command of the agent's, not its harness: what it prints is known; "
                "start the harness by noclobber run"
            )

    def _ask(self, request: dict[str, Any], *fds: int) -> dict[str, Any]:
        for again in (False, True):
            try:
                if not self._open:
                    service.ask({"do": "open", "session": self.name, "roots": self.roots})
                    self._open = True
                return service.ask(request, fds)
            except (service.NotRunningError, service.HungUpError):
                if again:
                    raise
                self._open = False
                _start_daemon()
        raise AssertionError("unreachable")


def _start_daemon() -> None:
    """In a process of its own: a daemon is no fork of the harness."""
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        [sys.executable, "-c", _START],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT,
    )  # fmt: skip
    if done.returncode:
        raise NoclobberError(done.stderr.decode(errors="replace").strip())


def _new_name() -> str:
    program = re.sub(r"[^\w.]", "_", Path(sys.argv[0]).stem or "python", flags=re.ASCII)[:32]
    return f"{program}-{os.getpid()}-{int(time.time()):x}-{secrets.token_hex(4)}"


def _roots(given: StrPath | Iterable[StrPath] | None, joined: bool) -> list[str]:
    if given is not None:
        each = [given] if isinstance(given, (str, os.PathLike)) else list(given)
        return [os.path.realpath(root, strict=True) for root in each]
    if joined and (listed := os.environ.get("NOCLOBBER_ROOTS")):
        return list(_split(listed))
    from noclobber.protected import default_root  # a sixth of what is loaded

    return [os.fsdecode(default_root(os.fsencode(os.getcwd())))]  # noqa: PTH109


def _split(listed: str) -> Iterator[str]:
    """The items of the launcher's list: `:` stands between them, `\\` before
    what is meant as it is."""
    for item in re.findall(r"(?:[^:\\]|\\.)+", listed, re.S):
        yield re.sub(r"\\(.)", r"\1", item, flags=re.S)
