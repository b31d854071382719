"""Cursor.

It takes anything but JSON for a refusal: where there is nothing to say, an
empty object is said. Its first hooks ask nothing before a file is written, and
what they tell before one is read may be more than the model sees of it: those
say nothing here.
"""

from __future__ import annotations

import json
from typing import Any

from noclobber.config import Config
from noclobber.harness.events import (
    Act,
    Adapter,
    Answer,
    Asks,
    Began,
    Change,
    Compacted,
    Edited,
    Edits,
    Heard,
    Json,
    Printed,
    Wrote,
    changes_of,
    cut,
    list_of,
    object_of,
    path_in,
    roots_of,
    text_of,
)

EVERY = "replace_all"
_SHOWN = Config().shown
_PATH = ("file_path", "path", "target_file")
_TEXTS = ("output", "stdout", "stderr", "content", "contents", "text")
_EDITS = ("Edit", "MultiEdit", "StrReplace")
_PRINTS = ("Shell", "Grep")


def hear(event: Json) -> Heard:
    """What an event says."""
    name, tool = text_of(event, "hook_event_name"), text_of(event, "tool_name")
    listed = [each for each in list_of(event, "workspace_roots") if isinstance(each, str)]
    return Heard(
        event=name,
        session=text_of(event, "conversation_id", "session_id"),
        agent="",
        roots=tuple(listed) or roots_of(event),
        tool=tool or name,
        acts=_acts(event, name, tool),
    )


def _acts(event: Json, name: str, tool: str) -> tuple[Act, ...]:
    given = object_of(event, "tool_input")
    path = path_in(event, given, *_PATH)
    if name == "preToolUse" and path:
        if tool == "Write":
            return (Asks(path),)
        if tool in _EDITS:
            return (Edits(path, _changes(given), EVERY),)
    if name in ("postToolUse", "afterShellExecution"):
        text = _text(event.get("tool_output", event.get("output")))
        if text and tool == "Read":
            return (Printed((text,)),)
        if text and (tool in _PRINTS or not tool):
            return (Printed(cut(text, _SHOWN), tool != "Grep"),)
        if path and tool == "Write":
            return (Wrote(path, text_of(given, "content", "contents")),)
        if path and tool in _EDITS:
            return (Edited(path, _changes(given)),)
    if name == "afterFileEdit" and (edited := path_in(event, event, *_PATH)):
        return (Edited(edited, _changes(event)),)
    if name == "preCompact":
        return (Compacted(),)
    return (Began(),) if name == "sessionStart" else ()


def _changes(given: Json) -> tuple[Change, ...]:
    listed = [each for each in list_of(given, "edits") if isinstance(each, dict)]
    return tuple(change for each in listed or [given] for change in changes_of(each, EVERY))


def _text(output: Any) -> str:
    """A text, or what of an object is one; either may be JSON in a text."""
    if isinstance(output, dict):
        return "".join(_text(output.get(name)) for name in _TEXTS)
    if not isinstance(output, str):
        return ""
    if output.startswith("{"):
        try:
            found = json.loads(output)
        except (ValueError, RecursionError):
            return output  # it only begins as one
        return _text(found) or output
    return output


def refuse(heard: Heard, message: str) -> Answer:
    """Stops the tool; the person and the model read the message."""
    names = ("user_message", "agent_message", "userMessage", "agentMessage")
    answer = {"permission": "deny", **dict.fromkeys(names, message)}
    return Answer(json.dumps(answer) + "\n")


def trouble(why: str) -> Answer:
    """Tells the person; the tool runs."""
    names = ("user_message", "userMessage")
    return Answer(json.dumps(dict.fromkeys(names, f"noclobber: {why}")) + "\n")


ADAPTER = Adapter(hear, Answer("{}\n"), refuse, trouble)
