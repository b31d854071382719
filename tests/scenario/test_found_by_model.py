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
