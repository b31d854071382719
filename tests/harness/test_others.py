"""What Gemini CLI, Codex CLI and Cursor have each for themselves."""

from __future__ import annotations

import json

OLD = "".join(f"line {number} of the old text\n" for number in range(1, 413))


def test_geminis_pages_come_as_parts_and_by_older_names(gemini, page):
    first, rest = "".join(OLD.splitlines(True)[:100]), "".join(OLD.splitlines(True)[100:])
    assert gemini.said(gemini.page_event(page, [{"text": first}], 1, 100)) == {}
    assert "(100 lines) of it" in gemini.may_write(page)
    given = {"absolute_path": str(page), "offset": 100, "limit": 1000}
    assert gemini.said(gemini.after_event("read_file", {"text": rest}, given)) == {}
    assert gemini.may_write(page) == ""


def test_gemini_cuts_long_lines(gemini, guard):
    path = guard.tree / "long"
    path.write_text("one\n" + "x" * 3000 + "\nthree\n")
    shown = "one\n" + "x" * 2000 + "... [truncated]\nthree\n"
    assert gemini.said(gemini.page_event(path, shown, 1, 0)) == {}
    assert "(2 lines) of it; unseen: line 2" in gemini.may_write(path)


def test_gemini_reads_many_files(gemini, page):
    text = f"--- {page} ---\n\n{OLD}\n--- End of content ---"
    given = {"include": ["a.py"]}
    assert gemini.said(gemini.after_event("read_many_files", [text], given)) == {}
    assert gemini.may_write(page) == ""


def test_gemini_replaces_more_than_one(gemini, page):
    for more in ({"allow_multiple": True}, {"expected_replacements": 412}):
        given = {"file_path": str(page), "old_string": "the old", "new_string": "an old"} | more
        assert gemini.said(gemini.event("BeforeTool", tool_name="replace", tool_input=given)) == {}
    reason = gemini.edit(page, "the old", "an old")
    assert "412 times" in reason and "or say allow_multiple" in reason
    assert "and 392 more" in reason


def test_gemini_makes_a_file_by_replace(gemini, guard):
    path = guard.tree / "new"
    before, after = gemini.edits(path, "", "a new one\n")
    assert gemini.said(before) == {}
    path.write_text("a new one\n")
    assert gemini.said(after) == {}
    assert gemini.may_write(path) == "" and guard.receipts() == []


def test_gemini_starts_with_nothing_before_it(gemini, page):
    gemini.read(page)
    assert gemini.said(gemini.event("SessionStart", source="resume")) == {}
    assert gemini.may_write(page) == ""
    assert gemini.said(gemini.event("SessionStart", source="clear")) == {}
    assert gemini.may_write(page)


def test_a_patch_of_codexs_with_many_files(codex, page, guard):
    other, new = guard.tree / "other", guard.tree / "sub" / "new"
    other.write_text("what stands here\n")
    patch = codex.patch(
        "*** Add File: sub/new", "+one", "+two",
        "*** Update File: a.py", "@@", "-line 7 of the old text", "+line seven",
        "*** Add File: other", "+replaced",
    )  # fmt: skip
    reason = codex.refusal(codex.send(codex.before_event("apply_patch", patch)))
    assert str(other) in reason and guard.denied() == [str(other)]
    codex.read(other)
    assert codex.said(codex.before_event("apply_patch", patch)) == {}
    new.parent.mkdir()
    new.write_text("one\ntwo\n")
    other.write_text("replaced\n")
    page.write_text(OLD.replace("line 7 of the old text", "line seven"))
    assert codex.said(codex.after_event("apply_patch", patch, {"output": "Success."})) == {}
    assert codex.may_write(new) == "" and codex.may_write(other) == ""
    assert "(1 line) of it" in codex.may_write(page)


def test_codex_moves_over_a_file_and_deletes_one(codex, page, guard):
    other = guard.tree / "other"
    other.write_text("what stands here\n")
    moves = codex.patch("*** Update File: a.py", "*** Move to: other", "@@",
                        "-line 7 of the old text", "+line seven")  # fmt: skip
    assert str(other) in codex.refusal(codex.send(codex.before_event("apply_patch", moves)))
    deletes = codex.patch("*** Delete File: other")
    assert codex.said(codex.before_event("apply_patch", deletes)) == {}
    other.unlink()
    deleted = guard.receipts()[-1]
    assert (deleted["op"], deleted["verdict"], deleted["path"]) == (
        "delete",
        "snapshot",
        str(other),
    )
    assert guard.cli("restore", str(other)).returncode == 0
    assert other.read_text() == "what stands here\n"


def test_codexs_hunks_are_looked_for_in_order_and_by_whole_lines(codex, guard):
    path = guard.tree / "f.py"
    path.write_text("class A:\n    x = 1\nyx = 1\nclass B:\n    x = 1\nx = 1\n")
    one = codex.patch("*** Update File: f.py", "@@", "-x = 1", "+x = 2")
    assert codex.said(codex.before_event("apply_patch", one)) == {}
    two = codex.patch("*** Update File: f.py", "@@", "-    x = 1", "+    x = 2")
    assert "at lines 2, 5." in codex.refusal(codex.send(codex.before_event("apply_patch", two)))
    below = codex.patch("*** Update File: f.py", "@@ class B:", "-    x = 1", "+    x = 2")
    assert codex.said(codex.before_event("apply_patch", below)) == {}
    ordered = codex.patch("*** Update File: f.py", "@@", " yx = 1", "-class B:", "+class C:",
                          "@@", "-    x = 1", "+    x = 3")  # fmt: skip
    assert codex.said(codex.before_event("apply_patch", ordered)) == {}


def test_codexs_patch_by_its_shell(codex, page):
    command = "apply_patch <<'EOF'\n" + codex.adding(page, "new\n") + "\nEOF\n"
    assert codex.refusal(codex.send(codex.before_event("Bash", command)))
    event = codex.event("PreToolUse", tool_name="apply_patch", tool_input=command)
    assert codex.refusal(codex.send(event))


def test_codexs_sub_agent_sees_for_itself(codex, page):
    codex.read(page)
    codex.agent = "a1"
    assert codex.may_write(page)
    codex.read(page)
    assert codex.may_write(page) == ""


def test_codexs_shell_answers_in_several_forms(codex, page):
    head, tail = "".join(OLD.splitlines(True)[:200]), "".join(OLD.splitlines(True)[200:])
    event = codex.after_event("Bash", "head -n 200 a.py", {"output": head, "metadata": {}})
    assert codex.said(event) == {}
    event = codex.after_event("Bash", "tail a.py", [{"type": "text", "text": tail}])
    assert codex.said(event) == {}
    assert codex.may_write(page) == ""


def test_cursors_first_hooks_are_answered_and_show_nothing(cursor, page):
    before = cursor.event("beforeReadFile", file_path=str(page), content=OLD, attachments=[])
    shell = cursor.event("beforeShellExecution", command="ls", cwd=str(cursor.tree))
    for event in (before, shell, cursor.event("stop", status="completed")):
        done = cursor.send(event)
        assert (done.returncode, json.loads(done.stdout)) == (0, {})
    assert "was shown 0 bytes" in cursor.may_write(page)


def test_cursors_edit_of_a_whole_new_file(cursor, guard):
    path = guard.tree / "new"
    path.write_text("a new one\n")
    edits = [{"old_string": "", "new_string": "a new one\n"}]
    assert cursor.said(cursor.event("afterFileEdit", file_path=str(path), edits=edits)) == {}
    assert cursor.may_write(path) == "" and guard.receipts() == []
