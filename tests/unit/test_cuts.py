"""cuts.lost: what a text leaves out of a file, where it is a part of it that
goes back for the whole, and nothing where it is an edit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import coverage
from noclobber.cuts import lost

OLD = b"".join(b"line %d of the file\n" % n for n in range(1, 5001))
LINES = OLD.splitlines(keepends=True)
AT = len(b"".join(LINES[:1000]))
REST = ((AT, len(OLD)),)


def numbered(form: bytes, first: int = 1, last: int = 1000) -> bytes:
    return b"".join(form % n + LINES[n - 1] for n in range(first, last + 1))


@pytest.mark.parametrize(
    "form", [b"%6d\t", b"%d\t", b"%d: ", b"%d:", "%d→".encode(), "%6d→".encode(), b"%5d | ", b"%d "]
)
def test_a_numbered_head_leaves_out_the_rest(form):
    assert lost(OLD, numbered(form)) == REST


@pytest.mark.parametrize(
    "notice",
    [
        b"\n(File has more lines. Use 'offset' to read beyond line 1000)\n</file>",
        b"... [4000 lines truncated] ...\n",
        b"Note: 1,000 of 5,000 lines\n",
        b"[output limit reached]",
        b"\n\n<system>showing lines 1 to 1000</system>\n",
        b"",
    ],
)
def test_a_notice_behind_it_changes_nothing(notice):
    assert lost(OLD, numbered(b"%6d\t") + notice) == REST
    assert lost(OLD, b"".join(LINES[:1000]) + notice) == REST


def test_words_before_a_listing_change_nothing():
    head = b"Here's the result of running `cat -n` on f:\n"
    assert lost(OLD, head + numbered(b"%6d\t")) == REST


def test_a_listing_from_the_middle_leaves_out_both_ends():
    kept = len(b"".join(LINES[:1500])), len(b"".join(LINES[:2500]))
    assert lost(OLD, numbered(b"%6d\t", 1501, 2500)) == ((0, kept[0]), (kept[1], len(OLD)))


def test_the_last_line_may_lack_its_newline():
    assert lost(OLD, b"".join(LINES[:1000]).rstrip(b"\n")) == REST


def test_a_cut_within_a_line_leaves_out_its_end():
    old = b"".join(b"%d " % n + b"x" * 300 + b"\n" for n in range(200))
    assert lost(old, old[:16_000]) == ((16_000, len(old)),)
    assert lost(old, old[:16_000] + b"\n... [truncated]") == ((16_000, len(old)),)


def test_a_single_line_that_was_cut_is_one():
    old = b"var a=" + b"0123456789" * 5000
    assert lost(old, old[:2000] + b"... [truncated]") == ((2000, len(old)),)


def test_head_and_tail_with_a_notice_between_leave_out_the_middle():
    text = b"".join(LINES[:500]) + b"\n... 4000 lines omitted ...\n" + b"".join(LINES[4500:])
    assert lost(OLD, text) == ((len(b"".join(LINES[:500])), len(b"".join(LINES[:4500]))),)


def test_line_ends_and_a_mark_that_a_text_file_lost_are_seen_through():
    old = b"\xef\xbb\xbf" + OLD.replace(b"\n", b"\r\n")
    (found,) = lost(old, b"".join(LINES[:1000]))
    assert found == (len(b"\xef\xbb\xbf") + AT + 1000, len(old))


@pytest.mark.parametrize(
    "new",
    [
        OLD.replace(LINES[76], b"another\n"),
        OLD.replace(LINES[76], b""),
        OLD.replace(b"".join(LINES[100:4000]), b""),
        OLD.replace(b"".join(LINES[100:4000]), b"    ...\n"),
        OLD.replace(LINES[0], b"first\n"),
        OLD.replace(LINES[-1], b"last\n"),
        OLD.replace(b"".join(LINES[-7:]), b""),
        OLD.replace(b"".join(LINES[-30:]), b"the end\n"),
        OLD + b"one more\n",
        b"one before\n" + OLD,
        numbered(b"%6d\t", 1, 5000),
        b"all new\n",
        b"all new\n" * 1000,
        b"",
        OLD,
    ],
    ids=range(15),
)
def test_edits_and_texts_of_their_own_leave_out_nothing(new):
    assert lost(OLD, new) == ()


def test_an_edit_that_speaks_of_a_limit_is_an_edit():
    old = b"a\nb\nlimit = 10\nc\nd\n" * 40
    assert lost(old, old.replace(b"limit = 10", b"# truncated: 20 lines limit", 1)) == ()


def test_a_line_fewer_in_a_small_file_is_meant():
    assert lost(b"a\nb\nc\n", b"a\nb\n") == ()


def test_a_small_file_with_a_notice_is_cut():
    assert lost(b"a\nb\nc\nd\ne\nf\n", b"a\nb\n... (4 more lines)\n") == ((4, 12),)


def test_a_file_full_of_numbers_may_be_edited():
    old = b"".join(b"%d\t%d\n" % (n, n) for n in range(1, 2001))
    assert lost(old, old.replace(b"\n77\t77\n", b"\n77\t78\n")) == ()
    assert lost(old, b"".join(old.splitlines(keepends=True)[:1000])) != ()


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_whatever_it_is_given_the_ranges_lie_in_the_file(old, new):
    found = lost(old, new)
    assert coverage.normal(found) == found
    assert all(0 <= start < end <= len(old) for start, end in found)


@given(st.lists(st.binary(max_size=30), max_size=60), st.data())
def test_an_edit_of_one_line_is_never_a_cut(lines, data):
    """What stands behind it is there."""
    lines = [line.replace(b"\n", b"") for line in lines]
    at = data.draw(st.integers(0, max(0, len(lines) - 2)))
    old = b"".join(line + b"\n" for line in lines)
    new = b"".join(line + b"\n" for line in [*lines[:at], b"x", *lines[at + 1 :]])
    assert lost(old, new) == ()
