"""The chain of receipts: what was changed, put in or taken out is found; what
a crash left half-written is told from that."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import chain, receipts
from noclobber.receipts import Receipt, Receipts

ONE = Receipt(
    receipts.timestamp(0), "s", "c", 1, "/e", ["a"], "truncate", "/f", "deny", 9, "read",
    1, 2, 0, 1, [], "why",
)  # fmt: skip


def written(path: Path, count: int) -> list[bytes]:
    """That many receipts, each of its own path; the file's lines."""
    log = Receipts(path)
    for number in range(count):
        log.add(replace(ONE, path=f"/{number}"))
    log.close()
    return path.read_bytes().splitlines(keepends=True)


def test_each_line_carries_the_hash_of_the_one_before(tmp_path):
    lines = written(tmp_path / "r", 5)
    hashes = ["", *(chain.hash_of(line.rstrip(b"\n")) for line in lines)]
    assert [json.loads(line)["previous"] for line in lines] == hashes[:-1]
    assert receipts.verify(tmp_path / "r") == chain.Finding(5, hashes[-1])


def test_no_file_and_an_empty_one_are_whole(tmp_path):
    assert receipts.verify(tmp_path / "none") == chain.Finding(0, "")
    (tmp_path / "r").touch()
    assert receipts.verify(tmp_path / "r") == chain.Finding(0, "")


def changed(lines: list[bytes]) -> None:
    lines[3] = lines[3].replace(b"deny", b"okay")


def changed_and_hashed_anew(lines: list[bytes]) -> None:
    lines[3] = lines[3].replace(b"deny", b"okay")
    found = json.loads(lines[4])
    found["previous"] = chain.hash_of(lines[3].rstrip(b"\n"))
    lines[4] = json.dumps(found, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (changed, 5),
        (changed_and_hashed_anew, 6),
        (lambda lines: lines.pop(3), 4),
        (lambda lines: lines.pop(0), 1),
        (lambda lines: lines.insert(3, lines[2]), 4),
        (lambda lines: lines.insert(3, b"{}\n"), 4),
        (lambda lines: lines.insert(3, b"\n"), 4),
        (lambda lines: lines.append(b"junk\n"), 11),
        (lambda lines: lines.append(lines[-1][:50]), 11),
        (lambda lines: lines.__setitem__(3, lines[3][:50] + b"\n"), 4),
        (lambda lines: lines.reverse(), 1),
    ],
)  # fmt: skip
def test_the_first_line_that_is_wrong_is_named(tmp_path, tamper, line):
    lines = written(tmp_path / "r", 10)
    tamper(lines)
    (tmp_path / "r").write_bytes(b"".join(lines))
    found = receipts.verify(tmp_path / "r")
    assert (found.line, found.links) == (line, line - 1) and found.why


@given(at=st.integers(0), bit=st.integers(0, 7))
def test_no_bit_can_be_turned(tmp_path_factory, at, bit):
    path = tmp_path_factory.mktemp("r") / "r"
    written(path, 4)
    data = bytearray(path.read_bytes())
    last = data[:-1].rindex(b"\n") + 1  # the last line's own bytes have no witness yet
    data[at % last] ^= 1 << bit
    path.write_bytes(data)
    assert receipts.verify(path).line


@given(cuts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 600)), max_size=6))
def test_what_crashes_cut_off_is_vouched_for(tmp_path_factory, cuts):
    """Whatever was left of the last receipt, the ones before and after it are
    links, and the chain is whole."""
    path = tmp_path_factory.mktemp("r") / "r"
    for whole, cut in cuts:
        lines = written(path, whole + 1)
        kept = max(len(b"".join(lines[:-1])), path.stat().st_size - 1 - cut)
        os.truncate(path, kept)
    lines = written(path, 2)
    found = receipts.verify(path)
    assert (found.line, found.links + len(found.cut_off)) == (0, len(lines))
    cut_off = {n for n, line in enumerate(lines, 1) if chain.parse(line.rstrip(b"\n")) is None}
    assert set(found.cut_off) == cut_off


@pytest.mark.parametrize("junk", [b"\0" * 200_000, b"junk\n" * 50_000, b"\n", b"[" * 300_000])
def test_any_junk_at_the_end_is_vouched_for_and_changed_junk_is_not(tmp_path, junk):
    lines = written(tmp_path / "r", 2)
    with (tmp_path / "r").open("ab") as file:
        file.write(junk)
    written(tmp_path / "r", 2)
    found = receipts.verify(tmp_path / "r")
    assert (found.line, found.links) == (0, 4) and found.cut_off
    data = bytearray((tmp_path / "r").read_bytes())
    data[len(b"".join(lines))] ^= 1
    (tmp_path / "r").write_bytes(data)
    assert receipts.verify(tmp_path / "r").line == 3


WRITER = """
import sys
from pathlib import Path
from noclobber.receipts import Receipt, Receipts
log = Receipts(Path(sys.argv[1]))
one = Receipt('x', 's', 'c', 1, 'x', ['y' * 300] * 20, *'xxx', 1, 'x', *[1] * 4, [], 'x')
print('ready', flush=True)
while True:
    log.add(one)
"""


def test_writers_that_are_killed_at_any_moment_leave_one_chain(tmp_path):
    path = tmp_path / "r"
    for round_ in range(5):
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        written(path, 20 * (round_ + 1))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            writer.stdout.close()  # type: ignore[union-attr]
    written(path, 1)
    found = receipts.verify(path)
    assert found.line == 0 and found.links >= 301


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path):
    log = Receipts(tmp_path / "r")
    log.add(ONE)
    (tmp_path / "r").rename(tmp_path / "old")
    log.add(ONE)
    log.add(ONE)
    (tmp_path / "r").unlink()
    log.add(ONE)
    log.close()
    assert receipts.verify(tmp_path / "old").links == 1
    assert receipts.verify(tmp_path / "r") == chain.Finding(
        1, chain.hash_of((tmp_path / "r").read_bytes()[:-1])
    )


def test_a_lock_that_is_never_let_go_of_is_an_error_and_no_hang(tmp_path):
    log = Receipts(tmp_path / "r")
    with (tmp_path / "r").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            log.add(ONE)
    log.add(ONE)
    log.close()
    assert receipts.verify(tmp_path / "r").links == 1


def test_log_verify_says_so_and_exits_1(running):
    path = running.state / "receipts.jsonl"
    lines = written(path, 3)
    done = running.cli("log", "--verify")
    assert done.returncode == 0 and chain.hash_of(lines[2].rstrip(b"\n")) in done.stdout
    path.write_bytes(lines[0] + lines[2])
    done = running.cli("log", "--verify")
    assert done.returncode == 1 and "line 2 breaks the chain" in done.stderr
    done = running.cli("log", "--verify", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["line"] == 2
