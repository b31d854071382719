"""Receipts and the journal: what is on disk outlives what happens to it."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import receipts
from noclobber.journal import RECORDS, Entry, Journal
from noclobber.receipts import DamagedReceiptError, Receipt, Receipts, Unseen


def receipt(path: str = "/f", **changes) -> Receipt:
    fields = {
        "time": receipts.timestamp(0), "session": "s", "command": "c", "pid": 1, "exe": "/e",
        "argv": ["a"], "op": "truncate", "path": path, "verdict": "deny", "row": 9,
        "grade": "read", "seen_bytes": 1, "total_bytes": 2, "seen_lines": 0, "total_lines": 1,
        "unseen": [Unseen(1, 2, 1, 1)], "reason": "why",
    }  # fmt: skip
    return Receipt(**(fields | changes))


def test_a_receipt_is_one_line_with_the_fields_that_were_promised(tmp_path):
    path = tmp_path / "r"
    Receipts(path).add(receipt())
    (found,) = receipts.read(path)
    promised = (
        "time session command pid exe argv op path verdict row grade seen_bytes total_bytes "
        "seen_lines total_lines unseen reason"
    )
    assert set(promised.split()) <= set(found)
    assert found["unseen"] == [{"start": 1, "end": 2, "first_line": 1, "last_line": 1}]
    assert path.stat().st_mode & 0o777 == 0o600


def test_time_is_utc_with_microseconds():
    assert receipts.timestamp(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"


@given(st.binary(min_size=1, max_size=30).filter(lambda name: b"\0" not in name))
def test_any_path_comes_back_through_json(tmp_path_factory, name):
    path = tmp_path_factory.mktemp("r") / "r"
    Receipts(path).add(receipt(os.fsdecode(name)))
    line = path.read_bytes()
    assert line.isascii() and line.count(b"\n") == 1
    assert os.fsencode(json.loads(line)["path"]) == name


def test_no_file_is_no_receipts(tmp_path):
    assert list(receipts.read(tmp_path / "none")) == []


def test_a_line_cut_off_is_told_of_and_loses_nothing_else(tmp_path):
    path = tmp_path / "r"
    Receipts(path).add(receipt("/one"))
    with path.open("ab") as file:
        file.write(b'{"time": "2')
    Receipts(path).add(receipt("/two"))
    one, damage, two = receipts.read(path)
    assert (one["path"], two["path"]) == ("/one", "/two")
    assert isinstance(damage, DamagedReceiptError) and damage.line == 2
    assert f"{path}: line 2" in str(damage)


@pytest.mark.parametrize("line", [b"[1]", b"null", b"\xff\xfe", b"{"])
def test_what_is_no_object_is_damage(tmp_path, line):
    with pytest.raises(DamagedReceiptError):
        receipts.parse(tmp_path, 1, line)


def entry(session: bytes, time: int, data: bytes = b"x") -> Entry:
    return Entry(1, session, time, 7, RECORDS, data)


def replayed(path, since=0):
    journal = Journal(path)
    sessions = journal.open(since)
    return journal, [each for name in sorted(sessions) for each in journal.entries(name)]


def test_a_journal_comes_back_in_order(tmp_path):
    journal, _ = replayed(tmp_path / "db")
    entries = [entry(b"s", n, bytes([n])) for n in range(10)]
    for each in entries:
        journal.add(each)
    assert journal.dirty
    journal.commit()
    assert not journal.dirty
    journal.close()
    assert replayed(tmp_path / "db")[1] == entries


def test_sessions_that_were_silent_too_long_are_forgotten_whole(tmp_path):
    journal, _ = replayed(tmp_path / "db")
    old, new = entry(b"old", 5), entry(b"new", 5)
    for each in (old, new, entry(b"new", 50)):
        journal.add(each)
    journal.close()
    assert {each.session for each in replayed(tmp_path / "db", since=10)[1]} == {b"new"}
    assert len(replayed(tmp_path / "db")[1]) == 2


@pytest.mark.parametrize("where", ["head", "middle", "all"])
def test_a_damaged_database_is_moved_aside(tmp_path, where):
    path = tmp_path / "db"
    journal, _ = replayed(path)
    for number in range(2000):
        journal.add(entry(b"s", number, os.urandom(100)))
    journal.close()
    raw = bytearray(path.read_bytes())
    spans = {"head": (0, 100), "middle": (60_000, 120_000), "all": (0, len(raw))}
    start, end = spans[where]
    raw[start:end] = b"\xa5" * (end - start)
    path.write_bytes(raw)
    journal, found = replayed(path)
    assert str(path) in journal.trouble and "damaged" in journal.trouble
    assert where != "middle" or 0 < len(found) < 2000
    aside = [each for each in tmp_path.iterdir() if ".damaged-" in each.name]
    assert any(each.read_bytes() == raw for each in aside)
    journal.add(entry(b"s", 1))
    journal.close()
    assert len(replayed(path)[1]) == len(found) + 1


def test_times_speakers_and_kinds_are_known_without_reading_it_all(tmp_path):
    journal, _ = replayed(tmp_path / "db")
    for each in (entry(b"a", 5), entry(b"a", 9), entry(b"b", 7)._replace(kind=2, speaker=4)):
        journal.add(each)
    journal.close()
    journal = Journal(tmp_path / "db")
    assert journal.open(0) == {b"a": (5, 9), b"b": (7, 7)}
    assert (journal.last_speaker, journal.having(2)) == (4, {b"b"})


def test_a_database_that_cannot_be_written_keeps_what_waits(tmp_path):
    journal, _ = replayed(tmp_path / "db")
    journal.add(entry(b"s", 1))
    journal._db.execute("PRAGMA query_only = ON")
    journal.commit()
    assert journal.dirty and "a restart would lose" in journal.trouble
    journal._db.execute("PRAGMA query_only = OFF")
    journal.commit()
    assert not journal.dirty and journal.trouble == ""
