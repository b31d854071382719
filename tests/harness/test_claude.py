"""Claude Code's events, whole conversations of them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

WAIT = 30.0  # s

OLD = "".join(f"line {number} of the old text\n" for number in range(1, 413))


def until(condition) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_part_that_was_read_is_not_the_file(claude, page, guard):
    claude.start()
    claude.read(page, 1, 5)
    reason = claude.may_write(page)
    assert (
        "it holds 10192 bytes (412 lines)" in reason and "was shown 115 bytes (5 lines)" in reason
    )
    assert "unseen: lines 6-412" in reason and f"sed -n '6,412p' {page}" in reason
    assert page.read_text() == OLD
    (receipt,) = guard.receipts()
    assert receipt["verdict"] == "deny" and receipt["path"] == str(page)
    assert receipt["session"] == "s1" and receipt["argv"] == ["Write", str(page)]
    assert (receipt["exe"], receipt["seen_lines"], receipt["grade"]) == ("claude", 5, "shown")


@pytest.mark.parametrize("newline", [False, True])
def test_two_halves_are_the_file_in_any_order(claude, page, guard, newline):
    claude.read(page, 207, newline=newline)
    assert claude.may_write(page)
    claude.read(page, 1, 206, newline=newline)
    assert claude.write(page, "all new\n") == "" and page.read_text() == "all new\n"
    assert guard.denied() == [str(page)]


def test_what_was_never_read_is_refused_and_what_is_not_there_is_not(claude, page):
    assert "was shown 0 bytes" in claude.may_write(page)
    assert claude.write(page.with_name("new.py"), "x\n") == ""
    (page.parent / "empty").touch()
    assert claude.write(page.parent / "empty", "x\n") == ""


def test_the_harness_cut_the_page_and_not_the_file(claude, page):
    """The first 100 lines came, the cap of tokens ended them, and the input
    named no range."""
    file = {"filePath": str(page), "content": "".join(OLD.splitlines(True)[:100]), "numLines": 100,
            "startLine": 1, "totalLines": 412, "truncatedByTokenCap": True}  # fmt: skip
    claude.after("Read", {"type": "text", "file": file}, file_path=str(page))
    assert "(100 lines) of it; unseen: lines 101-412" in claude.may_write(page)


def test_a_line_that_was_cut_or_masked_was_not_seen(claude, guard):
    path = guard.tree / "secrets"
    path.write_text("name = x\nkey = 0123456789\n" + "long " * 1000 + "\nend\n")
    shown = "name = x\nkey = [REDACTED]\n" + ("long " * 1000)[:2000] + "\nend"
    claude.showed(path, shown, 1, 4, 4)
    assert "(2 lines) of it; unseen: lines 2-3" in claude.may_write(path)


def test_a_stub_in_place_of_a_second_page_adds_nothing_and_takes_nothing(claude, page):
    claude.read(page, 1, 200)
    stubs = [
        {"type": "file_unchanged", "file": {"filePath": str(page)}},
        {"type": "text", "file": {"filePath": str(page), "content": "File unchanged since"}},
        "File unchanged since last read.",
        None,
    ]
    for stub in stubs:
        claude.after("Read", stub, file_path=str(page))
    assert "(200 lines) of it" in claude.may_write(page)
    claude.read(page, 201)
    assert claude.may_write(page) == ""


@pytest.mark.parametrize("content", [
    OLD.replace("\n", "\r\n").encode(),
    b"\xef\xbb\xbf" + OLD.encode(),
    b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode(),
    OLD.removesuffix("\n").encode(),
    ("\n" * 5 + OLD).encode(),
], ids=["CRLF", "BOM", "both", "no newline", "blank lines"])  # fmt: skip
def test_other_line_ends_and_marks_are_seen_through(claude, page, content):
    page.write_bytes(content)
    claude.read(page, 1, 300)
    assert claude.may_write(page)
    claude.read(page, 301)
    assert claude.may_write(page) == ""


def test_what_somebody_else_changed_is_unseen(claude, page):
    claude.read(page)
    assert claude.may_write(page) == ""
    page.write_text(OLD.replace("line 7 of", "line seven of") + "one more\n")
    reason = claude.may_write(page)
    assert "unseen: lines 7, 413" in reason and "was changed at" in reason


def test_a_sub_agents_write_is_judged_by_what_it_saw_itself(claude, page):
    claude.read(page)
    claude.agent = "a7"
    reason = claude.may_write(page)
    assert "was shown 0 bytes" in reason
    claude.read(page)
    assert claude.may_write(page) == ""
    claude.agent = "a8"
    assert claude.may_write(page)


def test_what_a_sub_agent_saw_its_parent_did_not(claude, page):
    claude.agent = "a7"
    claude.read(page)
    claude.agent = ""
    assert claude.may_write(page)


@pytest.mark.parametrize("event", [
    ("PostCompact", {"trigger": "auto", "compact_summary": "..."}),
    ("SessionStart", {"source": "compact"}),
    ("SessionStart", {"source": "clear"}),
], ids=["compact", "start", "clear"])  # fmt: skip
def test_what_was_compacted_away_is_unseen(claude, page, guard, event):
    mine = guard.tree / "mine"
    assert claude.write(mine, "my own\n") == ""
    claude.read(page)
    assert claude.may_write(page) == ""
    name, fields = event
    assert claude.said(claude.event(name, **fields)) == {}
    assert "was shown 0 bytes" in claude.may_write(page)
    assert claude.may_write(mine) == ""  # the session wrote it
    claude.read(page)
    assert claude.may_write(page) == ""


def test_it_stays_forgotten_when_the_daemon_starts_anew(claude, page, guard):
    claude.read(page)
    claude.said(claude.event("PostCompact", trigger="manual", compact_summary=""))
    claude.read(page, 1, 7)
    assert guard.cli("daemon", "stop").returncode == 0
    assert "(7 lines) of it" in claude.may_write(page)


def test_what_was_compacted_is_kept_where_that_is_configured(claude, page, guard):
    (guard.tree / "noclobber.toml").write_text('on_compact = "keep"\n')
    claude.read(page)
    claude.said(claude.event("PostCompact", trigger="auto", compact_summary="..."))
    assert claude.may_write(page) == ""


def test_a_resumed_session_knows_what_it_knew(claude, page):
    claude.start()
    claude.read(page)
    claude.start("resume")
    assert claude.may_write(page) == ""


def test_a_preview_is_all_that_was_shown_of_what_went_to_a_file(claude, page):
    claude.bash(f"cat {page}", stdout=OLD, persistedOutputPath="/h/out.txt",
                persistedOutputSize=len(OLD))  # fmt: skip
    reason = claude.may_write(page)
    assert "was shown 2000 bytes" in reason


def test_so_it_is_of_what_is_too_long_to_be_shown(claude, guard):
    path = guard.tree / "long"
    path.write_text("".join(f"{number} of many lines\n" for number in range(3000)))
    claude.bash("cat long", stdout=path.read_text())
    assert "was shown 2000 bytes" in claude.may_write(path)


def test_a_pictures_text_shows_nothing(claude, page):
    claude.bash("cat x.png", stdout=OLD, isImage=True)
    assert "was shown 0 bytes" in claude.may_write(page)


def test_what_grep_shows_counts(claude, page):
    content = "".join(f"a.py:{n}:line {n} of the old text\n" for n in range(1, 413))
    response = {"mode": "content", "numFiles": 1, "filenames": ["a.py"], "content": content}
    claude.after("Grep", response, pattern="line", path=str(page), output_mode="content")
    assert claude.may_write(page) == ""


def test_what_it_wrote_it_may_write_again(claude, guard):
    path = guard.tree / "new.py"
    assert claude.write(path, "one\n") == "" and claude.write(path, "two\n") == ""
    assert claude.edit(path, "two", "three") == "" and claude.write(path, "four\n") == ""
    assert guard.receipts() == []


def test_what_is_on_disk_counts_and_not_what_the_tool_was_given(claude, guard):
    """Another hook puts a line in front, and the harness staged another file."""
    path = guard.tree / "new.py"
    path.write_text("# a licence\none\ntwo\n")
    response = {"type": "create", "filePath": str(path), "content": "one\ntwo\n"}
    claude.after("Write", response, file_path=str(path), content="one\ntwo\n")
    assert "unseen: line 1." in claude.may_write(path)
    staged = guard.tree / "staged"
    staged.write_text("what stands there\n")
    claude.after("Write", response | {"staged": True}, file_path=str(staged),
                 content="what stands there\n")  # fmt: skip
    assert "was shown 0 bytes" in claude.may_write(staged)


def test_an_edit_passes_and_what_was_not_known_is_not_known_after_it(claude, page, guard):
    claude.read(page, 1, 10)
    assert claude.edit(page, "line 300 of", "line three hundred of") == ""
    reason = claude.may_write(page)
    assert "unseen: lines 11-" in reason and "-412." in reason
    assert "(10 lines) of it" in reason
    assert guard.denied() == [str(page)]
    kept = [r for r in guard.receipts() if r["verdict"] == "snapshot"]
    assert [r["op"] for r in kept] == ["update"] and kept[0]["snapshot"]


def test_what_was_known_before_an_edit_is_known_after_it(claude, page):
    claude.read(page)
    assert claude.edit(page, "line 300 of", "line three hundred of") == ""
    assert claude.edit_every(page, "the old", "an old") == ""
    assert claude.may_write(page) == ""


def test_several_edits_at_one_time(claude, page):
    claude.read(page)
    edits = [
        {"old_string": "line 1 of", "new_string": "line one of"},
        {"old_string": "line one of", "new_string": "the first of"},
    ]
    assert claude.before("MultiEdit", file_path=str(page), edits=edits) == ""
    page.write_text(OLD.replace("line 1 of", "the first of", 1))
    claude.after("MultiEdit", {"filePath": str(page)}, file_path=str(page), edits=edits)
    assert claude.may_write(page) == ""


def test_a_text_that_stands_there_twice_names_no_place(claude, guard):
    path = guard.tree / "f"
    path.write_text("a\nx = 1\nb\nx = 1\nc\n")
    reason = claude.edit(path, "x = 1\n", "x = 2\n")
    assert "stands there 2 times, at lines 2, 4." in reason and "replace_all" in reason
    assert claude.edit(path, "b\nx = 1\n", "b\nx = 2\n") == ""
    assert claude.edit_every(path, "x =", "y =") == ""
    assert path.read_text() == "a\ny = 1\nb\ny = 2\nc\n"
    assert [(r["op"], r["verdict"]) for r in guard.receipts()][:1] == [("edit", "deny")]


def test_a_text_of_other_line_ends_is_found(claude, guard):
    path = guard.tree / "f"
    path.write_bytes(b"a\r\nx\r\nb\r\na\r\nx\r\n")
    assert "at lines 1, 4." in claude.before(
        "Edit", file_path=str(path), old_string="a\nx\n", new_string="y\n"
    )


def test_a_notebook_is_edited_and_not_replaced(claude, guard):
    path = guard.tree / "n.ipynb"
    path.write_text('{"cells": []}\n')
    assert claude.before("NotebookEdit", notebook_path=str(path), new_source="x") == ""
    assert claude.may_write(path)


def test_what_a_person_allowed_passes_once_and_is_kept(claude, page, guard):
    assert claude.may_write(page)
    assert guard.cli("allow", str(page), "--reason", "generated").returncode == 0
    assert claude.may_write(page) == ""
    assert claude.may_write(page)
    (used,) = [r for r in guard.receipts() if r["row"] == 7]
    assert used["override"]["reason"] == "generated" and used["snapshot"]


def test_in_the_read_only_tier_nothing_is_changed(claude, page, guard):
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        assert guard.bare(*git, *words).returncode == 0
    (guard.tree / "noclobber.toml").write_text('on_dirty = "read-only"\n')
    claude.start()
    claude.read(page)
    until(lambda: claude.may_write(guard.tree / "new"))  # git is being asked
    for refused in (
        claude.may_write(page),
        claude.may_write(guard.tree / "new"),
        claude.before("Edit", file_path=str(page), old_string="line 1 of", new_string="x"),
    ):
        assert "read-only tier" in refused


def test_relative_paths_links_and_odd_bytes(claude, page, guard):
    (guard.tree / "link").symlink_to(page)
    claude.read(guard.tree / "link")
    assert claude.before("Write", file_path="a.py", content="x") == ""
    odd = bytes(guard.tree) + b"/odd\xff name"
    Path(os.fsdecode(odd)).write_text("not in the other one\n")
    event = claude.event("PreToolUse", tool_name="Write",
                         tool_input={"file_path": "NAME", "content": "x"})  # fmt: skip
    for name in (odd, odd.decode(errors="surrogateescape")):
        raw = json.dumps(event).encode()
        new = name if isinstance(name, bytes) else json.dumps(name)[1:-1].encode()
        done = claude.send(raw.replace(b"NAME", new))
        assert b'"deny"' in done.stdout and b"odd\\\\xff name" in done.stdout
    assert claude.may_write(guard.tree / "bad\udcffname") == ""
    assert claude.before("Write", file_path="nul\0", content="x") == ""
    assert claude.before("Write", file_path="half\ud800", content="x") == ""
    assert claude.before("Write", file_path="long/" * 10_000, content="x") == ""
    page.write_text("what nobody saw\n")
    event = claude.asks(Path("a.py"))
    del event["cwd"]
    assert claude.refusal(claude.send(event | {"session_id": "no\0 place"}))


def test_a_session_that_goes_on_elsewhere_protects_that_too(claude, guard):
    claude.start()
    other = guard.home / "other"
    other.mkdir()
    claude.said(claude.event("SessionStart", source="resume") | {"cwd": str(other)})
    found = json.loads(guard.cli("status", "--json").stdout)["sessions"]
    assert [each["roots"] for each in found] == [[str(guard.tree), str(other)]]


def test_events_and_tools_that_nobody_knows_say_nothing(claude, page):
    for event in (
        {},
        {"hook_event_name": "Unheard"},
        claude.event("Stop"),
        claude.event("PreToolUse", tool_name="Teleport", tool_input={"file_path": str(page)}),
        claude.event("PreToolUse", tool_name="Write", tool_input="text"),
        claude.event("PreToolUse", tool_name="Write", tool_input={"file_path": 7}),
        claude.event("PreToolUse", tool_name=["Write"], tool_input={}),
        claude.event("PostToolUse", tool_name="Read", tool_input={}, tool_response=[1]),
        claude.event("PostToolUse", tool_name="Bash", tool_response={"stdout": 5}),
        claude.event("PostToolUse", tool_name="Edit", tool_input={"file_path": str(page)}),
        {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": {"stdout": "x"}},
    ):
        assert claude.said(event) == {}
