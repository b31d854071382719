"""Run the behaviour cases and hold what failed against tests/cases-open.txt.

    python tests/cases.py CASES DIR...

CASES holds the runner `run` and the directories DIR of cases. The list names
the cases known to fail, one `DIR/NAME` a line, `#` begins a remark. The result
is good when exactly those fail: a new failure is a defect, and a listed case
that passes means that the list lies. Exit status 0 or 1; 2 for a wrong list.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

OPEN = Path(__file__).with_name("cases-open.txt")
# The runner prints a line for each case that did not pass, and a count.
LINE = re.compile(r"^(FAIL|SKIP|BROKEN) +([^:\s]+): ?(.*)$")
COUNT = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped")


@dataclass
class Results:
    """Names of cases, `DIR/NAME`; those of `failed` with the runner's reason."""

    passed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


def open_cases(text: str) -> set[str]:
    """The names in the list's `text`."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return {line for line in lines if line}


def read_results(directory: str, names: set[str], output: str, results: Results) -> None:
    """Add to `results` what the runner printed for the cases `names` of one
    `directory`. Raises ValueError where the output is no whole run."""
    others: set[str] = set()
    count = None
    for line in output.splitlines():
        if match := LINE.match(line):
            outcome, name, reason = match.groups()
            others.add(name)
            case = f"{directory}/{name}"
            if outcome == "SKIP":
                results.skipped.add(case)
            else:
                results.failed[case] = reason
        elif match := COUNT.match(line):
            count = int(match[1])
    passed = names - others
    if count != len(passed) or not others <= names:
        raise ValueError(f"{directory}: the runner did not end as it should:\n{output[-2000:]}")
    results.passed |= {f"{directory}/{name}" for name in passed}


def run(cases: Path, directories: list[str]) -> tuple[Results, set[str]]:
    """Run every case of `directories`; the results, and all names."""
    results, known = Results(), set[str]()
    for directory in directories:
        names = {path.stem for path in (cases / directory).glob("*.sh")}
        known |= {f"{directory}/{name}" for name in names}
        command = [sys.executable, str(cases / "run"), str(cases / directory)]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        print(f"--- cases/{directory}\n{done.stdout}{done.stderr}", end="", flush=True)
        read_results(directory, names, done.stdout, results)
    return results, known


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    directories = arguments[1:]
    listed = {n for n in open_cases(OPEN.read_text()) if n.split("/")[0] in directories}
    try:
        results, known = run(Path(arguments[0]), directories)
    except ValueError as broken:
        print(broken, file=sys.stderr)
        return 1
    if unknown := sorted(listed - known):
        print(f"{OPEN.name} names no such case: {' '.join(unknown)}", file=sys.stderr)
        return 2
    new = sorted(results.failed.keys() - listed)
    mended = sorted(listed & results.passed)
    for name in new:
        print(f"NEW FAILURE {name}: {results.failed[name]}")
    for name in mended:
        print(f"PASSES NOW  {name}: take it off {OPEN.name}")
    still_open = len(results.failed) - len(new)
    print(f"cases: {still_open} failed as listed in {OPEN.name}, {len(new)} new")
    skipped = len(results.skipped) + still_open
    passed = len(results.passed) - len(mended)
    print(f"{passed} passed, {len(new) + len(mended)} failed, {skipped} skipped")
    return 1 if new or mended else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
