"""An oracle that cannot fail is worth nothing: here the guard is made worse in
one place at a time, and test_model.py's machine has to find out.

    python tests/scenario/mutants.py [NAME]...      (make mutants)

Each mutant is a copy of the control plane with one text changed. Prints after
how many steps it was found; the exit status is 0 when all were.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "controlplane"
STEPS = 2000
LIMIT = 600  # seconds that one mutant may take

# name: file, what stands there, what stands there instead.
MUTANTS = {
    "the agent's text goes over anything": (
        "rule.py", "return Ruling(Verdict.DENY, 9)", "return _kept(facts, 9)",
    ),
    "who works from a part may replace the whole": (
        "rule.py", "return Ruling(Verdict.DENY, 8)", "return _kept(facts, 8)",
    ),
    "what goes is not kept": (
        "rule.py", "Verdict.ALLOW if facts.git_holds else Verdict.SNAPSHOT", "Verdict.ALLOW",
    ),
    "one line more than was printed is credited": (
        "evidence.py",
        "return tuple(self._spool.seen(content, self._pieces(self._indexed.keys() - but)))",
        "found = self._spool.seen(content, self._pieces(self._indexed.keys() - but))\n"
        "        more = ((a, (content.find(b\"\\n\", b) + 1) or len(content)) for a, b in found)\n"
        "        from noclobber import coverage\n"
        "        return coverage.normal(more)",
    ),
    "the second half is never credited": (
        "evidence.py",
        "return tuple(self._spool.seen(content, self._pieces(self._indexed.keys() - but)))",
        "found = self._spool.seen(content, self._pieces(self._indexed.keys() - but))\n"
        "        from noclobber import coverage\n"
        "        return coverage.clip(tuple(found), 0, len(content) // 2)",
    ),
    "what others change is not noticed": (
        "holding.py", "return any(self._ledger.same(key, s, stamp) for s in stamps)", "return True",
    ),
    "a transform makes all of it the session's own": (
        "holding.py",
        "return adds or not self._tainted(write, key)",
        "return True",
    ),
    "a transform is never known again": (
        "ledger.py", "        if what.known:\n", "        if False:\n",
    ),
    "a command knows what it prints itself": (
        "facts.py", "        own = printed_as(self.image.command)\n", "        return None\n",
    ),
    "of what is cut off one byte is looked at": (
        "facts.py",
        "start, end = self.asked.start, self.asked.end\n",
        "start, end = self.asked.start, self.asked.start + 1\n",
    ),
    "what the session writes is not its own": (
        "holding.py", "return adds or not self._tainted(write, key)", "return False",
    ),
    "what was deleted at a name is forgotten": (
        "deletions.py",
        "tomb = session.ledger.tombs.get(asked.path)",
        "tomb = session.ledger.tombs.get(b\"\")",
    ),
}  # fmt: skip


def mutate(where: Path, name: str) -> None:
    """Puts the control plane with that change into a directory."""
    shutil.copytree(SOURCE, where, ignore=shutil.ignore_patterns("__pycache__"))
    file, old, new = MUTANTS[name]
    path = where / "noclobber" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has changed: {old!r}"
    path.write_text(text.replace(old, new))


def steps_of(name: str) -> int:
    """Steps after which the mutant was found; 0: it was not."""
    with tempfile.TemporaryDirectory(prefix="nc-") as folder:
        mutate(Path(folder) / "mutant", name)
        env = os.environ | {"PYTHONPATH": str(Path(folder) / "mutant")}
        done = subprocess.run(
            [sys.executable, __file__, "--drive", folder], env=env, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, timeout=LIMIT,
        )  # fmt: skip
        return int(done.stdout.split()[-1])


def drive_in(home: Path) -> int:
    """Steps until the machine failed; 0: it did not."""
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    from conftest import guarded
    from model_machine import Work, drive

    (home / "run").mkdir(mode=0o700)
    with guarded(home) as guard:
        try:
            drive(guard, STEPS, 0, shrinks=False)
        except Exception:
            assert Work.failed, "it failed otherwise"
            return Work.taken
    return 0


def main(names: list[str]) -> int:
    missed = 0
    for name in names or MUTANTS:
        found = steps_of(name)
        missed += not found
        print(f"{found or 'NOT FOUND':>9}  {name}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        print(drive_in(Path(sys.argv[2])))
    else:
        sys.exit(main(sys.argv[1:]))
