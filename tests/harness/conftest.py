"""Harnesses, by the events that they send: written after what each documents,
and given to the real hook, which asks the real daemon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

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


class Claude(Harness):
    """Claude Code."""

    def asks(self, path: Path, text: str = "new\n") -> Json:
        given = {"file_path": str(path), "content": text}
        return self.event("PreToolUse", tool_name="Write", tool_input=given, tool_use_id="toolu_1")

    def shows(self, path: Path, text: str = "") -> Json:
        text = text or path.read_text()
        file = {
            "filePath": str(path), "content": text, "numLines": text.count("\n"), "startLine": 1,
            "totalLines": text.count("\n"),
        }  # fmt: skip
        return self.event(
            "PostToolUse", tool_name="Read", tool_input={"file_path": str(path)},
            tool_response={"type": "text", "file": file}, tool_use_id="toolu_1",
        )  # fmt: skip

    def other(self) -> Json:
        return self.event("PreToolUse", tool_name="Teleport", tool_input={"to": "here"})

    def refusal(self, done: subprocess.CompletedProcess[bytes]) -> str:
        assert (done.returncode, done.stderr) == (0, b"")
        if not done.stdout:
            return ""
        answer = json.loads(done.stdout)
        assert set(answer) == {"hookSpecificOutput"}
        found = answer["hookSpecificOutput"]
        assert found["hookEventName"] == "PreToolUse" and found["permissionDecision"] == "deny"
        return found["permissionDecisionReason"]

    def event(self, name: str, **fields: Any) -> Json:
        event = {
            "session_id": self.session,
            "transcript_path": f"/h/.claude/projects/p/{self.session}.jsonl",
            "cwd": str(self.tree),
            "permission_mode": "default",
            "hook_event_name": name,
        }
        if self.agent:
            event |= {"agent_id": self.agent, "agent_type": "general-purpose"}
        return event | fields

    def before(self, tool: str, **given: Any) -> str:
        """The reason for which the tool is refused, empty where it is not."""
        event = self.event("PreToolUse", tool_name=tool, tool_input=given, tool_use_id="toolu_1")
        return self.refusal(self.send(event))

    def after(self, tool: str, response: Any, **given: Any) -> None:
        event = self.event(
            "PostToolUse", tool_name=tool, tool_input=given, tool_response=response,
            tool_use_id="toolu_1", duration_ms=3,
        )  # fmt: skip
        assert self.said(event) == {}

    def start(self, source: str = "startup") -> None:
        assert self.said(self.event("SessionStart", source=source)) == {}

    def read(self, path: Path, first: int = 1, count: int = 2000, *, newline: bool = False) -> None:
        """Its Read tool: lines from `first` on, without their numbers."""
        lines = path.read_bytes().decode(errors="replace").removeprefix("\ufeff")
        lines = lines.replace("\r\n", "\n").split("\n")
        total = len(lines) - (lines[-1] == "")
        page = lines[first - 1 : min(first - 1 + count, total)]
        text = "\n".join(page) + ("\n" if newline else "")
        self.showed(path, text, first, len(page), total)

    def showed(self, path: Path, text: str, first: int, count: int, total: int) -> None:
        file = {
            "filePath": str(path), "content": text, "numLines": count, "startLine": first,
            "totalLines": total,
        }  # fmt: skip
        self.after("Read", {"type": "text", "file": file}, file_path=str(path))

    def bash(self, command: str, **response: Any) -> None:
        """What its Bash tool returned."""
        plain = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}
        self.after("Bash", plain | response, command=command)

    def may_write(self, path: Path, text: str = "new\n") -> str:
        return self.before("Write", file_path=str(path), content=text)

    def write(self, path: Path, text: str) -> str:
        """Its Write tool, which writes if it may; the refusal."""
        if refused := self.may_write(path, text):
            return refused
        old = path.read_text() if path.exists() else None
        path.write_text(text)
        response = {
            "type": "create" if old is None else "update", "filePath": str(path),
            "content": text, "structuredPatch": [], "originalFile": old,
        }  # fmt: skip
        self.after("Write", response, file_path=str(path), content=text)
        return ""

    def edit(self, path: Path, old: str, new: str, *, every: bool = False) -> str:
        """Its Edit tool; the refusal."""
        given = {"file_path": str(path), "old_string": old, "new_string": new}
        if refused := self.before("Edit", **given, replace_all=every):
            return refused
        text = path.read_text()
        path.write_text(text.replace(old, new) if every else text.replace(old, new, 1))
        response = {
            "filePath": str(path), "oldString": old, "newString": new, "originalFile": text,
            "structuredPatch": [], "userModified": False, "replaceAll": every,
        }  # fmt: skip
        self.after("Edit", response, **given, replace_all=every)
        return ""


HARNESSES: dict[str, Callable[[Any], Harness]] = {
    "claude": lambda guard: Claude(guard, "claude"),
}


@pytest.fixture(params=sorted(HARNESSES))
def harness(request: pytest.FixtureRequest, guard: Any) -> Harness:
    """Each of them."""
    return HARNESSES[request.param](guard)


@pytest.fixture
def claude(guard) -> Claude:
    return Claude(guard, "claude")


@pytest.fixture
def shell(guard, tmp_path) -> Iterator[Any]:
    """`shell(HARNESS, TEXT)`: its Bash tool, which sources what the session's
    start wrote; and what it gave back."""
    variables = tmp_path / "variables.sh"

    def run(harness: Claude, text: str) -> subprocess.CompletedProcess[str]:
        harness.env = {"CLAUDE_ENV_FILE": str(variables)}
        if not variables.exists():
            harness.start()
        command = f"source {variables} && eval {_quoted(text)}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=guard.tree, env=guard.env, capture_output=True,
            text=True, timeout=LIMIT,
        )  # fmt: skip
        if done.returncode:
            error = f"Exit code {done.returncode}\n{done.stdout}{done.stderr}"
            event = harness.event(
                "PostToolUseFailure", tool_name="Bash", tool_input={"command": text},
                tool_use_id="toolu_2", error=error,
            )  # fmt: skip
            assert harness.said(event) == {}
        else:
            harness.bash(text, stdout=done.stdout, stderr=done.stderr)
        return done

    yield run


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def lines(count: int, start: int = 1) -> str:
    return "".join(f"line {number} of the old text\n" for number in range(start, start + count))


@pytest.fixture
def page(guard) -> Path:
    """A file of 412 lines."""
    path = guard.tree / "a.py"
    path.write_text(lines(412))
    return path
