"""Work that may take long, away from the verdict loop.

A question to git over a large tree takes seconds, and no other session may
wait for it. A job runs in a thread, touches nothing of the daemon's, and what
it found is taken up by the loop, which watches `fileno`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Aside:
    """Jobs on their way."""

    def __init__(self) -> None:
        self._done: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        """Readable when a job has ended."""
        return self._reading

    def run(self, job: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Does `job` in a thread; `deliver` calls `then` with what it returned,
        or with what it raised."""

        def work() -> None:
            found: T | Exception
            try:
                found = job()
            except Exception as error:
                found = error
            self._done.put(lambda: then(found))
            with contextlib.suppress(OSError):  # full: it is readable anyway
                os.write(self._writing, b"!")

        threading.Thread(target=work, daemon=True).start()

    def deliver(self) -> None:
        """Takes up what has ended."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 4096)
        while True:
            try:
                then = self._done.get_nowait()
            except queue.Empty:
                return
            then()

    def close(self) -> None:
        """No more is taken up; the writing end stays for jobs that still run."""
        os.close(self._reading)
