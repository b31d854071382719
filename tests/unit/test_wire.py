"""Records: what is encoded comes back, and garbage raises nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import wire
from noclobber.wire import C, WireError

U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.builds(wire.Version, U64, U64, U64, I64, I64)


@given(VERSIONS, st.lists(st.tuples(U64, U64), max_size=20), st.integers(0, 7))
def test_a_read_comes_back(version, ranges, flags):
    tail = b"".join(wire.RANGE.pack(*span) for span in ranges)
    raw = wire.record(C.NC_READ, wire.READ, *version, len(ranges), 0, flags=flags, tail=tail)
    (found,), end = wire.records(raw, len(raw))
    assert found == (C.NC_READ, flags, 0, len(raw)) and end == len(raw)
    *_, count, _ = wire.READ.unpack_from(raw)
    assert wire.Version(*wire.READ.unpack_from(raw)[4:9]) == version
    assert list(wire.RANGE.iter_unpack(raw[wire.READ.size :])) == ranges and count == len(ranges)


@given(st.binary(max_size=300), st.binary(max_size=300), VERSIONS)
def test_strings_come_back(old, new, version):
    raw = wire.record(C.NC_NAMED, wire.NAMED, *version, len(old), len(new), flags=1, tail=old + new)
    assert len(raw) % wire.ALIGN == 0
    assert wire.strings(raw, wire.NAMED.size, len(raw), [len(old), len(new)]) == [old, new]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_records_are_found_however_the_stream_is_cut(texts, data):
    whole = b"".join(wire.record(C.NC_REPLY, wire.RECORD, tail=text) for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pending, found = b"", 0
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        pending += whole[start:end]
        records, used = wire.records(pending, len(pending))
        found += len(records)
        pending = pending[used:]
    assert found == len(texts) and pending == b""


@given(st.binary(max_size=400))
def test_garbage_is_a_wire_error_or_waits_for_more(raw):
    try:
        found, end = wire.records(raw, len(raw))
    except WireError:
        return
    assert all(start < stop <= end for _, _, start, stop in found)


@given(st.integers(0, 255), st.integers(0, 2**32 - 1))
def test_a_size_that_no_record_has_is_refused(kind, size):
    raw = wire.RECORD.pack(size, C.NC_VERSION, kind, 0)
    if size % wire.ALIGN or size > C.NC_RECORD_MAX or size < wire.RECORD_SIZE:
        with pytest.raises(WireError):
            wire.records(raw, len(raw))


def test_another_version_is_refused():
    raw = wire.RECORD.pack(8, C.NC_VERSION + 1, C.NC_REPLY, 0)
    with pytest.raises(WireError, match="version"):
        wire.records(raw, len(raw))


def test_strings_past_the_record_are_refused():
    with pytest.raises(WireError):
        wire.strings(b"abc", 0, 3, [2, 2])


def test_layouts_are_the_compilers():
    for name in ("nc_hello", "nc_read", "nc_wrote", "nc_question", "nc_answer", "nc_shown"):
        assert wire.layout(name).size == wire.ffi.sizeof(f"struct {name}")


def test_an_answer_reads_back_as_the_shim_reads_it():
    raw = wire.answer(7, C.NC_DENY, 9, b"/scope", b"text")
    answer = wire.ffi.from_buffer("struct nc_answer *", raw)
    assert (answer.id, answer.verdict, answer.row) == (7, C.NC_DENY, 9)
    assert (answer.scope_size, answer.text_size) == (6, 4)
    assert answer.record.size == len(raw) and len(raw) % 8 == 0


@given(st.lists(st.binary(min_size=1, max_size=9).filter(lambda w: b"\0" not in w)))
def test_words_come_back(words):
    assert wire.words(b"".join(word + b"\0" for word in words)) == words
