"""The message of a refusal: its numbers, and that its next step works."""

import re
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import attest, coverage, report

TEXT = b"".join(b"line %d\n" % number for number in range(1, 1001))
CONTENT = st.lists(
    st.binary(max_size=12).map(lambda raw: raw.replace(b"\0", b"x")), min_size=1, max_size=40
).map(b"\n".join)


def split(content):
    parts = content.split(b"\n")
    return [p + b"\n" for p in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@given(CONTENT, st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=6))
def test_extent_counts_bytes_and_whole_lines(content, ranges):
    size = len(content)
    seen = coverage.clip(coverage.normal(ranges), 0, size)
    found = report.extent(content, size, seen)
    at, spans = 0, []
    for line in split(content):
        spans.append((at, at + len(line)))
        at += len(line)
    assert found.total_bytes == size and found.seen_bytes == coverage.size(seen)
    assert found.total_lines == len(spans)
    assert found.seen_lines == sum(coverage.covers(seen, *span) for span in spans)
    for gap in found.unseen:
        assert spans[gap.first_line - 1][0] <= gap.start < spans[gap.first_line - 1][1]
        assert spans[gap.last_line - 1][0] < gap.end <= spans[gap.last_line - 1][1]


def test_a_binary_has_no_lines():
    found = report.extent(None, 10, ((0, 4),))
    assert (found.seen_lines, found.total_lines) == (0, 0)
    assert (found.unseen[0].first_line, found.unseen[0].last_line) == (0, 0)


@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name))
def test_quote_is_one_word_of_a_shell_and_printable(name):
    word = report.quote(name)
    assert word.isprintable() and "\n" not in word
    made = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert made.stdout == name


def follow(path, content, seen, limit):
    """Runs the next step until nothing is left of what was not seen, as an
    agent would; returns the number of commands."""
    for number in range(1, 200):
        found = report.extent(content, len(content), seen)
        step = report.next_step(bytes(path), content, found, limit)
        if not step:
            return number - 1
        command = step.removesuffix(report.ON_FROM_THERE)
        shown = subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout
        assert limit == 0 or len(shown) <= limit, "an agent would not be shown all of it"
        more = tuple(attest.seen(content, [shown]))
        after = coverage.union(seen, more)
        assert coverage.size(after) > coverage.size(seen), "the step shows nothing new"
        assert report.ON_FROM_THERE in step or coverage.covers(after, 0, len(content)), step
        seen = after
    raise AssertionError("no end")


@pytest.mark.parametrize("limit", [0, 300, 30_000])
@pytest.mark.parametrize(
    "seen",
    [(), ((0, 103),), ((3000, 5000),), ((0, 63), (500, 501), (4000, len(TEXT))), ((0, 5),)],
)
def test_the_next_step_shows_what_is_missing_in_pieces_that_are_shown(tmp_path, limit, seen):
    path = tmp_path / "it's $(a) file"
    path.write_bytes(TEXT)
    assert follow(path, TEXT, seen, limit) <= len(TEXT) // max(1, limit or len(TEXT)) * 2 + 8


def test_the_next_step_for_one_long_line_goes_by_bytes(tmp_path):
    path, content = tmp_path / "min.js", b";".join(b"var v%d=%d" % (i, i) for i in range(4500))
    path.write_bytes(content)
    found = report.extent(content, len(content), ((0, 2000),))
    step = report.next_step(bytes(path), content, found, 30_000)
    assert step.startswith("tail -c +2001 ")
    assert follow(path, content, ((0, 2000),), 30_000) < 6


def message(seen=((0, 103),), grade="shown", path=b"/tree/f", **options):
    found = report.extent(TEXT, len(TEXT), seen)
    step = report.next_step(path, TEXT, found, 30_000)
    return report.message(path, found, grade, step, **options)


def test_the_message_has_all_its_parts():
    text = message()
    assert text.endswith("\n") and text.count("\n") == 1
    for part in (
        "/tree/f", "8893 bytes (1000 lines)", "was shown 103 bytes (14 lines)",
        "unseen: lines 15-1000", "sed -n '15,1000p' /tree/f", "change it in place", "append",
        "noclobber allow /tree/f --reason",
    ):  # fmt: skip
        assert part in text, part


def test_the_message_names_the_grade():
    assert "has read 103 bytes" in message(grade="read")
    assert "shown" not in message(grade="read").split("To go on")[0]


def test_the_message_names_the_first_ranges_and_counts_the_rest():
    text = message(seen=((0, 7), (14, 21), (28, 35), (42, 49), (56, 63)))
    assert re.search(r"unseen: lines 2, 4, 6 and 2 more ranges", text)


def test_nothing_in_a_path_can_steer_a_terminal():
    text = message(path=b"/tree/\x1b[31m\nred\xff")
    assert "\x1b" not in text and text.count("\n") == 1
    assert r"\e[31m\nred\xff" in text


def test_a_quoted_path_is_that_of_the_shell():
    assert report.quote(b"/a b") == shlex.quote("/a b")
    assert report.quote("/gr\u00fcn".encode()) == "'/gr\u00fcn'"
