"""Codex CLI.

It has no tool that reads: that is Bash's. Files are written by patches, whose
`Add File` replaces a file that is there. A key that it does not know makes it
drop an answer, and 2 stops the tool only with a word on stderr.
"""

from __future__ import annotations

import json
from typing import Any

from noclobber.config import Config
from noclobber.harness import patches
from noclobber.harness.events import (
    Act,
    Adapter,
    Answer,
    Asks,
    Began,
    Compacted,
    Deletes,
    Edited,
    Edits,
    Heard,
    Json,
    Left,
    Printed,
    Wrote,
    cut,
    object_of,
    path_in,
    roots_of,
    text_of,
)

_SHOWN = Config().shown
_FORGETS = ("compact", "clear")
_TEXTS = ("output", "stdout", "stderr", "content", "text")


def hear(event: Json) -> Heard:
    """What an event says."""
    name, tool = text_of(event, "hook_event_name"), text_of(event, "tool_name")
    return Heard(
        event=name,
        session=text_of(event, "session_id"),
        agent=text_of(event, "agent_id"),
        roots=roots_of(event),
        tool=tool,
        acts=_acts(event, name, tool),
    )


def _acts(event: Json, name: str, tool: str) -> tuple[Act, ...]:
    if name in ("PreToolUse", "PostToolUse"):
        command = text_of(object_of(event, "tool_input"), "command") or text_of(event, "tool_input")
        if tool == "apply_patch" or command.lstrip().startswith("apply_patch"):
            work = _before if name == "PreToolUse" else _after
            files = patches.parse(command)
            return tuple(act for file in files for act in work(event, file))
        if tool == "Bash" and name == "PostToolUse":
            text = _text(event.get("tool_response"))
            return (Printed(cut(text, _SHOWN), True),) if text else ()
    if name == "PostCompact":
        return (Compacted(),)
    if name == "SubagentStop":
        return (Left(),)
    if name == "SessionStart":
        return (Compacted(), Began()) if event.get("source") in _FORGETS else (Began(),)
    return ()


def _before(event: Json, file: patches.Patched) -> list[Act]:
    path, moved = _path(event, file.path), _path(event, file.moved)
    acts: list[Act] = []
    if path and file.added is not None:
        acts.append(Asks(path))
    elif path and file.deleted:
        acts.append(Deletes(path))
    elif path:
        acts.append(Edits(path, file.changes))
    if moved and moved != path:
        acts.append(Asks(moved))
    return acts


def _after(event: Json, file: patches.Patched) -> list[Act]:
    path = _path(event, file.moved or file.path)
    if not path or file.deleted:
        return []
    return [Edited(path, file.changes) if file.added is None else Wrote(path, file.added)]


def _path(event: Json, name: str) -> str:
    return path_in(event, {"path": name}, "path")


def _text(response: Any) -> str:
    if isinstance(response, dict):
        return "".join(_text(response.get(name)) for name in _TEXTS)
    if isinstance(response, list):
        return "".join(map(_text, response))
    return response if isinstance(response, str) else ""


def refuse(heard: Heard, message: str) -> Answer:
    """Stops the tool; the model reads the message."""
    answer = {
        "hookEventName": heard.event,
        "permissionDecision": "deny",
        "permissionDecisionReason": message,
    }
    return Answer(json.dumps({"hookSpecificOutput": answer}) + "\n")


def trouble(why: str) -> Answer:
    """The hook has failed, for the person to see; the tool runs."""
    return Answer(error=f"noclobber: {why}\n", status=1)


ADAPTER = Adapter(hear, Answer(), refuse, trouble)
