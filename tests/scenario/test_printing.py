"""What a command prints while it goes on: what counts, and when it is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TEXT = "".join(f"line {n} of what is there\n" for n in range(4000))


@pytest.fixture
def file(guard: Any) -> Path:
    path: Path = guard.tree / "f"
    path.write_text(TEXT)
    return path


def test_the_middle_of_long_output_was_not_shown_however_slowly_it_came(
    guard: Any, file: Path
) -> None:
    """While a command is silent all that it printed is told; a harness shows
    the ends of it when it has ended."""
    pages = "; sleep 0.1; ".join(f"sed -n '{n + 1},{n + 250}p' f" for n in range(0, 4000, 250))
    done = guard.shell(pages)
    assert done.stdout == TEXT
    assert guard.shell("echo new > f").returncode != 0
    (receipt,) = [r for r in guard.receipts() if r["verdict"] == "deny"]
    assert receipt["seen_bytes"] == pytest.approx(30_000, abs=200)
    assert file.read_text() == TEXT


def test_what_a_question_had_told_early_is_the_middle_later(guard: Any, file: Path) -> None:
    (guard.tree / "other").write_text(TEXT)
    (guard.tree / "same.py").write_text('t = open("other").read(); open("other", "w").write(t)')
    steps = [f"sed -n '{n + 1},{n + 250}p' f; python3 same.py" for n in range(0, 4000, 250)]
    done = guard.shell("; ".join(steps))
    assert (done.returncode, done.stdout) == (0, TEXT)
    assert guard.shell("echo new > f").returncode != 0
    assert file.read_text() == TEXT


def test_short_output_counts_however_slowly_it_came(guard: Any, file: Path) -> None:
    file.write_text(TEXT[:20_000])
    guard.shell("head -c 9000 f; sleep 0.1; tail -c +9001 f | head -c 1000; tail -c +10001 f")
    assert guard.shell("echo new > f").returncode == 0


@pytest.mark.parametrize("before", ["", "seq 5000; "])
def test_a_view_counts_before_its_command_has_ended(guard: Any, file: Path, before: str) -> None:
    """The program asks while the output is on its way; behind 15,000 bytes of
    other output it would be told only when the command falls silent."""
    (guard.tree / "g").write_text("new")
    assert guard.shell(f"{before}head -n 50 f; cp g f").returncode != 0
    assert file.read_text() == TEXT
