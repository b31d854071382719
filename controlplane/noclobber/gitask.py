"""Asks git, and survives its answers.

The daemon asks from a verdict, with a process waiting: every question has a
time limit, no question takes a lock or runs a program of the repository's
choosing, and a git that is missing, hangs or dies is the answer None. Git
runs outside the session: without the preload and without the session's GIT_*
variables, which may point anywhere.
"""

import os
import re
import select
import subprocess
import time
from collections.abc import Callable

LIMIT = 2.0  # seconds for one question, git's start included
PAUSE = 30.0  # seconds without questions after one that came to nothing in time

# safe.directory: the tree may be another user's (a container's root). What
# would be unsafe there, a program named by its configuration, is never run.
_SAFE = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false")
_DROPPED = ("LD_PRELOAD", "LD_AUDIT", "ASAN_OPTIONS")
_DROPPED_PREFIXES = ("GIT_", "NOCLOBBER_", "DYLD_")


def environment() -> dict[str, str]:
    """The daemon's own environment, less what would reach into git."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES)
    }
    return kept | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # the same for a git before 2.44
        "GIT_FLUSH": "1",
        "LC_ALL": "C",
    }


class Git:
    """Git in one work tree. One question that lets LIMIT pass, or a git that
    cannot be started, stops all questions for PAUSE: a verdict must not wait
    for one limit after the other."""

    def __init__(self, top: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._top = top
        self._silent_until = 0.0

    @property
    def silent(self) -> bool:
        """No question is asked now."""
        return self.clock() < self._silent_until

    def silence(self) -> None:
        """Begins a PAUSE."""
        self._silent_until = self.clock() + PAUSE

    def command(self, *arguments: bytes | str) -> list[bytes | str]:
        """The words that start git here."""
        return ["git", *_SAFE, "-C", self._top, *arguments]

    def run(self, *arguments: bytes | str) -> bytes | None:
        """Standard output of one command; None where it failed or was late."""
        if self.silent:
            return None
        try:
            done = subprocess.run(
                self.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(),
                timeout=LIMIT,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            self.silence()
            return None
        return done.stdout if done.returncode == 0 else None


def version() -> tuple[int, int]:
    """Of the git on PATH; (0, 0) where there is none."""
    found = re.match(rb"git version (\d+)\.(\d+)", Git(b"/").run("--version") or b"")
    return (int(found[1]), int(found[2])) if found else (0, 0)


class Coprocess:
    """One git process that answers many questions (20 us each, where starting
    git takes milliseconds). It begins with the first question."""

    def __init__(self, git: Git, *arguments: str) -> None:
        self._git = git
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: bytes, complete: Callable[[bytes], bool]) -> bytes | None:
        """The answer, which is whole when `complete` says so. None: git is
        missing, died over the question or was late."""
        answer = None
        # A process of before may have died meanwhile: the second one is new.
        tries = 2 if self._process is not None else 1
        while answer is None and tries > 0 and not self._git.silent:
            tries -= 1
            try:
                answer = self._exchange(question, complete)
            except (OSError, ValueError):
                answer = None
            if answer is None:
                self.close()
        return answer

    def close(self) -> None:
        """Ends the process; the next question starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._git.command(*self._arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=environment(),
                start_new_session=True,
            )
        except OSError:
            self._git.silence()
            raise

    def _exchange(self, question: bytes, complete: Callable[[bytes], bool]) -> bytes | None:
        """None: end of file (git has died), or LIMIT has passed."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        # Less than a pipe holds, and the pipe is empty: this never blocks.
        process.stdin.write(question)
        answer = b""
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        until = self._git.clock() + LIMIT
        while not complete(answer):
            if not poll.poll(max(0.0, until - self._git.clock()) * 1000):
                self._git.silence()
                return None
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                return None
            answer += part
        return answer
