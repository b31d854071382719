"""tests/cases.py decides whether CI passes: it must notice every change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "cases.py"
OUTPUT = "FAIL   two: ended wrong\\nSKIP   three: needs x\\n1 passed, 1 failed, 1 skipped"


def run(directory: Path, listed: str, output: str = OUTPUT) -> subprocess.CompletedProcess[str]:
    """Run the script over a runner that prints `output`, with `listed` open."""
    (directory / "cases" / "a").mkdir(parents=True)
    for name in ("one", "two", "three"):
        (directory / "cases" / "a" / f"{name}.sh").touch()
    (directory / "cases" / "run").write_text(f'print("{output}")\n')
    script = shutil.copy(SCRIPT, directory)
    (directory / "cases-open.txt").write_text(f"# remark\n{listed}\n")
    command = [sys.executable, script, str(directory / "cases"), "a"]
    return subprocess.run(command, capture_output=True, text=True)


def test_listed_failure_passes(tmp_path: Path) -> None:
    done = run(tmp_path, "a/two  # why")
    assert done.returncode == 0
    assert done.stdout.endswith("\n1 passed, 0 failed, 2 skipped\n")


def test_unlisted_failure_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert done.returncode == 1
    assert "NEW FAILURE a/two: ended wrong" in done.stdout
    assert done.stdout.endswith("\n1 passed, 1 failed, 1 skipped\n")


def test_listed_case_that_passes_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "a/two\na/one")
    assert done.returncode == 1
    assert "PASSES NOW  a/one" in done.stdout


def test_listed_case_that_was_skipped_passes(tmp_path: Path) -> None:
    assert run(tmp_path, "a/two\na/three").returncode == 0


def test_list_that_names_no_case_is_wrong(tmp_path: Path) -> None:
    assert run(tmp_path, "a/two\na/gone").returncode == 2


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    assert run(tmp_path, "a/two\nb/unknown").returncode == 0


@pytest.mark.parametrize("output", ["", "1 passed, 0 failed, 0 skipped", "Traceback: boom"])
def test_runner_that_breaks_off_fails(tmp_path: Path, output: str) -> None:
    assert run(tmp_path, "a/two", output).returncode == 1
