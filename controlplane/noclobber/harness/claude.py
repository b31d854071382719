"""Claude Code.

A hook's exit status 0 is consent, or what its JSON says; 2 blocks, with stderr
for the model; any other is shown to the person, and the tool runs. A harness
that takes variables for its shells reads them from a file that SessionStart is
told of.
"""

from __future__ import annotations

import json

from noclobber.config import PRESETS
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
    Left,
    Page,
    Printed,
    Wrote,
    changes_of,
    cut,
    list_of,
    number_of,
    object_of,
    path_in,
    roots_of,
    text_of,
)

EVERY = "replace_all"
_SHOWN = PRESETS["claude"]
_FORGETS = ("compact", "clear")  # why a session starts with nothing before it


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
    given = object_of(event, "tool_input")
    if name == "PreToolUse":
        return _before(event, tool, given)
    if name == "PostToolUse":
        return _after(event, tool, given, object_of(event, "tool_response"))
    if name == "PostToolUseFailure" and tool == "Bash":
        return (Printed(cut(text_of(event, "error"), _SHOWN, failed=True), True),)
    if name == "PostCompact":
        return (Compacted(),)
    if name == "SubagentStop":
        return (Left(),)
    if name == "SessionStart":
        return (Compacted(), Began()) if event.get("source") in _FORGETS else (Began(),)
    return ()


def _before(event: Json, tool: str, given: Json) -> tuple[Act, ...]:
    path = path_in(event, given, "file_path", "notebook_path")
    if not path:
        return ()
    if tool == "Write":
        return (Asks(path),)
    if tool in ("Edit", "MultiEdit", "NotebookEdit"):
        return (Edits(path, _changes(given), EVERY),)
    return ()


def _after(event: Json, tool: str, given: Json, response: Json) -> tuple[Act, ...]:
    if tool == "Bash":
        return _printed(response)
    if tool == "Grep":
        return (Printed(cut(text_of(response, "content"), _SHOWN)),)
    path = path_in(event, given, "file_path")
    if not path or response.get("staged") is True:
        return ()
    if tool == "Read":
        file = object_of(response, "file")
        first = number_of(file, "startLine")
        text = text_of(file, "content")
        return (Page(path, text, first),) if text and first is not None else ()
    if tool == "Write":
        return (Wrote(path, text_of(given, "content")),)
    if tool in ("Edit", "MultiEdit"):
        return (Edited(path, _changes(given)),)
    return ()


def _printed(response: Json) -> tuple[Act, ...]:
    """What a command printed. Of what is kept in a file the model sees how it
    begins."""
    if response.get("isImage") is True:
        return ()
    short = bool(response.get("persistedOutputPath"))
    pieces = [
        piece
        for stream in ("stdout", "stderr")
        for piece in cut(text_of(response, stream), _SHOWN, short=short)
    ]
    return (Printed(tuple(pieces), True),) if pieces else ()


def _changes(given: Json) -> tuple[Change, ...]:
    listed = [each for each in list_of(given, "edits") if isinstance(each, dict)]
    return tuple(change for each in listed or [given] for change in changes_of(each, EVERY))


def refuse(heard: Heard, message: str) -> Answer:
    """Stops the tool; the model reads the message."""
    answer = {
        "hookEventName": heard.event,
        "permissionDecision": "deny",
        "permissionDecisionReason": message,
    }
    return Answer(json.dumps({"hookSpecificOutput": answer}) + "\n")


def trouble(why: str) -> Answer:
    """Shows the person what is wrong."""
    return Answer(error=f"noclobber: {why}\n", status=1)


ADAPTER = Adapter(hear, Answer(), refuse, trouble, takes_variables=True)
