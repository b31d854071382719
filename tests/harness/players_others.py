"""Gemini CLI, Codex CLI and Cursor, as they speak to their hooks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from players import Harness, Json
from players_claude import Claude


class Gemini(Harness):
    """Gemini CLI."""

    MOST = 2000  # lines of a page

    def event(self, name: str, **fields: Any) -> Json:
        return {
            "session_id": self.session,
            "transcript_path": "/h/.gemini/tmp/t.json",
            "cwd": str(self.tree),
            "hook_event_name": name,
            "timestamp": "2026-12-01T00:00:00Z",
        } | fields

    def asks(self, path: Path, text: str = "new\n") -> Json:
        given = {"file_path": str(path), "content": text}
        return self.event("BeforeTool", tool_name="write_file", tool_input=given)

    def shows(self, path: Path, text: str = "") -> Json:
        return self.page_event(path, text or path.read_text(), 1, 0)

    def page_event(self, path: Path, text: Any, first: int, last: int) -> Json:
        given = {"file_path": str(path)}
        if first > 1 or last:
            given |= {"start_line": first, "end_line": last}
        return self.after_event("read_file", text, given)

    def after_event(self, tool: str, text: Any, given: Json) -> Json:
        return self.event(
            "AfterTool", tool_name=tool, tool_input=given,
            tool_response={"llmContent": text, "returnDisplay": ""},
        )  # fmt: skip

    def other(self) -> Json:
        return self.event("BeforeTool", tool_name="teleport", tool_input={"to": "here"})

    def refusal(self, done: subprocess.CompletedProcess[bytes]) -> str:
        assert (done.returncode, done.stderr) == (0, b"")
        if not done.stdout:
            return ""
        answer = json.loads(done.stdout)
        assert answer.pop("decision") == "deny" and set(answer) == {"reason"}
        return answer["reason"]

    def read(self, path: Path, first: int = 1, count: int = 2000) -> None:
        lines = self.lines_of(path)
        page = lines[first - 1 : first - 1 + count]
        text = "".join(page)
        last = first + len(page) - 1
        if first == 1 and len(lines) > count:
            text = (
                "\nIMPORTANT: The file content has been truncated.\n"
                f"Status: Showing lines 1-{last} of {len(lines)} total lines.\n"
                "Action: To read more of the file, use start_line.\n\n"
                f"--- FILE CONTENT (truncated) ---\n{text}"
            )
        assert self.said(self.page_event(path, text, first, 0 if first == 1 else last)) == {}

    def printed(self, command: str, text: str) -> None:
        text = f"Command: {command}\nDirectory: (root)\nOutput: {text}"
        assert self.said(self.after_event("run_shell_command", text, {"command": command})) == {}

    def wrote(self, path: Path, text: str) -> Json:
        given = {"file_path": str(path), "content": text}
        return self.after_event("write_file", "Successfully overwrote file", given)

    def edits(self, path: Path, old: str, new: str) -> tuple[Json, Json]:
        given = {"file_path": str(path), "instruction": "x", "old_string": old, "new_string": new}
        return (
            self.event("BeforeTool", tool_name="replace", tool_input=given),
            self.after_event("replace", "Successfully modified file", given),
        )

    def compacts(self) -> Json:
        return self.event("PreCompress", trigger="auto")


class Codex(Harness):
    """Codex CLI, which reads by its shell."""

    def event(self, name: str, **fields: Any) -> Json:
        event = {
            "session_id": self.session,
            "turn_id": "1",
            "transcript_path": None,
            "cwd": str(self.tree),
            "hook_event_name": name,
            "model": "gpt",
            "permission_mode": "default",
        }
        if self.agent:
            event |= {"agent_id": self.agent, "agent_type": "explorer"}
        return event | fields

    def before_event(self, tool: str, command: str) -> Json:
        return self.event("PreToolUse", tool_name=tool, tool_input={"command": command},
                          tool_use_id="call_1")  # fmt: skip

    def after_event(self, tool: str, command: str, response: Any) -> Json:
        return self.event("PostToolUse", tool_name=tool, tool_input={"command": command},
                          tool_use_id="call_1", tool_response=response)  # fmt: skip

    def patch(self, *lines: str) -> str:
        return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])

    def adding(self, path: Path, text: str) -> str:
        added = ("+" + line for line in text.removesuffix("\n").split("\n"))
        return self.patch(f"*** Add File: {os.path.relpath(path, self.tree)}", *added)

    def asks(self, path: Path, text: str = "new\n") -> Json:
        return self.before_event("apply_patch", self.adding(path, text))

    def shows(self, path: Path, text: str = "") -> Json:
        return self.after_event("Bash", f"cat {path}", text or path.read_text())

    def other(self) -> Json:
        return self.before_event("mcp__a__teleport", "here")

    def refusal(self, done: subprocess.CompletedProcess[bytes]) -> str:
        return Claude.refusal(self, done)  # the very same, and not a key more

    def read(self, path: Path, first: int = 1, count: int = 2000) -> None:
        page = self.lines_of(path)[first - 1 : first - 1 + count]
        self.printed(f"sed -n '{first},{first + count - 1}p' {path}", "".join(page))

    def printed(self, command: str, text: str) -> None:
        assert self.said(self.after_event("Bash", command, text)) == {}

    def wrote(self, path: Path, text: str) -> Json:
        return self.after_event("apply_patch", self.adding(path, text), "Success.")

    def edits(self, path: Path, old: str, new: str) -> tuple[Json, Json]:
        body = ["-" + line for line in old.removesuffix("\n").split("\n")]
        body += ["+" + line for line in new.removesuffix("\n").split("\n")]
        patch = self.patch(f"*** Update File: {path}", "@@", *body)
        return (
            self.before_event("apply_patch", patch),
            self.after_event("apply_patch", patch, {"output": "Success."}),
        )

    def compacts(self) -> Json:
        return self.event("PostCompact", trigger="auto")


class Cursor(Harness):
    """Cursor, with the hooks of its newer versions."""

    def event(self, name: str, **fields: Any) -> Json:
        return {
            "conversation_id": self.session,
            "generation_id": "g1",
            "hook_event_name": name,
            "workspace_roots": [str(self.tree)],
        } | fields

    def asks(self, path: Path, text: str = "new\n") -> Json:
        given = {"file_path": str(path), "content": text}
        return self.event("preToolUse", tool_name="Write", tool_input=given)

    def after_event(self, tool: str, given: Json, output: Any) -> Json:
        return self.event("postToolUse", tool_name=tool, tool_input=given, tool_output=output)

    def shows(self, path: Path, text: str = "") -> Json:
        text = text or path.read_text()
        return self.after_event("Read", {"file_path": str(path)}, json.dumps({"content": text}))

    def other(self) -> Json:
        return self.event("preToolUse", tool_name="Teleport", tool_input={"to": "here"})

    def refusal(self, done: subprocess.CompletedProcess[bytes]) -> str:
        assert (done.returncode, done.stderr) == (0, b"")
        answer = json.loads(done.stdout)
        if not answer:
            return ""
        assert answer.pop("permission") == "deny"
        assert len(set(answer.values())) == 1
        assert set(answer) == {"user_message", "agent_message", "userMessage", "agentMessage"}
        return answer["agent_message"]

    def read(self, path: Path, first: int = 1, count: int = 2000) -> None:
        page = self.lines_of(path)[first - 1 : first - 1 + count]
        given = {"file_path": str(path), "offset": first, "limit": count}
        assert self.said(self.after_event("Read", given, "".join(page))) == {}

    def printed(self, command: str, text: str) -> None:
        event = self.event("afterShellExecution", command=command, output=text)
        assert self.said(event) == {}

    def wrote(self, path: Path, text: str) -> Json:
        given = {"file_path": str(path), "content": text}
        return self.after_event("Write", given, "{}")

    def edits(self, path: Path, old: str, new: str) -> tuple[Json, Json]:
        given = {"file_path": str(path), "old_string": old, "new_string": new}
        edits = [{"old_string": old, "new_string": new}]
        return (
            self.event("preToolUse", tool_name="Edit", tool_input=given),
            self.event("afterFileEdit", file_path=str(path), edits=edits),
        )

    def compacts(self) -> Json:
        return self.event("preCompact", trigger="auto")


HARNESSES = {"claude": Claude, "codex": Codex, "cursor": Cursor, "gemini": Gemini}
