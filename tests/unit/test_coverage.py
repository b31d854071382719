"""Interval sets: each function against the same thing done byte by byte."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from noclobber import coverage

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)
SETS = RANGES.map(coverage.normal)
POINT = st.integers(0, 60)


def bytes_of(ranges):
    return {byte for start, end in ranges for byte in range(start, end)}


def is_normal(held):
    return all(s < e for s, e in held) and all(a[1] < b[0] for a, b in itertools.pairwise(held))


@given(RANGES)
def test_normal_keeps_every_byte_and_no_other(ranges):
    made = coverage.normal(ranges)
    assert is_normal(made)
    assert bytes_of(made) == bytes_of(ranges)


@given(SETS, SETS)
def test_union_is_what_is_in_either(one, other):
    made = coverage.union(one, other)
    assert is_normal(made)
    assert bytes_of(made) == bytes_of(one) | bytes_of(other)


@given(SETS, SETS)
def test_intersect_is_what_is_in_both(one, other):
    made = coverage.intersect(one, other)
    assert is_normal(made)
    assert bytes_of(made) == bytes_of(one) & bytes_of(other)


@given(SETS, SETS)
def test_subtract_is_what_is_in_the_first_alone(one, other):
    made = coverage.subtract(one, other)
    assert is_normal(made)
    assert bytes_of(made) == bytes_of(one) - bytes_of(other)


@given(SETS, POINT, POINT)
def test_clip_and_gaps_share_a_range_out(held, start, end):
    inside, outside = coverage.clip(held, start, end), coverage.gaps(held, start, end)
    assert is_normal(inside) and is_normal(outside)
    assert bytes_of(inside) | bytes_of(outside) == set(range(start, end))
    assert not bytes_of(inside) & bytes_of(outside)
    assert bytes_of(inside) <= bytes_of(held)


@given(SETS, POINT, POINT)
def test_covers_is_true_for_every_byte_or_not_at_all(held, start, end):
    assert coverage.covers(held, start, end) == (set(range(start, end)) <= bytes_of(held))


@given(SETS)
def test_size_counts_bytes(held):
    assert coverage.size(held) == len(bytes_of(held))


@given(st.lists(SETS, max_size=5))
def test_halves_in_any_order_make_the_same_whole(parts):
    assert coverage.union(*parts) == coverage.union(*reversed(parts))


def test_a_gap_of_one_byte_stays_a_gap():
    assert not coverage.covers(coverage.normal([(0, 5), (6, 10)]), 0, 10)
    assert coverage.covers(coverage.normal([(5, 10), (0, 5)]), 0, 10)


def test_the_whole_of_nothing_is_nothing():
    assert coverage.whole(0) == coverage.NOTHING
    assert coverage.whole(3) == ((0, 3),)
