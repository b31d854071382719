"""Gemini CLI.

What a hook prints is taken for JSON whatever its exit status is; of plain
text 0 and 1 let the tool run, with a warning, and all others stop it.
"""

from __future__ import annotations

import json
import re
from typing import Any

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
    Page,
    Printed,
    Wrote,
    changes_of,
    number_of,
    object_of,
    path_in,
    roots_of,
    text_of,
)

EVERY = "allow_multiple"
_CUT = re.compile(r"Status: Showing lines (\d+)-\d+ of \d+ total lines")
_BELOW = "--- FILE CONTENT (truncated) ---\n"
_PRINTS = ("run_shell_command", "read_many_files", "search_file_content", "grep_search")


def hear(event: Json) -> Heard:
    """What an event says."""
    name, tool = text_of(event, "hook_event_name"), text_of(event, "tool_name")
    return Heard(
        event=name,
        session=text_of(event, "session_id"),
        agent="",
        roots=roots_of(event),
        tool=tool,
        acts=_acts(event, name, tool),
    )


def _acts(event: Json, name: str, tool: str) -> tuple[Act, ...]:
    given = object_of(event, "tool_input")
    path = path_in(event, given, "file_path", "absolute_path")
    if name == "BeforeTool" and path:
        if tool == "write_file":
            return (Asks(path),)
        if tool == "replace":
            return (Edits(path, _changes(given), EVERY),)
    if name == "AfterTool":
        text = _text(object_of(event, "tool_response").get("llmContent"))
        if tool in _PRINTS:
            return (Printed((text,), tool == "run_shell_command"),) if text else ()
        if path:
            return _after(tool, path, given, text)
    if name == "PreCompress":
        return (Compacted(),)
    if name == "SessionStart":
        return (Compacted(), Began()) if event.get("source") == "clear" else (Began(),)
    return ()


def _after(tool: str, path: str, given: Json, text: str) -> tuple[Act, ...]:
    if tool == "read_file" and text:
        return (_page(path, given, text),)
    if tool == "write_file":
        return (Wrote(path, text_of(given, "content")),)
    if tool == "replace":
        return (Edited(path, _changes(given)),)
    return ()


def _page(path: str, given: Json, text: str) -> Page:
    """Lines of a file; above those of a cut one stands where they begin."""
    head, found, below = text.partition(_BELOW)
    if found and (cut := _CUT.search(head)):
        return Page(path, below, int(cut[1]))
    first = number_of(given, "start_line")
    if first is None:
        first = (number_of(given, "offset") or 0) + 1
    return Page(path, text, first)


def _text(content: Any) -> str:
    """What the model is given: a text, a part, or a list of them."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return text_of(content, "text")
    return "".join(map(_text, content)) if isinstance(content, list) else ""


def _changes(given: Json) -> tuple[Change, ...]:
    every = (number_of(given, "expected_replacements") or 1) > 1
    return tuple(c._replace(every=c.every or every) for c in changes_of(given, EVERY))


def refuse(heard: Heard, message: str) -> Answer:
    """Stops the tool; the model reads the message."""
    return Answer(json.dumps({"decision": "deny", "reason": message}) + "\n")


def trouble(why: str) -> Answer:
    """Warns the person; the tool runs."""
    return Answer(error=f"noclobber: {why}\n", status=1)


ADAPTER = Adapter(hear, Answer(), refuse, trouble)
