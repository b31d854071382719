"""What the guard costs, measured against bare in the same run.

    python tests/bench [--quick] [--json FILE] [--only WORD]...

Prints Markdown; writes the samples as JSON (default: build/bench.json). Both
sides of every figure are taken in turn, so that whatever else the machine does
falls on both. Nothing is asserted: it measures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import calls
import table
import workloads
from stage import stage

ROUNDS, QUICK_ROUNDS = 7, 3


def say(text: str) -> None:
    """Progress, for who waits."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a smaller tree")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE")
    parser.add_argument("--only", choices=("calls", "workloads"), help="one half of the table")
    given = parser.parse_args()
    sizes = calls.QUICK if given.quick else calls.FULL
    rounds = QUICK_ROUNDS if given.quick else ROUNDS
    began = time.monotonic()
    with stage() as at:
        small = calls.rows(at, sizes, say) if given.only != "workloads" else []
        big = []
        if given.only != "calls":
            say("a tree")
            workloads.grow(at.root, workloads.QUICK_FILES if given.quick else workloads.FILES)
            workloads.sources(at.root / "build")
            pid = int(at.status()["pid"])
            many = workloads.QUICK_DELETED if given.quick else workloads.DELETED
            every = [(work, rounds) for work in workloads.workloads(at.root)]
            # to make so many files anew for each round takes longer than all the rest
            every += [(work, QUICK_ROUNDS) for work in workloads.deletions(at, many)]
            for work, times in every:
                say(work.name)
                big.append(workloads.measure(at, work, times, pid))
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(table.as_json(small, big), indent=1) + "\n")
    print(table.markdown(small, big, (sizes.rounds, rounds)), end="")
    say(f"took {time.monotonic() - began:.0f} s; every sample is in {given.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
