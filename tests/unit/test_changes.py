"""Changes in place, pages of a file, patches: what of a file is known by them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import changes, coverage, pages
from noclobber.harness import patches
from noclobber.harness.events import Change


def change_of(old: str, new: str, every: bool = False) -> Change:
    return Change(old, new, every)


few = st.text("ab\n", max_size=3)
some = st.text("ab\n", min_size=1, max_size=2)
contents = st.text("ab\n", max_size=40)
ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4)


@given(contents, ranges, st.lists(st.builds(change_of, some, few, st.booleans()), max_size=3))
def test_a_change_is_what_an_editor_makes_of_it_and_adds_its_own_text_alone(text, known, made):
    was = coverage.clip(coverage.normal(known), 0, len(text))
    found = changes.made(text.encode(), was, made)
    # A model: each letter with whether it is known.
    model = [(letter, coverage.covers(was, at, at + 1)) for at, letter in enumerate(text)]
    for change in made:
        letters = "".join(letter for letter, _ in model)
        at = letters.find(change.old)
        while at >= 0:
            new = [(letter, True) for letter in change.new]
            model[at : at + len(change.old)] = new
            letters = "".join(letter for letter, _ in model)
            at = letters.find(change.old, at + len(new)) if change.every else -1
    assert found.content.decode() == "".join(letter for letter, _ in model)
    marks = [coverage.covers(found.known, at, at + 1) for at in range(len(model))]
    assert marks == [is_known for _, is_known in model]
    assert coverage.covers(found.known, 0, 0) and not coverage.subtract(found.written, found.known)


@given(contents, st.builds(change_of, some, some))
def test_what_was_undone_is_what_the_change_was_made_in(text, change):
    old = changes.undone(text.encode(), [change])
    if old is not None:
        assert text.count(change.new) == 1
        assert len(old) == len(text) - len(change.new) + len(change.old)


@given(st.text("ab\n\r", max_size=30), st.text("ab\n\r", max_size=30), st.integers(-1, 5))
def test_a_page_vouches_for_lines_that_equal_the_files_at_that_place(text, shown, first):
    content = text.encode()
    lines = shown.split("\n")
    for start, end in pages.matched(content, shown, first):
        assert start == 0 or content[start - 1 : start] == b"\n"
        assert end == len(content) or content[end - 1 : end] == b"\n"
        place = content.count(b"\n", 0, start) - max(first - 1, 0)
        for line in content[start:end].decode().removesuffix("\n").split("\n"):
            assert lines[place] in (line, line.removesuffix("\r"))
            place += 1


@given(st.text("ab\n", min_size=1), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_all_of_a_page_is_seen_through_line_ends_and_marks(text, end, marked):
    content = (b"\xef\xbb\xbf" if marked else b"") + text.replace("\n", end).encode()
    for shown in (text, text.removesuffix("\n")):
        found = pages.matched(content, shown, 1)
        blank = shown != text and (not shown or shown.endswith("\n"))
        assert blank or found == coverage.whole(len(content))
    assert pages.is_written(content, text)


@pytest.mark.parametrize(
    "old, found", [("x\n", [1, 3, 4]), ("y\n", [2, 6, 8]), ("z\ny\n", [5, 7]), ("w", []), ("", [])]
)
def test_the_lines_at_which_a_text_stands(old, found):
    content = b"x\ny\nx\nx\nz\ny\nz\ny\n"
    assert changes.ambiguous(content, [Change(old, "new")]) == found
    assert changes.ambiguous(content, [Change(old, "new", every=True)]) == []


def test_a_patch_is_read_as_it_is_applied():
    text = """\
apply_patch <<'EOF'
*** Begin Patch
*** Add File: new/one.py
+first
+
+third
*** Update File: old.py
*** Move to: moved.py
@@ def f():
 before
-gone
+come
~
@@
-last
*** End of File
*** Delete File: dead.py
*** End Patch
EOF""".replace("~", " ")
    one, two, three = patches.parse(text)
    assert (one.path, one.added) == ("new/one.py", "first\n\nthird\n")
    assert (two.path, two.moved, two.added) == ("old.py", "moved.py", None)
    assert two.changes == (
        Change("before\ngone\n\n", "before\ncome\n\n", lines=True, under="def f():"),
        Change("last\n", "", lines=True),
    )
    assert three == patches.Patched("dead.py", deleted=True)


@given(st.text(st.sampled_from("*@ +-\nab") | st.characters(), max_size=60))
def test_no_patch_is_too_odd(text):
    for found in patches.parse(f"*** Begin Patch\n{text}"):
        assert isinstance(found.path, str)
