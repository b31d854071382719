"""A harness that reads, writes and edits in its own process, under
`noclobber run`, with and without the two lines of the Python API."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parent / "programs" / "harness.py"
LINES = [f"line {number} of the old text" for number in range(1, 5001)]
OLD = "\n".join(LINES) + "\n"
NEW = "a new text\n" * 50


@pytest.fixture
def file(guard) -> Path:
    path = guard.tree / "f"
    path.write_text(OLD)
    return path


def run(guard, *steps: list, api: bool) -> list[str]:
    """The results of an agent's steps."""
    words = [sys.executable, str(HARNESS), *(["--api"] if api else []), json.dumps(steps)]
    done = guard.cli("run", "--session", "r", "--root", str(guard.tree), "--", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pages(file: Path, count: int = 5) -> list[list]:
    return [["read", str(file), 1 + 1000 * page] for page in range(count)]


def test_after_paging_through_all_of_it_a_rewrite_passes(guard, file):
    *_, asked, done = run(
        guard, *pages(file), ["may_write", str(file)], ["write", str(file), NEW], api=True
    )
    assert (asked, done) == ("allow", "written") and file.read_text() == NEW
    assert guard.receipts() == []  # all of it was known: nothing had to be kept


def test_a_page_is_not_the_file(guard, file):
    shown, asked = run(guard, ["read", str(file)], ["may_write", str(file)], api=True)
    assert "(showing lines 1-1000 of 5000)" in shown and asked == "deny"
    found = json.loads(guard.cli("show", str(file), "--json").stdout)
    assert found["shown"] == [[0, len("\n".join(LINES[:1000])) + 1]]


@pytest.mark.parametrize("api", [False, True])
def test_an_edit_of_a_file_that_nobody_saw_in_full_passes(guard, file, api):
    shown, done = run(
        guard,
        ["read", str(file)],
        ["edit", str(file), LINES[3000] + "\n", "another line\n"],
        api=api,
    )
    assert done == "written" and "line 1 of" in shown
    assert file.read_text() == OLD.replace(LINES[3000] + "\n", "another line\n")
    assert guard.denied() == []


def test_a_file_that_the_agent_wrote_may_be_rewritten(guard, file):
    new = str(guard.tree / "new")
    results = run(
        guard,
        ["write", new, NEW], ["may_write", new], ["write", new, NEW * 2], api=True,
    )  # fmt: skip
    assert results == ["written", "allow", "written"] and guard.receipts() == []


@pytest.mark.parametrize("api", [False, True])
def test_writing_back_what_one_read_returned_is_refused(guard, file, api):
    _, done = run(guard, ["read", str(file)], ["write_back", str(file)], api=api)
    assert done.startswith("error: ") and file.read_text() == OLD
    assert guard.denied() == [str(file)]


def test_what_a_person_allowed_passes_there_too_and_once(guard, file):
    steps = [["read", str(file)], ["write_back", str(file)]]
    assert run(guard, *steps, api=True)[1] != "written"
    assert guard.cli("allow", str(file), "--reason", "the rest is old").returncode == 0
    assert run(guard, *steps, api=True)[1] == "written"
    assert file.read_text() == "\n".join(LINES[:1000]) + "\n"
    (used,) = [each for each in guard.receipts() if each["row"] == 7]
    assert used["override"]["reason"] == "the rest is old" and used["snapshot"]
    assert guard.cli("allow", "--json").stdout == ""


def test_what_its_commands_print_is_not_the_harnesss_to_say(guard, file):
    text = "from noclobber import Session; Session().shown('f')"
    done = guard.run(sys.executable, "-c", text)
    assert done.returncode != 0 and "start the harness by noclobber run" in done.stderr
    assert guard.shell("echo x > f").returncode != 0 and file.read_text() == OLD
