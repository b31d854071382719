"""The small costs: one system call, one process, one verdict."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measure import Row, in_turn
from stage import BIN, VARIANTS, Stage

BIG = 4 << 20  # bytes of the file that is read
BARE_AND_GUARDED = ("bare", "noclobber")


@dataclass(frozen=True)
class Sizes:
    """How often, in each sample."""

    rounds: int
    calls: int
    starts: int
    verdicts: int
    launches: int
    stream: int  # bytes


PIECE = 65536  # bytes that a harness reads at once: a pipe's size
FULL = Sizes(rounds=15, calls=20_000, starts=100, verdicts=300, launches=20, stream=10**9)
QUICK = Sizes(rounds=5, calls=10_000, starts=40, verdicts=150, launches=8, stream=2 * 10**8)


def rows(stage: Stage, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    """All of them, in the order of the table."""
    made = []
    inside, outside = stage.root / "big.txt", stage.outside / "big.txt"
    for file in (inside, outside):
        file.write_bytes(b"x" * 63 + b"\n")
        file.write_bytes(file.read_bytes() * (BIG // 64))
    elsewhere = Path("/etc/passwd")
    say("process start")
    made += _starts(stage, sizes)
    for name, what, file, aim in (
        ("read 4 KiB, tracked", "read", inside, "+20 ns"),
        ("read 4 KiB, untracked", "read", outside, "+20 ns"),
        ("open + close in a root", "open", inside, "+1 us"),
        ("open + close outside", "open", elsewhere, "+1 us"),
        ("open + close in a temp directory", "open", outside, "+1 us"),
        ("open of an absent file", "open", stage.root / "absent", "+1 us"),
        ("fstat", "fstat", inside, ""),
    ):
        say(name)
        made.append(_calls(stage, sizes, name, what, file, aim))
    say("verdict")
    made += _verdicts(stage, sizes)
    say("launcher")
    made += [_launches(stage, sizes), *_pumped(stage, sizes)]
    say("hook")
    return [*made, *_hooks(stage, sizes)]


def _starts(stage: Stage, sizes: Sizes) -> list[Row]:
    """Wall time, and processor time, which other work disturbs less."""
    used: dict[str, list[float]] = {v: [] for v in VARIANTS}

    def one(variant: str) -> float:
        found = stage.micro(variant, "start", str(sizes.starts), "/bin/true")
        used[variant].append(found.second / 1000)
        return found.first / 1000

    taken = in_turn({v: partial(one, v) for v in VARIANTS}, sizes.rounds)
    used = {v: found[1:] for v, found in used.items()}  # the first warmed up
    base = "empty preload"
    return [
        Row("process start (`true`)", "us", taken, base=base, aim="+30 us"),
        Row("process start, processor time", "us", used, base=base, aim="+30 us"),
    ]


def _calls(stage: Stage, sizes: Sizes, name: str, what: str, file: Path, aim: str) -> Row:
    """Both in one process, the C library's function and the guard's in turn."""
    taken: dict[str, list[float]] = {v: [] for v in BARE_AND_GUARDED}
    for _ in range(sizes.rounds):
        found = stage.micro("noclobber", what, str(file), str(sizes.calls))
        taken["bare"].append(found.first)
        taken["noclobber"].append(found.second)
    return Row(name, "ns", taken, aim=aim)


def _verdicts(stage: Stage, sizes: Sizes) -> list[Row]:
    """Of the same samples: their medians, and their 99th percentiles."""
    tails: dict[str, list[float]] = {v: [] for v in BARE_AND_GUARDED}

    def one(variant: str) -> float:
        file = str(stage.memory / variant)  # a disk's own time is not the guard's
        found = stage.micro(variant, "verdict", file, str(sizes.verdicts))
        tails[variant].append(found.second / 1000)
        return found.first / 1000

    taken = in_turn({v: partial(one, v) for v in BARE_AND_GUARDED}, sizes.rounds)
    tails = {v: found[1:] for v, found in tails.items()}  # the first warmed up
    return [
        Row("verdict (truncating open), p50", "us", taken, aim="60 us"),
        Row("verdict (truncating open), p99", "us", tails),
    ]


def _launches(stage: Stage, sizes: Sizes) -> Row:
    """`noclobber-exec -- true` against `true`, as a harness starts it."""

    def one(prefix: list[str]) -> float:
        began = time.perf_counter()
        for _ in range(sizes.launches):
            subprocess.run([*prefix, "true"], env=stage.env, cwd=stage.root, check=True)
        return (time.perf_counter() - began) / sizes.launches * 1000

    variants = {"bare": partial(one, []), "noclobber": partial(one, stage.launcher())}
    return Row("launcher (`true`)", "ms", in_turn(variants, sizes.rounds), aim="+2 ms")


def _pumped(stage: Stage, sizes: Sizes) -> list[Row]:
    """What is printed into a harness's pipe: nothing at all, and a stream."""

    def start(prefix: list[str]) -> float:
        began = time.perf_counter()
        for _ in range(sizes.launches):
            subprocess.run(
                [*prefix, "true"], env=stage.env, cwd=stage.root, check=True, capture_output=True
            )
        return (time.perf_counter() - began) / sizes.launches * 1000

    def stream(prefix: list[str]) -> float:
        began = time.perf_counter()
        source = ["head", "-c", str(sizes.stream), "/dev/zero"]
        with subprocess.Popen(
            [*prefix, *source], env=stage.env, cwd=stage.root, stdout=subprocess.PIPE
        ) as printing:
            assert printing.stdout
            left = sizes.stream
            while piece := os.read(printing.stdout.fileno(), PIECE):
                left -= len(piece)
        if left:
            raise RuntimeError(f"{left} of {sizes.stream} bytes did not come")
        return sizes.stream / (time.perf_counter() - began) / 1e6

    made = []
    for name, unit, aim, one in (
        ("a command through the pump (`true`)", "ms", "+2 ms", start),
        (f"{sizes.stream // 10**6} MB into a pipe", "MB/s", "x 0.90", stream),
    ):
        variants = {"bare": partial(one, []), "noclobber": partial(one, stage.launcher())}
        made.append(Row(name, unit, in_turn(variants, sizes.rounds), aim=aim))
    return made


