"""Claude Code, as it speaks to its hooks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from players import Harness, Json


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

    def after_event(self, tool: str, response: Any, **given: Any) -> Json:
        return self.event(
            "PostToolUse", tool_name=tool, tool_input=given, tool_response=response,
            tool_use_id="toolu_1", duration_ms=3,
        )  # fmt: skip

    def after(self, tool: str, response: Any, **given: Any) -> None:
        assert self.said(self.after_event(tool, response, **given)) == {}

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

    def printed(self, command: str, text: str) -> None:
        self.bash(command, stdout=text)

    def wrote(self, path: Path, text: str) -> Json:
        response = {
            "type": "update", "filePath": str(path), "content": text, "structuredPatch": [],
            "originalFile": None,
        }  # fmt: skip
        return self.after_event("Write", response, file_path=str(path), content=text)

    def edits(self, path: Path, old: str, new: str, *, every: bool = False) -> tuple[Json, Json]:
        given = {
            "file_path": str(path), "old_string": old, "new_string": new, "replace_all": every,
        }  # fmt: skip
        response = {
            "filePath": str(path), "oldString": old, "newString": new, "originalFile": None,
            "structuredPatch": [], "userModified": False, "replaceAll": every,
        }  # fmt: skip
        return (
            self.event("PreToolUse", tool_name="Edit", tool_input=given, tool_use_id="toolu_1"),
            self.after_event("Edit", response, **given),
        )

    def edit_every(self, path: Path, old: str, new: str) -> str:
        """Its Edit tool, told to replace all; the refusal."""
        before, after = self.edits(path, old, new, every=True)
        if refused := self.refusal(self.send(before)):
            return refused
        path.write_text(path.read_text().replace(old, new))
        assert self.said(after) == {}
        return ""

    def compacts(self) -> Json:
        return self.event("PostCompact", trigger="auto", compact_summary="...")
