"""Harnesses, by the events that they send: written after what each documents,
and given to the real hook, which asks the real daemon."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT = 60  # s

Json = dict[str, Any]


@dataclass
class Harness:
    """One harness at work in the guard's tree, as session `session`."""

    guard: Any
    name: str = ""
    session: str = "s1"
    agent: str = ""
    env: dict[str, str] = field(default_factory=dict)

    @property
    def tree(self) -> Path:
        return self.guard.tree

    def send(self, event: Json | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """One event, as it is."""
        text = event if isinstance(event, bytes) else json.dumps(event).encode()
        bin_ = Path(self.guard.command()[0]).parent
        return subprocess.run(
            [bin_ / "noclobber-hook", self.name], input=text, capture_output=True,
            cwd=self.tree, env=self.guard.env | self.env, timeout=LIMIT, **options,
        )  # fmt: skip

    def said(self, event: Json) -> Json:
        """What the hook prints, which has to be JSON and to come without a
        complaint; nothing printed is {}."""
        done = self.send(event)
        assert (done.returncode, done.stderr) == (0, b"")
        return json.loads(done.stdout) if done.stdout else {}

    def asks(self, path: Path, text: str = "new\n") -> Json:
        """The event before a file is written."""
        raise NotImplementedError

    def shows(self, path: Path, text: str = "") -> Json:
        """The event after a file, or that text of it, was read."""
        raise NotImplementedError

    def other(self) -> Json:
        """The event before a tool that nobody knows."""
        raise NotImplementedError

    def refusal(self, done: subprocess.CompletedProcess[bytes]) -> str:
        """The reason of an answer, empty where it refuses nothing."""
        raise NotImplementedError

    def read(self, path: Path, first: int = 1, count: int = 2000) -> None:
        """It is shown lines from `first` on."""
        raise NotImplementedError

    def printed(self, command: str, text: str) -> None:
        """Its shell returns that text."""
        raise NotImplementedError

    def wrote(self, path: Path, text: str) -> Json:
        """The event after a file was written."""
        raise NotImplementedError

    def edits(self, path: Path, old: str, new: str) -> tuple[Json, Json]:
        """The events before and after a change in place."""
        raise NotImplementedError

    def compacts(self) -> Json:
        """The event of a compaction."""
        raise NotImplementedError

    def lines_of(self, path: Path) -> list[str]:
        """A file's lines as harnesses show them: decoded, of plain line ends."""
        text = path.read_bytes().decode(errors="replace").removeprefix("\ufeff")
        return text.replace("\r\n", "\n").splitlines(keepends=True)

    def may_write(self, path: Path, text: str = "new\n") -> str:
        """The refusal of a write, empty where it may."""
        return self.refusal(self.send(self.asks(path, text)))

    def write(self, path: Path, text: str) -> str:
        """It writes if it may; the refusal."""
        if refused := self.may_write(path, text):
            return refused
        path.write_text(text)
        assert self.said(self.wrote(path, text)) == {}
        return ""

    def edit(self, path: Path, old: str, new: str) -> str:
        """It changes a file in place if it may; the refusal."""
        before, after = self.edits(path, old, new)
        if refused := self.refusal(self.send(before)):
            return refused
        path.write_text(path.read_text().replace(old, new, 1))
        assert self.said(after) == {}
        return ""
