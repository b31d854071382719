"""What test_model.py found, each as the shortest work that shows it."""

from __future__ import annotations

from typing import Any

import pytest

FILE = "".join(f"line {n}\n" for n in range(400))


def test_what_sed_carried_over_is_unseen_also_when_something_read_it_since(guard: Any) -> None:
    """While it was worked out whether sed's file was the session's own, the
    reading by wc asked the same, was told "assume so", and that was kept."""
    (guard.tree / "f").write_text(FILE)
    done = guard.shell("sed -i '3i three' f; wc -l f; printf new > f")
    assert done.returncode != 0
    assert guard.denied() == [str(guard.tree / "f")]
    assert (guard.tree / "f").read_text() == FILE.replace("line 2\n", "three\nline 2\n")


def test_what_a_command_printed_itself_is_no_evidence_by_way_of_a_sort(guard: Any) -> None:
    """sort may rewrite what its command has just printed; the text that stands
    behind it in the same command was written before anything was printed."""
    (guard.tree / "f").write_text(FILE)
    done = guard.shell("cat f; sort -o f f; printf new > f")
    assert done.returncode != 0
    assert guard.denied() == [str(guard.tree / "f")]


def test_what_a_command_printed_and_then_edited_is_known_to_the_next(guard: Any) -> None:
    (guard.tree / "f").write_text(FILE)
    assert guard.shell("cat f; sed -i 's/line 3$/three/' f").returncode == 0
    assert guard.shell("printf new > f").returncode == 0
    assert guard.denied() == []


def test_what_was_put_back_under_a_stream_is_not_its_writing(guard: Any) -> None:
    """tee closed the stream of the creation that was refused, reported the old
    bytes in it as written by it, and they were the session's own from then on."""
    (guard.tree / "f").write_text(FILE)
    assert guard.shell("head -n 50 f").returncode == 0
    assert guard.shell("rm f").returncode == 0
    assert guard.shell("set -o pipefail; printf new | tee f").returncode != 0
    assert guard.shell("printf new > f").returncode != 0
    assert guard.denied() == [str(guard.tree / "f")] * 2
    assert (guard.tree / "f").read_text() == FILE


def test_a_tombstone_is_laid_at_no_name_of_another_file_of_that_number(guard: Any) -> None:
    """Files get the numbers of files that are gone: when a temporary file was
    deleted, a tombstone lay at a name that its number had had long before."""
    (guard.tree / "d").write_text(FILE)
    for name in "abc":
        (guard.tree / name).write_text(FILE.replace("line", name))
        done = guard.shell(f"sed s/1/2/ {name} > t && mv t {name} && mv {name} {name}2")
        assert done.returncode == 0
    assert guard.shell("head -n 9 d > t; head -n 4 t; rm t").returncode == 0
    for name in "abc":
        done = guard.shell(f"cp d {name}")
        assert done.returncode == 0, done.stderr
        assert (guard.tree / name).read_text() == FILE


def test_what_is_left_of_a_known_file_after_its_end_was_cut_off_is_known(guard: Any) -> None:
    """Nothing that was printed ends as the cut line does."""
    (guard.tree / "f").write_text("the same line\n" * 400)
    assert guard.shell("cat f").returncode == 0
    assert guard.shell("truncate -s 1234 f").returncode == 0
    assert guard.shell("printf new > f").returncode == 0


@pytest.mark.parametrize(
    "filters",
    [
        "sed 2d < f | cat",
        "sed 2d < f | tee /dev/null",
        "cat f | sed 2d | cat",
        "cat f | awk 1 | tr a b | cat",
        "cat f | { sed 2d; } | (tac) | dd status=none",
    ],
)
def test_a_filter_in_the_middle_hands_on_what_it_read(guard: Any, filters: str) -> None:
    """A program that reads and writes by stdio alone closes standard output
    first: then it had nothing to say yet, and its end of the pipe was not told."""
    (guard.tree / "f").write_text(FILE)
    done = guard.shell(f"{filters} > t; mv t f")
    assert done.returncode == 0, done.stderr
    assert guard.denied() == []


def test_a_number_in_the_middle_hands_on_no_file(guard: Any) -> None:
    (guard.tree / "f").write_text(FILE)
    assert guard.shell("wc -l f | sed s/f// | tr a b | cat > t; mv t f").returncode != 0
    assert (guard.tree / "f").read_text() == FILE


def test_what_sort_moved_about_is_known_nowhere(guard: Any) -> None:
    """sort opens its output without emptying it, and shortens it later: the
    bytes where the session's own lines had stood went on as the session's."""
    (guard.tree / "f").write_text("a line that was not shown\n")
    assert guard.shell("printf 'A 1\nA 2\nA 3\n' >> f; sort -o f f").returncode == 0
    held = "A 1\nA 2\nA 3\na line that was not shown\n"
    assert (guard.tree / "f").read_text() == held
    assert guard.shell("truncate -s 15 f").returncode != 0
    assert guard.denied() == [str(guard.tree / "f")]
    assert (guard.tree / "f").read_text() == held
