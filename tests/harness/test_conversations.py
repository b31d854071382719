"""The same conversations with every harness."""

from __future__ import annotations

import itertools
import shutil

import pytest

_numbers = itertools.count(1)

OLD = "".join(f"line {number} of the old text\n" for number in range(1, 413))


@pytest.fixture
def guard(shared_guard):
    """One daemon for all: the sessions have names of their own."""
    yield shared_guard
    for path in shared_guard.tree.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def harness(harness):
    harness.session = f"s{next(_numbers)}"
    return harness


def test_a_part_that_was_read_is_not_the_file(harness, page, guard):
    harness.read(page, 1, 5)
    reason = harness.may_write(page)
    assert "it holds 10192 bytes (412 lines)" in reason
    assert "was shown 115 bytes (5 lines)" in reason
    assert f"sed -n '6,412p' {page}" in reason and page.read_text() == OLD
    (receipt,) = [r for r in guard.receipts() if r["session"] == harness.session]
    assert (receipt["verdict"], receipt["path"]) == ("deny", str(page))
    assert receipt["exe"] == harness.name
    told = guard.cli("explain", str(page))
    assert told.returncode == 0 and "row 9" in told.stdout.lower()
    assert guard.cli("log", "--verify").returncode == 0


def test_two_halves_are_the_file_in_any_order(harness, page):
    harness.read(page, 207)
    assert harness.may_write(page)
    harness.read(page, 1, 206)
    assert harness.write(page, "all new\n") == "" and page.read_text() == "all new\n"
    assert harness.write(page, "and once more\n") == ""


@pytest.mark.parametrize("content", [
    OLD.replace("\n", "\r\n").encode(),
    b"\xef\xbb\xbf" + OLD.encode(),
    OLD.removesuffix("\n").encode(),
], ids=["CRLF", "BOM", "no newline"])  # fmt: skip
def test_other_line_ends_and_marks_are_seen_through(harness, page, content):
    page.write_bytes(content)
    harness.read(page, 1, 300)
    assert harness.may_write(page)
    harness.read(page, 301)
    assert harness.may_write(page) == ""


def test_what_the_harness_cut_was_not_seen(harness, guard):
    path = guard.tree / "long"
    path.write_text("".join(f"{number} here\n" for number in range(1, 4121)))
    harness.read(path)
    assert "(2000 lines) of it; unseen: lines 2001-4120" in harness.may_write(path)


def test_what_somebody_else_changed_is_unseen(harness, page):
    harness.read(page)
    assert harness.may_write(page) == ""
    page.write_text(OLD.replace("line 7 of", "line seven of"))
    assert "unseen: line 7" in harness.may_write(page)


def test_what_was_compacted_away_is_unseen(harness, page, guard):
    harness.read(page)
    assert harness.may_write(page) == ""
    assert harness.said(harness.compacts()) == {}
    assert "was shown 0 bytes" in harness.may_write(page)


def test_what_its_shell_printed_counts(harness, page):
    harness.printed(f"head -n 300 {page}", "".join(OLD.splitlines(True)[:300]))
    assert "(300 lines) of it" in harness.may_write(page)
    numbered = "".join(f"{n:6}\tline {n} of the old text\n" for n in range(301, 413))
    harness.printed(f"cat -n {page} | tail -n 112", numbered)
    assert harness.may_write(page) == ""


def test_an_edit_passes_and_keeps_what_is_known(harness, page):
    assert harness.edit(page, "line 300 of the old text\n", "line three hundred\n") == ""
    assert harness.may_write(page)
    harness.read(page)
    assert harness.edit(page, "line 12 of the old text\n", "line twelve\nand one\n") == ""
    assert harness.may_write(page) == ""


def test_a_text_that_stands_there_twice_names_no_place(harness, guard):
    path = guard.tree / "f"
    path.write_text("a\nx = 1\nb\nx = 1\nc\n")
    assert "2 times, at lines 2, 4." in harness.edit(path, "x = 1\n", "x = 2\n")
    assert harness.edit(path, "b\nx = 1\n", "b\nx = 2\n") == ""
    assert path.read_text() == "a\nx = 1\nb\nx = 2\nc\n"


def test_two_sessions_have_two_ledgers(harness, page):
    harness.read(page)
    harness.session += "-another"
    assert harness.may_write(page)


def test_a_session_of_the_guard_is_the_harnesss_own(harness, page, guard):
    """Under `noclobber run` its commands and its tools are of one ledger."""
    run = harness.session + "-run"
    assert guard.run("head", "-n", "300", str(page), session=run).returncode == 0
    harness.env |= {"NOCLOBBER_SESSION": run, "NOCLOBBER_COMMAND": "agent-1"}
    assert "(300 lines) of it" in harness.may_write(page)
    harness.read(page, 301)
    assert harness.may_write(page) == ""
    assert guard.shell(f"echo x > {page}", session=run).returncode == 0


def test_a_harness_that_the_agent_runs_sees_for_itself(harness, page, guard):
    run = harness.session + "-run"
    assert guard.run("cat", str(page), session=run).returncode == 0
    harness.env |= {"NOCLOBBER_SESSION": run, "NOCLOBBER_COMMAND": "cmd-1"}
    assert "was shown 0 bytes" in harness.may_write(page)
    harness.read(page)
    assert harness.may_write(page) == ""