def _hooks(stage: Stage, sizes: Sizes) -> list[Row]:
    """What a harness waits for at one of its tools, against a hook that does
    nothing at all."""
    file = stage.root / "hooked.py"
    text = "".join(f"line {number} of many\n" for number in range(1000))
    file.write_text(text)
    base = {"session_id": "hooked", "cwd": str(stage.root)}
    shown = {"content": text, "startLine": 1, "numLines": 1000, "totalLines": 1000}
    read = base | {
        "hook_event_name": "PostToolUse", "tool_name": "Read",
        "tool_input": {"file_path": str(file)}, "tool_response": {"type": "text", "file": shown},
    }  # fmt: skip
    write = base | {
        "hook_event_name": "PreToolUse", "tool_name": "Write",
        "tool_input": {"file_path": str(file), "content": text},
    }  # fmt: skip

    def one(words: list[str], event: bytes) -> float:
        began = time.perf_counter()
        for _ in range(sizes.launches):
            subprocess.run(
                words, env=stage.env, cwd=stage.root, check=True, input=event, capture_output=True
            )
        return (time.perf_counter() - began) / sizes.launches * 1000

    made = []
    hook = [str(BIN / "noclobber-hook"), "claude"]
    for name, event in (("a page of 1,000 lines", read), ("a Write that may be", write)):
        data = json.dumps(event).encode()
        variants = {"bare": partial(one, ["true"], data), "noclobber": partial(one, hook, data)}
        row = in_turn(variants, sizes.rounds)
        made.append(Row(f"hook: {name}", "ms", row, aim="+15 ms"))
    return made
