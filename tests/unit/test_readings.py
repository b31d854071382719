"""The table of what was read: it gives back what runs of records told it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import wire
from noclobber.readings import Read, Readings
from noclobber.wire import C, WireError

KEY_SIZE = wire.ffi.offsetof("struct nc_version", "size")
FEW = st.integers(0, 5)  # of files: many reads are of the same one
U64 = st.integers(0, 2**64 - 1)
SPANS = st.lists(st.tuples(U64, U64), max_size=4)
VERSIONS = st.builds(wire.Version, FEW, FEW, U64, FEW, FEW)
READS = st.lists(st.tuples(VERSIONS, SPANS, st.integers(0, 3)), max_size=200)
CHUNKS = st.lists(st.tuples(st.integers(1, 2**64 - 1), READS), max_size=4)


def record(version, spans, flags=0, count=None):
    tail = b"".join(wire.RANGE.pack(*span) for span in spans)
    many = len(spans) if count is None else count
    return wire.record(C.NC_READ, wire.READ, *version, many, 0, flags=flags, tail=tail)


def version(ino, dev=1):
    return wire.Version(dev, ino, 10, 0, 0)


def key(of):
    return wire.VERSION.pack(*of)[:KEY_SIZE]


@given(CHUNKS)
def test_every_read_of_a_file_comes_back_in_order(chunks):
    readings, told = Readings(), {}
    for token, reads in chunks:
        raw = b"".join(record(*read) for read in reads)
        for _, _, at, end in wire.records(raw, len(raw))[0]:
            readings.take(token, raw, at, end)
        for of, spans, flags in reads:
            stamp = wire.VERSION.pack(*of)[KEY_SIZE:]
            told.setdefault(key(of), []).append(Read(token, flags, stamp, tuple(spans)))
    assert readings.count == sum(len(reads) for _, reads in chunks)
    assert {k: list(readings.of(k)) for k in told} == told
    assert readings.keys([range(1, readings.count + 1)]) == told.keys()
    assert all(k in readings for k in told) and key(version(99)) not in readings


def test_files_by_the_thousand_are_all_found():
    readings = Readings()
    versions = [version(ino, dev) for dev in (1, 2) for ino in range(1000, 6000)]
    raw = b"".join(record(v, [(0, v.ino)]) for v in versions)
    readings.take(7, raw, 0, len(raw))
    found = [[read.ranges for read in readings.of(key(v))] for v in versions]
    assert found == [[((0, v.ino),)] for v in versions]


def test_read_records_that_follow_each_other_are_one():
    reads = b"".join(record(version(n), [(0, 9)]) for n in range(3))
    other = wire.record(C.NC_REPLY, wire.RECORD)
    whole = reads + other + reads
    found, end = wire.records(whole, len(whole))
    size, second = len(reads), len(reads) + len(other)
    assert found == [
        (C.NC_READ, 0, 0, size),
        (C.NC_REPLY, 0, size, second),
        (C.NC_READ, 0, second, len(whole)),
    ]
    assert end == len(whole)


@given(st.data())
def test_reads_are_found_however_the_stream_is_cut(data):
    whole = b"".join(record(version(n), [(n, n + 1)] * (n % 3)) for n in range(20))
    cut = data.draw(st.integers(0, len(whole)))
    found, end = wire.records(whole[:cut], cut)
    rest, rest_end = wire.records(whole[end:], len(whole) - end)
    readings = Readings()
    for buffer, runs in ((whole, found), (whole[end:], rest)):
        for _, _, at, stop in runs:
            readings.take(1, buffer, at, stop)
    assert end + rest_end == len(whole) and readings.count == 20


def test_what_a_shell_obeyed_is_not_kept():
    readings = Readings()
    raw = record(version(1), [(0, 5)], C.NC_EXECUTED) + record(version(2), [(0, 5)])
    readings.take(1, raw, 0, len(raw))
    assert key(version(1)) not in readings and key(version(2)) in readings


@pytest.mark.parametrize("count", [0, 2, 2**28, 2**32 - 1])
def test_ranges_that_do_not_fit_are_refused_and_what_came_before_stands(count):
    readings = Readings()
    raw = record(version(1), [(0, 5)]) + record(version(2), [(0, 5)], count=count)
    with pytest.raises(WireError):
        readings.take(1, raw, 0, len(raw))
    assert key(version(1)) in readings and key(version(2)) not in readings
