"""What test_model.py found, each as the shortest work that shows it."""

from __future__ import annotations

from typing import Any

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
