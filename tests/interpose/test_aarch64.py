"""The C compiled for aarch64, without a warning: what an emulator cannot run
is looked at by the compiler at least. test_entry_points.py runs the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

AARCH64 = 183  # e_machine


def machine(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[18:20], "little")


def test_all_of_it_compiles(cross: Path) -> None:
    made = [*cross.glob("bin/*"), *cross.glob("lib/noclobber/*.so"), *cross.glob("obj/*.o")]
    sources = {path.stem for path in Path(__file__).parents[2].glob("csrc/*.c")}
    assert {path.stem for path in cross.glob("obj/*.o")} == sources
    assert {"noclobber-exec", "noclobber-bash", "libnoclobber.so"} <= {path.name for path in made}
    assert {machine(path) for path in made} == {AARCH64}


def test_the_launcher_runs_and_gives_the_commands_status(emulated: Any) -> None:
    done = emulated.guard.bare(
        *emulated.launcher, "--session", "s", "--", "sh", "-c", "echo out; echo err >&2; exit 3"
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
