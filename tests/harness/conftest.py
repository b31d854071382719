"""Each harness, a file for it, and its shell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from players import LIMIT, Harness
from players_claude import Claude
from players_others import HARNESSES, Codex, Cursor, Gemini


@pytest.fixture(params=sorted(HARNESSES))
def harness(request: pytest.FixtureRequest, guard: Any) -> Harness:
    """Each of them."""
    return HARNESSES[request.param](guard, request.param)


@pytest.fixture
def gemini(guard) -> Gemini:
    return Gemini(guard, "gemini")


@pytest.fixture
def codex(guard) -> Codex:
    return Codex(guard, "codex")


@pytest.fixture
def cursor(guard) -> Cursor:
    return Cursor(guard, "cursor")


@pytest.fixture
def claude(guard) -> Claude:
    return Claude(guard, "claude")


@pytest.fixture
def shell(guard, tmp_path) -> Iterator[Any]:
    """`shell(HARNESS, TEXT)`: its Bash tool, which sources what the session's
    start wrote; and what it gave back."""
    variables = tmp_path / "variables.sh"

    def run(harness: Claude, text: str) -> subprocess.CompletedProcess[str]:
        harness.env = {"CLAUDE_ENV_FILE": str(variables)}
        if not variables.exists():
            harness.start()
        command = f"source {variables} && eval {_quoted(text)}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=guard.tree, env=guard.env, capture_output=True,
            text=True, timeout=LIMIT,
        )  # fmt: skip
        if done.returncode:
            error = f"Exit code {done.returncode}\n{done.stdout}{done.stderr}"
            event = harness.event(
                "PostToolUseFailure", tool_name="Bash", tool_input={"command": text},
                tool_use_id="toolu_2", error=error,
            )  # fmt: skip
            assert harness.said(event) == {}
        else:
            harness.bash(text, stdout=done.stdout, stderr=done.stderr)
        return done

    yield run


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def lines(count: int, start: int = 1) -> str:
    return "".join(f"line {number} of the old text\n" for number in range(start, start + count))


@pytest.fixture
def page(guard) -> Path:
    """A file of 412 lines."""
    path = guard.tree / "a.py"
    path.write_text(lines(412))
    return path
