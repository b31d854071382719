"""The index behind attesting: many pieces, few of them asked about, and what
is too much to be looked at counts as unseen."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from noclobber import coverage
from noclobber.attest import Spool, seen
from noclobber.config import PRESETS, Config
from noclobber.evidence import Evidence
from noclobber.ledger import Command, Ledger

TEXT = b"".join(b"line %d of the file\n" % n for n in range(400))

words = st.sampled_from([b"", b"}", b"    pass", b"x = 1", b"3:x = 1", b"\t12\tpass", b"a/b:x = 1"])
texts = st.lists(words, min_size=1, max_size=12).map(lambda ls: b"".join(x + b"\n" for x in ls))
noise = st.binary(max_size=80)


@settings(deadline=None, max_examples=200)
@given(texts, st.lists(st.one_of(texts, noise), max_size=8), st.data())
def test_some_pieces_of_many_say_what_they_say_alone(
    content: bytes, printed: list[bytes], data: st.DataObject
) -> None:
    spool = Spool()
    numbers = [spool.add(piece) for piece in printed]
    of = [n for n in numbers if n >= 0 and data.draw(st.booleans())]
    alone = [piece for piece, n in zip(printed, numbers, strict=True) if n in of]
    assert spool.seen(content, of) == seen(content, alone)
    assert spool.viewed(content, of) == Spool(alone).viewed(content)


bare_words = st.sampled_from([b"", b"}", b"    pass", b"x = 1", b"return x"])
bare_lines = st.lists(bare_words, min_size=1, max_size=12)


@settings(deadline=None, max_examples=300)
@given(bare_lines, st.lists(bare_lines, max_size=6))
def test_a_line_is_seen_no_more_often_than_it_was_printed(
    lines: list[bytes], printed: list[list[bytes]]
) -> None:
    content = b"".join(line + b"\n" for line in lines)
    found = tuple(seen(content, [b"".join(x + b"\n" for x in piece) for piece in printed]))
    times: Counter[bytes] = Counter()
    at = 0
    for line in lines:
        times[line] += coverage.covers(found, at, at + len(line) + 1)
        at += len(line) + 1
    said = Counter(line for piece in printed for line in piece)
    # Runs that overlap are printed twice and seen once, so it may be fewer.
    assert times <= said


long_parts = st.lists(st.sampled_from([b"abcdefgh" * 9, b"x" * 70, b"var a=1;" * 12, b"<p>" * 40]))


@settings(deadline=None, max_examples=200)
@given(long_parts.map(b"".join), st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900))))
def test_parts_of_long_lines_are_spent_once(line: bytes, cuts: list[tuple[int, int]]) -> None:
    content = b"head\n" + line + b"\ntail\n"
    pieces = [b"$ x\n" + line[a:b] + b"\n$ y\n" for a, b in cuts if a < b]
    found = seen(content, pieces)
    newlines = len(found)  # the line's own may be counted with its end
    assert coverage.size(tuple(found)) <= sum(b - a for a, b in cuts if a < b) + newlines
    assert all(5 <= start < end <= len(content) - 5 for start, end in found)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=9).map(sorted))
def test_a_long_line_printed_in_parts_is_seen_whole(cuts: list[int]) -> None:
    line = b";".join(b"var v%d=%d" % (n, n * n) for n in range(2000))[:30_000]
    bounds = [0, *(c for c in cuts if 200 < c < 29_800), 30_000]
    if any(b - a < 200 for a, b in pairwise(bounds)):
        return
    pieces = [b"$\n" + line[a:b] + b"\n$\n" for a, b in pairwise(bounds)]
    assert seen(line + b"\n", pieces) == [(0, 30_001)]


def test_lines_beyond_what_one_piece_may_have_are_unseen() -> None:
    piece = b"x\n" * 1_000_000
    assert seen(piece + b"y\n", [piece + b"y\n"]) == [(0, len(piece))]


def test_any_bytes_may_be_indexed_and_judged() -> None:
    every = bytes(range(256)) * 40
    for printed in (every, every[::-1], b"\x1b" + every, b"\xef\xbb\xbf" + every, b"\n" * 999):
        assert seen(printed, [printed]) == [(0, len(printed))]


def command(ident: bytes, *texts: bytes, ended: bool = True) -> Command:
    made = Command(ident, 0, ended=ended)
    at = 0
    for text in texts:
        made.show(at, text)
        at += len(text)
    return made


def test_a_running_commands_text_is_one_piece_however_it_came() -> None:
    ledger = Ledger()
    evidence = Evidence(ledger, Config().shown)
    running = ledger.start_command(command(b"run", TEXT[:1003], ended=False))
    assert evidence.shown(TEXT) == ((0, 1003),)
    running.show(1003, TEXT[1003:2000])
    assert evidence.shown(TEXT) == ((0, 2000),)
    assert evidence.shown(TEXT, frozenset([b"run"])) == ()
    assert evidence.viewed(TEXT, [b"run"]) and not evidence.viewed(TEXT, [b"other"])


def test_what_a_child_prints_after_the_end_counts_too() -> None:
    ledger = Ledger()
    evidence = Evidence(ledger, Config().shown)
    ended = ledger.start_command(command(b"one", TEXT[:1000]))
    assert evidence.shown(TEXT) == ((0, 1000),)
    ended.show(1000, TEXT[1000:])
    assert evidence.shown(TEXT) == ((0, len(TEXT)),)


def test_a_line_that_grew_is_not_counted_twice() -> None:
    ledger = Ledger()
    evidence = Evidence(ledger, Config().shown)
    running = ledger.start_command(command(b"run", b"pass\n", ended=False))
    for n in range(5):
        evidence.take_in()
        running.show(5 + n, b"#")
    assert evidence.shown(b"pass\n" * 9) == ((0, 5),)


def test_the_oldest_text_goes_out_of_sight_first() -> None:
    ledger = Ledger()
    evidence = Evidence(ledger, Config().shown)
    big = b"y" * (20 << 20)
    for n in range(4):
        one = ledger.start_command(command(b"%d" % n, b"note %d for the reader\n" % n + big))
        one.time = n
        evidence.take_in()
    assert evidence.shown(b"note 3 for the reader\n") == ((0, 22),)
    assert evidence.shown(b"note 0 for the reader\n") == ()


LONG = b"".join(b"note %d of a long output\n" % n for n in range(2000))  # 50 kB


def claude(text: bytes, failed: bool) -> Evidence:
    ledger = Ledger()
    one = ledger.start_command(command(b"one", text, ended=False))
    one.attested, one.limit = True, PRESETS["claude"].whole
    evidence = Evidence(ledger, PRESETS["claude"])
    evidence.take_in()  # before it is known how the command ends
    one.ended, one.failed = True, failed
    return evidence


def test_of_a_long_output_a_harness_that_shows_a_preview_shows_no_more() -> None:
    assert claude(LONG[:30_000], failed=False).shown(LONG) == ((0, 30_000),)
    assert claude(LONG[:30_001], failed=False).shown(LONG) == ((0, 2_000),)


def test_of_a_failed_commands_output_less_is_shown() -> None:
    assert claude(LONG[:10_000], failed=True).shown(LONG) == ((0, 10_000),)
    assert claude(LONG[:20_000], failed=True).shown(LONG) == ((0, 5_000), (15_000, 20_000))


def test_a_limit_that_the_host_gave_stands() -> None:
    evidence = claude(LONG, failed=True)
    next(iter(evidence._ledger.commands.values())).limit = 60_000
    assert evidence.shown(LONG) == ((0, len(LONG)),)
