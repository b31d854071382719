"""Random work by two sessions, each verdict judged by an oracle of its own.

Real commands over real files: views, edits, appends, transforms, other
people's changes and replacements. After each command the disk, the output and
the receipts must be what the model says: nothing that was not seen is lost
without a refusal, nothing that was seen whole is refused, what goes without
having been seen was kept, and no other command notices the guard.

$NOCLOBBER_MODEL_STEPS (default 2,000) says how many steps at the least, and
$NOCLOBBER_MODEL_SEED which ones: `make soak`. A run of the default length is
the same each time, of a longer one the seed is printed. What failed is made
smaller and printed as a shell script. That the oracle finds what it is there
to find, `make mutants` shows.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from model_machine import Work, drive
from model_world import EITHER

STEPS = 2000
WANTED = int(os.environ.get("NOCLOBBER_MODEL_STEPS", STEPS))


def test_nothing_unseen_is_lost_and_nothing_seen_is_refused(shared_guard: Any) -> None:
    chosen = 0 if WANTED == STEPS else random.randrange(1 << 32)
    chosen = int(os.environ.get("NOCLOBBER_MODEL_SEED", chosen))
    print(f"NOCLOBBER_MODEL_SEED={chosen} NOCLOBBER_MODEL_STEPS={WANTED}", flush=True)
    try:
        drive(shared_guard, WANTED, chosen)
    except BaseException:
        if Work.failed:
            print("What failed, as a script:", Work.failed, sep="\n")
        raise
    print(f"{Work.taken} steps; verdicts:", dict(Work.verdicts))
    assert Work.taken >= WANTED
    # Where nearly everything is left open, nothing is tested.
    assert Work.verdicts[EITHER] * 2 < Work.verdicts.total()
