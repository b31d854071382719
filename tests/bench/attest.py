"""How long it takes to judge a file against what was printed.

    python tests/bench/attest.py

Prints, for each situation, the best of five in milliseconds of processor
time and the limit that it is held to; exits 1 where one is over.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections.abc import Callable, Iterator

from noclobber.attest import Spool

SHOWN = 30_000  # bytes kept of one command's output


def source(size: int, seed: int, repeats: float = 0.3) -> bytes:
    """Something like source text: lines of about 40 bytes, many of them alike."""
    pick = random.Random(seed)
    common = [b"", b"    }", b"        return None", b"    else:", b"}"]
    made: list[bytes] = []
    length = 0
    while length < size:
        if pick.random() < repeats:
            line = pick.choice(common)
        else:
            word = hashlib.md5(b"%d %d" % (seed, len(made))).hexdigest()
            line = (
                b"    " * pick.randint(0, 3)
                + b"%d = " % length
                + word[: pick.randint(2, 32)].encode()
            )
        made.append(line)
        length += len(line) + 1
    return b"\n".join(made)[: size - 1] + b"\n"


def cut(text: bytes) -> list[bytes]:
    """A command's output as it is kept: its head and its tail."""
    return [text] if len(text) <= SHOWN else [text[: SHOWN // 2], text[-SHOWN // 2 :]]


def gutter(text: bytes, first: int = 1) -> bytes:
    """`cat -n` of it."""
    lines = text.splitlines()
    return b"".join(b"%6d\t%s\n" % (first + n, line) for n, line in enumerate(lines))


def numbers(size: int) -> bytes:
    """`seq`: the shortest lines there are, no two alike."""
    return b"".join(b"%d\n" % n for n in range(size // 5))[:size]


def situations() -> Iterator[tuple[str, float, Callable[[], object]]]:
    """Name, limit in ms, what is timed."""
    for name, size, limit in (("100 kB", 10**5, 10), ("1 MB", 10**6, 10), ("10 MB", 10**7, 100)):
        text, short = source(size, 1), numbers(size)
        alike, minified = b"    pass\n" * (size // 9), source(size, 3).replace(b"\n", b";")
        for kind, content, shown in (
            ("source, cat", text, text),
            ("source, cat -n of its head", text, gutter(text[:20_000])),
            ("source, other output", text, source(size, 2)),
            ("seq, cat", short, short),
            ("equal lines, cat", alike, alike),
            ("one line, cat", minified, minified),
        ):
            spool = Spool(cut(shown))
            yield f"{name} of {kind}", limit, lambda s=spool, c=content: s.seen(c)
    text = source(10**5, 1)
    views = [text[n : n + SHOWN] for n in range(0, len(text), SHOWN)]
    others = [source(SHOWN, seed) for seed in range(10, 106)]
    many = Spool(others + views)
    yield "100 kB against 100 commands, 4 of them views", 30, lambda: many.seen(text)
    lines = text.splitlines(keepends=True)
    halves = [b"".join(lines[n : n + 500]) for n in range(0, 1000, 10)]
    half = Spool(halves)
    yield "100 kB against 100 views of its first half", 30, lambda: half.seen(text)
    dressed = Spool([b"$ cat -n\n" + gutter(h) for h in halves])
    yield "100 kB against 100 numbered views of a half", 30, lambda: dressed.seen(text)
    minified = source(10**5, 3).replace(b"\n", b";")
    yield "100 kB in one line against 100 commands", 30, lambda: many.seen(minified)
    yield from worst()
    yield "indexing 30 kB of source", 10, lambda: Spool([others[0]])
    yield "indexing 30 kB of cat -n", 10, lambda: Spool([gutter(others[0])[:SHOWN]])
    yield "indexing 30 kB of seq", 10, lambda: Spool([numbers(SHOWN)])


def worst() -> Iterator[tuple[str, float, Callable[[], object]]]:
    """What a session may come to, and must not hold up all others."""
    equal = b"    pass\n"
    alike, views = equal * (10**7 // 9), Spool([b"$\n" + equal * 3333] * 100)
    yield "10 MB of equal lines against 100 commands", 100, lambda: views.seen(alike)
    line = source(10**6, 3).replace(b"\n", b";")
    lines = Spool([source(SHOWN, seed).replace(b"\n", b";") for seed in range(100, 200)])
    yield "1 MB in one line against 100 one-line outputs", 100, lambda: lines.seen(line)
    braces = b"}\r\n" * 50_000
    few = Spool(cut(braces))
    yield "50,000 equal short lines with CRLF", 10, lambda: few.seen(braces)
    log = b"".join(
        b"2024-01-01T00:00:00 INFO module: message number %d\n" % n for n in range(10**5)
    )
    heads = b"".join(line[:45] + b"\n" for line in log.split(b"\n")[:600])
    narrow = Spool([heads] * 100)
    yield "5 MB of log against 100 views with cut lines", 100, lambda: narrow.seen(log)
    huge = source(1 << 24, 5)
    yield "indexing 16 MiB of one command", 500, lambda: Spool([huge])
    whole, changed = Spool([huge]), huge[:5000] + b"x\n" + huge[5000:]
    yield "16 MiB against itself with a line more", 500, lambda: whole.seen(changed)


def main() -> int:
    """Prints the figures."""
    over = 0
    for name, limit, work in situations():
        best = float("inf")
        for _ in range(5):
            began = time.process_time()
            work()
            best = min(best, (time.process_time() - began) * 1000)
        over += best > limit
        print(f"{name:46} {best:8.2f} ms   limit {limit:3} {'OVER' if best > limit else ''}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
