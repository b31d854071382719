"""What was printed is seen; what was not is not."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noclobber import coverage
from noclobber.attest import Spool, seen, viewed

LINES = [b"line %d of the file" % n for n in range(400)]
FILE = b"".join(line + b"\n" for line in LINES)
SOURCE = b"".join(b"def f%d(x):\n\n    return x\n\n\n" % n for n in range(200))


def whole(content: bytes) -> list[tuple[int, int]]:
    return [(0, len(content))]


def bytes_seen(content: bytes, printed: list[bytes]) -> int:
    return coverage.size(tuple(seen(content, printed)))


def unseen(content: bytes, printed: list[bytes]) -> bytes:
    gaps = coverage.gaps(tuple(seen(content, printed)), 0, len(content))
    return b"".join(content[start:end] for start, end in gaps)


# ---- one printed line, one line of the file -----------------------------


def test_a_file_printed_whole_is_seen_whole() -> None:
    assert seen(FILE, [FILE]) == whole(FILE)


def test_nothing_printed_is_nothing_seen() -> None:
    assert seen(FILE, []) == []
    assert seen(FILE, [b"", b"something else\n"]) == []


def test_a_gap_of_three_lines_stays_a_gap() -> None:
    half, rest = b"\n".join(LINES[:200]) + b"\n", b"\n".join(LINES[203:]) + b"\n"
    missing = b"".join(line + b"\n" for line in LINES[200:203])
    assert unseen(FILE, [half, rest]) == missing
    assert unseen(FILE, [half + rest]) == missing
    assert unseen(FILE, [b"first\n" + half + b"then\n" + rest]) == missing


def test_a_hundred_of_equal_lines_are_a_hundred_lines() -> None:
    content = b"    pass\n" * 5000
    assert bytes_seen(content, [b"    pass\n" * 100]) == 900
    assert bytes_seen(content, [b"    pass\n" * 100] * 3) == 2700
    assert seen(content, [b"    pass\n" * 100] * 50) == whole(content)


def test_numbered_lines_printed_twice_are_seen_once() -> None:
    content = b"    pass\n" * 5000
    printed = b"".join(b"%6d\t    pass\n" % n for n in range(1, 101))
    assert bytes_seen(content, [printed] * 60) == 900


def test_lines_between_known_lines_printed_twice_are_seen_once() -> None:
    content = SOURCE + b"}\n\n" * 20
    printed = SOURCE[: SOURCE.index(b"def f100")]
    assert bytes_seen(content, [b"$ sed\n" + printed + b"$\n"] * 9) == len(printed)


def test_a_dropped_blank_line_is_the_unseen_one() -> None:
    lines = SOURCE.splitlines(keepends=True)
    printed = b"".join(lines[:251] + lines[252:])
    start = len(b"".join(lines[:251]))
    assert lines[251] == b"\n"
    gaps = coverage.gaps(tuple(seen(SOURCE, [printed])), 0, len(SOURCE))
    assert coverage.size(gaps) == 1
    assert abs(gaps[0][0] - start) <= 3


def test_masked_values_are_not_seen() -> None:
    content = b"".join(b"SERVICE_%d_TOKEN=%032x\n" % (n, n * 7919 << 64) for n in range(40))
    masked = re.sub(rb"=.*", b"=********", content)
    assert bytes_seen(content, [masked]) == 0
    assert seen(content, [masked.replace(b"=********", b"=" + b"0" * 8)]) != whole(content)


def test_a_changed_line_is_unseen_whatever_its_versions_had() -> None:
    first = FILE.replace(LINES[7], b"call(1, x)")
    second = FILE.replace(LINES[7], b"call(2, y)")
    third = FILE.replace(LINES[7], b"call(1, y)")
    assert unseen(third, [first, second]) == b"call(1, y)\n"


def test_changed_stretches_of_several_versions_make_no_line() -> None:
    lines = FILE.splitlines(keepends=True)
    first = b"".join([*lines[:7], b"call(1, x)\n", b"other\n", *lines[9:]])
    second = b"".join([*lines[:6], b"other\n", b"call(2, y)\n", *lines[8:]])
    third = b"".join([*lines[:7], b"call(1, y)\n", *lines[8:]])
    assert unseen(third, [first, second]) == b"call(1, y)\n"


def test_output_of_others_vouches_for_nothing() -> None:
    content = b"".join(b"    value_%d = %d\n" % (n, n * n) for n in range(300))
    other = b"".join(b"    other_%d = %d\n" % (n, n * 7) for n in range(300))
    assert seen(content, [other]) == []


# ---- pieces, cuts ---------------------------------------------------------


@pytest.mark.parametrize("at", [1, 20, 21, 1000, 1001, 5555, len(FILE) - 1])
def test_halves_split_at_any_byte_make_a_whole(at: int) -> None:
    assert seen(FILE, [FILE[:at], FILE[at:]]) == whole(FILE)
    assert seen(FILE, [FILE[at:], FILE[:at]]) == whole(FILE)
    assert seen(FILE, [FILE[at:] + FILE[:at]]) == whole(FILE)
    if 20 < at < len(FILE) - 20:  # else nothing tells a glued byte from any other
        assert seen(FILE, [b"$ tail\n" + FILE[at:], FILE[:at] + b"$ ls\nx"]) == whole(FILE)


def test_a_head_ends_within_a_line() -> None:
    content = b"".join(b"%d\n" % n for n in range(1, 6001))
    assert seen(content, [content[:20_000]]) == [(0, 20_000)]
    assert seen(content, [content[20_000:]]) == [(20_000, len(content))]


def test_a_last_line_without_newline_glued_to_the_next_output() -> None:
    content = FILE[:-1]
    assert seen(content, [content + b"README.md\nsrc\n"]) == whole(content)
    assert seen(b"1.2.3", [b"1.2.3README.md\n"]) == [(0, 5)]
    assert seen(content, [FILE]) == whole(content)


def test_output_glued_to_a_first_line() -> None:
    assert seen(FILE, [b"no newline" + FILE]) == whole(FILE)


def test_a_line_that_begins_as_a_short_file_does_is_not_the_file() -> None:
    assert seen(b" \n", [b"    pass\n"]) == seen(b" ", [b"    pass\n"]) == []
    assert seen(b"5\n", [b"5 files changed\n"]) == []
    assert seen(b"5\n", [b"version 5\n"]) == [(0, 2)]
    assert seen(b"5", [b"5README.md\n"]) == [(0, 1)]


def test_a_newline_taken_off_by_a_substitution_is_no_loss() -> None:
    assert seen(FILE, [FILE.rstrip(b"\n")]) == whole(FILE)


def test_blanks_alone_vouch_for_no_part_of_a_line() -> None:
    assert seen(b"    pass\n", [b" ", b"  ", b" "]) == []
    assert seen(b"a\n  ", [b"  ", b"a\n"]) == [(0, 4)]


def test_cut_lines_vouch_for_what_was_printed_of_them() -> None:
    content = b"".join(b"%04d %s\n" % (n, b"abcdefghij" * 12) for n in range(50))
    printed = b"".join(line[:80] + b"\n" for line in content.splitlines())
    found = seen(content, [printed])
    assert coverage.size(tuple(found)) == 50 * 80
    assert all((end - start, content[start - 1 : start] in (b"", b"\n")) == (80, True)
               for start, end in found)  # fmt: skip
    marked = b"".join(line[:80] + b"...\n" for line in content.splitlines())
    assert bytes_seen(content, [marked]) == 50 * 80


def test_the_head_of_a_minified_file_is_its_head() -> None:
    content = b";".join(b"var v%d=%d" % (n, n) for n in range(4500))
    assert seen(content, [content[:2000]]) == [(0, 2000)]
    assert seen(content, [b"$ head\n" + content[:2000]]) == [(0, 2000)]
    assert not viewed(content, [content[:2000]])


def test_parts_of_one_long_line_add_up() -> None:
    content = b";".join(b"var v%d=%d" % (n, n) for n in range(4500)) + b"\n"
    parts = [content[at : at + 7000] for at in range(0, len(content), 7000)]
    assert seen(content, parts[::-1]) == whole(content)
    assert seen(content, [b"$ x\n" + part + b"\n$ y\n" for part in parts]) == whole(content)
    alike = b"x" * 50_000
    assert seen(alike, [alike[:17_001], alike[17_001:40_000], alike[40_000:]]) == whole(alike)
    assert bytes_seen(alike, [alike[:10_000]]) == 10_000


# ---- what stands around lines ---------------------------------------------

GUTTERS = {
    "cat -n": lambda n, t: b"%6d\t%s" % (n, t),
    "grep -n": lambda n, t: b"%d:%s" % (n, t),
    "grep -n context": lambda n, t: b"%d-%s" % (n, t),
    "grep -Hn": lambda n, t: b"./src-2/a-1-b.py:%d:%s" % (n, t),
    "grep -Hn context": lambda n, t: b"src/a.py-%d-%s" % (n, t),
    "rg --vimgrep": lambda n, t: b"src/a.py:%d:1:%s" % (n, t),
    "grep -H": lambda n, t: b"src/a.py:%s" % t,
    "diff new": lambda n, t: b"+" + t,
    "combined diff": lambda n, t: b"++" + t,
    "diff": lambda n, t: b"> " + t,
    "bat": lambda n, t: b"%4d   \xe2\x94\x82 %s" % (n, t),
    "bat --style=numbers": lambda n, t: b"%4d %s" % (n, t),
    "less -N": lambda n, t: b"%7d %s" % (n, t),
    "Read": lambda n, t: b"%6d\xe2\x86\x92%s" % (n, t),
    "Read bar": lambda n, t: b"%05d| %s" % (n, t),
    "Read L": lambda n, t: b"L%d: %s" % (n, t),
    "sed =": lambda n, t: b"%d\n%s" % (n, t),
    "coloured": lambda n, t: b"\x1b[32m\x1b[K%d\x1b[m\x1b[K:\x1b[1;31m%s\x1b[0m\x1b[K" % (n, t),
    "hyperlink": lambda n, t: b"\x1b]8;;file:///x#%d\x1b\\%s\x1b]8;;\x1b\\" % (n, t),
    "carriage returns": lambda n, t: t + b"\r",
    "blame": lambda n, t: b"0a1b2c3d4 (A B 2024-01-02 10:11:12 +0100 %3d) %s" % (n, t),
}


def dressed(name: str, lines: list[bytes], first: int = 1) -> bytes:
    gutter = GUTTERS[name]
    return b"".join(gutter(n, line) + b"\n" for n, line in enumerate(lines, first))


@pytest.mark.parametrize("name", GUTTERS)
def test_gutters_are_seen_through(name: str) -> None:
    lines = SOURCE.splitlines()
    assert seen(SOURCE, [dressed(name, lines)]) == whole(SOURCE)
    parts = [dressed(name, lines[at : at + 99], at + 1) for at in range(0, len(lines), 99)]
    assert seen(SOURCE, parts[::-1]) == whole(SOURCE)
    gone = dressed(name, lines[:250]) + dressed(name, lines[251:], 252)
    assert unseen(SOURCE, [gone]) == lines[250] + b"\n"


def test_nl_leaves_blank_lines_without_a_number() -> None:
    made, number = [], 0
    for line in SOURCE.splitlines():
        number += bool(line)
        made.append(b"%6d\t%s\n" % (number, line) if line else b"       \n")
    assert seen(SOURCE, [b"".join(made)]) == whole(SOURCE)


def test_a_number_tells_which_of_two_texts_a_line_says() -> None:
    for content in (b"\n \n", b" \n\n", b"x\n x\n  x\n"):
        assert seen(content, [dressed("Read L", content.splitlines())]) == whole(content)


def test_a_text_with_a_gutter_of_its_own_is_told_from_its_end() -> None:
    content = b"a:b-3-c\nd\nd\nand so on for a while\n"
    assert seen(content, [dressed("grep -H", content.splitlines())]) == whole(content)


def test_what_only_looks_like_an_escape_was_printed_too() -> None:
    for content in (b"\x1b", b"\n\x00\x1b", b"a\n\x1b[1", b"a\x1b[1\nb\n", b"\x1b[31mred\x1b[m\n"):
        assert seen(content, [content]) == whole(content)


def test_numbers_of_a_tail_are_not_the_files() -> None:
    lines = SOURCE.splitlines()
    assert seen(SOURCE, [dressed("cat -n", lines[500:]), dressed("cat -n", lines[:500])]) == whole(
        SOURCE
    )


def test_what_a_diff_took_away_is_not_seen() -> None:
    printed = b"@@ -1,3 +1,3 @@\n line 0 of the file\n-line 1 of the file\n+new\n"
    assert seen(FILE, [printed]) == [(0, 19)]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_marks_and_carriage_returns_come_and_go(mark: bytes, newline: bytes) -> None:
    content = mark + FILE.replace(b"\n", newline)
    for printed in (FILE, content, FILE.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + FILE):
        assert seen(content, [printed]) == whole(content)
        assert seen(content, [dressed("cat -n", printed.splitlines())]) == whole(content)


# ---- views -----------------------------------------------------------------


def test_three_lines_running_are_a_view() -> None:
    assert viewed(FILE, [b"\n".join(LINES[50:53]) + b"\n"])
    assert viewed(FILE, [dressed("cat -n", LINES[50:53], 51)])
    assert viewed(FILE, [b"$\n" + b"\n".join(LINES[50:53]) + b"\n$\n"])


def test_search_hits_are_no_view() -> None:
    assert not viewed(FILE, [b"a.py:8:" + LINES[7] + b"\na.py:90:" + LINES[89] + b"\n"])
    assert not viewed(FILE, [b"\n".join(LINES[50:52]) + b"\n"])


def test_three_closing_braces_are_no_view() -> None:
    content = SOURCE + b"}\n}\n}\n"
    assert not viewed(content, [b"}\n}\n}\n"])


def test_a_tenth_is_a_view() -> None:
    content = b"a first line of some length\n" + b"x" * 200 + b"\n"
    assert viewed(content, [b"a first line of some length\n"])
    assert not viewed(content + b"y" * 300, [b"a first line of some length\n"])


def test_one_spool_judges_many_files() -> None:
    spool = Spool([FILE[:3000]])
    assert not coverage.covers(tuple(spool.seen(FILE)), 0, len(FILE))
    spool.add(SOURCE)
    spool.add(FILE[3000:])
    assert spool.seen(FILE) == whole(FILE)
    assert spool.seen(SOURCE) == whole(SOURCE)
    assert spool.viewed(SOURCE)
    assert spool.seen(b"") == []


# ---- properties --------------------------------------------------------------

words = st.sampled_from([b"", b"}", b"    pass", b"x = 1", b"return", b"a:b-3-c", b"12", b" "])
odd = st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b""))
plain = st.text("abcdefgh ", min_size=1, max_size=30).map(str.encode)
long = st.integers(1, 9).map(lambda n: b"%d;" % n * 200)
line_lists = st.lists(st.one_of(words, plain, odd, long), max_size=40)
few_words = st.lists(words, max_size=40)


@st.composite
def files(draw: st.DrawFn, lines: st.SearchStrategy[list[bytes]] = line_lists) -> bytes:
    newline = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    content = newline.join(draw(lines)) + draw(st.sampled_from([newline, newline, b""]))
    return draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"])) + content


def counted(lines: list[bytes]) -> Counter[bytes]:
    return Counter(line.rstrip(b"\r").removeprefix(b"\xef\xbb\xbf") for line in lines)


def credited(content: bytes, printed: list[bytes]) -> Counter[bytes]:
    """Lines of the content every byte of which is seen."""
    found = tuple(seen(content, printed))
    made, at = [], 0
    for line in content.split(b"\n"):
        end = min(at + len(line) + 1, len(content))
        if end > at and coverage.covers(found, at, end):
            made.append(line)
        at = end
    return counted(made)


@settings(deadline=None, max_examples=100)
@given(files(few_words), st.lists(st.lists(words, max_size=12), max_size=6))
def test_no_line_is_credited_more_often_than_printed(
    content: bytes, printed: list[list[bytes]]
) -> None:
    pieces = [b"".join(line + b"\n" for line in lines) for lines in printed]
    said: Counter[bytes] = Counter()
    for line in (line for lines in printed for line in lines):
        # A line may be any that is left of it when what stands before is a gutter.
        said.update(
            {line, line[1:], line[2:], line[4:], line.lstrip(), b"" if line.isspace() else line}
        )
    for line, times in credited(content, pieces).items():
        assert times <= said[line]


@settings(deadline=None, max_examples=100)
@given(files(), st.lists(st.binary(max_size=60), max_size=6))
def test_every_range_was_printed(content: bytes, printed: list[bytes]) -> None:
    everything = b"\n".join(printed)
    for start, end in seen(content, printed):
        for line in content[start:end].removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            for part in line.split(b"\r"):
                assert part in everything or re.sub(rb"\x1b.*", b"", part) in everything


@settings(deadline=None, max_examples=100)
@given(files(), st.data())
def test_lines_in_any_order_make_a_whole(content: bytes, data: st.DataObject) -> None:
    lines = content.splitlines(keepends=True)
    cuts = data.draw(st.lists(st.integers(0, len(lines)), max_size=5).map(sorted))
    bounds = [0, *cuts, len(lines)]
    pieces = [b"".join(lines[a:b]) for a, b in pairwise(bounds)]
    pieces = data.draw(st.permutations(pieces + data.draw(st.sampled_from([[], [b"ok\nls\n"]]))))
    assert seen(content, pieces) == (whole(content) if content else [])


FITS_ONCE = 16  # bytes


@settings(deadline=None, max_examples=100)
@given(st.lists(plain, min_size=1, max_size=30, unique=True), st.data())
def test_splits_at_any_byte_make_a_whole(lines: list[bytes], data: st.DataObject) -> None:
    content = b"\n".join(b"%d %s" % (n, line) for n, line in enumerate(lines)) + b"\n"
    bounds = [0]
    for cut in data.draw(st.lists(st.integers(0, len(content)), max_size=4).map(sorted)):
        # a few bytes alone may fit in more places than one: they are left unseen
        if cut - bounds[-1] >= FITS_ONCE and len(content) - cut >= FITS_ONCE:
            bounds.append(cut)
    pieces = [content[a:b] for a, b in pairwise([*bounds, len(content)])]
    assert seen(content, data.draw(st.permutations(pieces))) == whole(content)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.one_of(plain, words), min_size=1, max_size=40),
    st.sampled_from(sorted(GUTTERS)),
    st.data(),
)
def test_dressed_pieces_make_a_whole(lines: list[bytes], name: str, data: st.DataObject) -> None:
    content = b"".join(line + b"\n" for line in lines)
    cuts = data.draw(st.lists(st.integers(0, len(lines)), max_size=4).map(sorted))
    bounds = list(zip([0, *cuts], [*cuts, len(lines)], strict=True))
    pieces = [dressed(name, lines[a:b], a + 1) for a, b in bounds]
    assert seen(content, data.draw(st.permutations(pieces))) == whole(content)


@settings(deadline=None, max_examples=100)
@given(st.lists(plain, min_size=3, max_size=30, unique=True), st.data())
def test_a_dropped_line_is_unseen(lines: list[bytes], data: st.DataObject) -> None:
    lines = [b"%d. %s" % (n, line) for n, line in enumerate(lines)]
    gone = data.draw(st.integers(0, len(lines) - 1))
    content = b"\n".join(lines) + b"\n"
    kept = [b"\n".join(lines[:gone]) + b"\n", b"\n".join(lines[gone + 1 :]) + b"\n"]
    start = content.index(lines[gone])
    found = tuple(
        seen(content, data.draw(st.sampled_from([kept, kept[::-1], [kept[0] + kept[1]]])))
    )
    assert not coverage.covers(found, start, start + len(lines[gone]))


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=400), st.lists(st.binary(max_size=200), max_size=5))
def test_nothing_raises(content: bytes, printed: list[bytes]) -> None:
    for start, end in seen(content, printed):
        assert 0 <= start < end <= len(content)
    viewed(content, printed)


@settings(deadline=None, max_examples=100)
@given(files(), st.lists(files(), max_size=3), st.data())
def test_nothing_raises_on_near_misses(
    content: bytes, others: list[bytes], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(content)))
    pieces = [*others, content[start:], content[:start] + b"\x1b[31", b"\n".join(others) + content]
    assert coverage.normal(seen(content, pieces)) == tuple(seen(content, pieces))
