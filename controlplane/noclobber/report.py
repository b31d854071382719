"""What a refused process is told: one short paragraph that can be acted on.

A refusal without a safe next step sends an agent to `tee`, `cp` or `rm`. So
the message says what was seen and what is held, which lines were not, and a
command that shows just those, in pieces that an agent is in fact shown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from noclobber import coverage
from noclobber.coverage import Coverage
from noclobber.receipts import Unseen

NAMED_RANGES = 3  # of unseen lines, in the message
ON_FROM_THERE = " (and on from there)"
SAFE_SHARE = 0.9  # of the shown limit: headers and a prompt need room, too

REASONS = {
    3: "the session wrote it itself; its times have changed since, so it was kept",
    5: "a copy that the session made holds the old bytes",
    6: "the program itself read all of what it replaced",
    7: "a person allowed this one replacement",
    11: "a program made its output anew, or deleted it; the old content was kept",
}

ALLOWED = {
    1: "nothing is lost: it is not there, empty, or no regular file",
    2: "it is not protected",
    3: "the session wrote it itself",
    4: "the session knows all that it would destroy",
    5: "git holds what it holds, and so does a copy",
    6: "git holds what it holds, and the program read all of it",
    11: "git holds what it holds",
}
TIER = "the session may change nothing there: it is read-only"
UNSEEN = "the agent has not seen all of what its own text would replace"
NAMED_FILES = 3  # in the message that git is refused with

_PRINTABLE = re.compile(rb"[\x20-\x7e]*")
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e"}


@dataclass(frozen=True)
class Extent:
    """How much of a file was seen: bytes, and lines that were seen whole.
    Lines are 0 where the file is no text."""

    seen_bytes: int
    total_bytes: int
    seen_lines: int
    total_lines: int
    unseen: tuple[Unseen, ...]


def extent(content: bytes | None, size: int, seen: Coverage) -> Extent:
    """What of a file of `size` bytes lies outside of `seen`. `content` is None
    where it is no text or could not be read."""
    rest = coverage.gaps(seen, 0, size)
    seen_bytes = size - coverage.size(rest)
    if content is None:
        return Extent(seen_bytes, size, 0, 0, tuple(Unseen(s, e, 0, 0) for s, e in rest))
    found: list[Unseen] = []
    line, at = 1, 0
    missing = last = 0
    for start, end in rest:
        line += content.count(b"\n", at, start)
        first, at = line, start
        line += content.count(b"\n", at, end - 1)
        at = end - 1
        found.append(Unseen(start, end, first, line))
        missing += line - max(first, last + 1) + 1
        last = line
    total = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    return Extent(seen_bytes, size, total - missing, total, tuple(found))


def quote(path: bytes) -> str:
    """The path as a word of a shell, printable whatever it holds."""
    if _PRINTABLE.fullmatch(path):
        return shlex.quote(path.decode("ascii"))
    try:
        text = path.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text:
        return shlex.quote(text)
    return "$'" + "".join(_escaped(byte) for byte in path) + "'"


def _escaped(byte: int) -> str:
    if byte in (0x27, 0x5C):
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x7F else _ESCAPES.get(byte, f"\\x{byte:02x}")


def next_step(path: bytes, content: bytes | None, found: Extent, limit: int) -> str:
    """A command that shows the first of what is missing, at most `limit`
    bytes of it, and whether more is left. Empty where there is none."""
    if content is None or not found.unseen:
        return ""
    room = int(limit * SAFE_SHARE) if limit else found.total_bytes
    name = quote(path)
    pieces: list[tuple[int, int]] = []
    more = False
    for gap in found.unseen:
        first = gap.first_line
        start = content.rfind(b"\n", 0, gap.start) + 1
        end = content.find(b"\n", gap.end - 1) + 1 or len(content)
        if end - start > room:
            cut = content.rfind(b"\n", start, start + room) + 1
            if cut <= max(start, gap.start):
                if not pieces:
                    end = min(gap.end, gap.start + room)
                    more = end < gap.end or gap is not found.unseen[-1]
                    return _by_bytes(name, gap.start, end) + (ON_FROM_THERE if more else "")
                more = True
                break
            end, more = cut, True
        last = first + content.count(b"\n", start, end - 1)
        if pieces and first <= pieces[-1][1] + 1:
            pieces[-1] = (pieces[-1][0], max(last, pieces[-1][1]))
        else:
            pieces.append((first, last))
        room -= end - start
        if more or len(pieces) == NAMED_RANGES:
            more = more or gap is not found.unseen[-1]
            break
    script = ";".join(f"{first},{last}p" if first < last else f"{first}p" for first, last in pieces)
    return f"sed -n '{script}' {name}" + (ON_FROM_THERE if more else "")


def _by_bytes(name: str, start: int, end: int) -> str:
    """For lines that are longer than what an agent is shown at one time."""
    return f"tail -c +{start + 1} {name} | head -c {end - start}"


def message(
    path: bytes,
    found: Extent,
    grade: str,
    step: str,
    because: str = "",
    note: str = "",
) -> str:
    """The paragraph, ended by a newline. `grade` is "shown" or "read"."""
    verb = "was shown" if grade == "shown" else "has read"
    total = f"{found.total_bytes} bytes"
    seen = f"{found.seen_bytes} bytes"
    if found.total_lines:
        total += f" ({found.total_lines} {_lines(found.total_lines)})"
        seen += f" ({found.seen_lines} {_lines(found.seen_lines)})"
    name = quote(path)
    parts = [
        f"noclobber: {name} was not replaced: it holds {total}, "
        f"and this session {verb} {seen} of it"
    ]
    if found.unseen and found.total_lines:
        parts[0] += f"; unseen: {_named(found)}"
    parts[0] += "."
    if because:
        parts.append(because)
    if step:
        command = step.removesuffix(ON_FROM_THERE)
        more = ON_FROM_THERE if command != step else ""
        parts.append(f"To go on, show the rest first: `{command}`{more}, then write again.")
        parts.append("Or change it in place (sed -i, an edit), or append to it (>>).")
    else:
        parts.append("To go on, change it in place, append to it (>>) or write to another name.")
    parts.append(f"A person may allow it: noclobber allow {name} --reason TEXT.")
    if note:
        parts.append(note)
    return " ".join(parts) + "\n"


def not_kept(path: bytes, op: str, why: str) -> str:
    """The paragraph where the old content could not be kept, and so stays."""
    done = "deleted" if op == "delete" else "replaced"
    return (
        f"noclobber: {quote(path)} was not {done}: what it holds has to be kept first, and "
        f"could not be ({why}). Make room there, or lower snapshot_size, then try again.\n"
    )


def unrecorded(path: bytes, op: str, why: str) -> str:
    """The paragraph where no receipt could be written, and so nothing is done."""
    done = "deleted" if op == "delete" else "replaced"
    return (
        f"noclobber: {quote(path)} was not {done}: the guard could not write down what it "
        f"decided ({why}). Make room there, then try again.\n"
    )


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"


def _named(found: Extent) -> str:
    words = []
    for gap in found.unseen[:NAMED_RANGES]:
        span = f"{gap.first_line}-{gap.last_line}"
        words.append(str(gap.first_line) if gap.first_line == gap.last_line else span)
    left = len(found.unseen) - NAMED_RANGES
    one = len(words) == 1 and "-" not in words[0]
    text = ("line " if one else "lines ") + ", ".join(words)
    return text + (f" and {left} more {'range' if left == 1 else 'ranges'}" if left > 0 else "")


def git_refusal(name: bytes, files: Sequence[bytes], stashes: int) -> str:
    """What is said where git would throw away the host's work."""
    named = ", ".join(quote(path) for path in files[:NAMED_FILES])
    more = f" and {len(files) - NAMED_FILES} more" if len(files) > NAMED_FILES else ""
    if files:
        lost = f"uncommitted work that was there before this session began, in {named}{more}"
        step = "Give git the paths of your own changes alone, or commit that work first."
    else:
        lost = "a stash" if stashes == 1 else f"{stashes} stashes"
        lost += " that was there before this session began"
        step = "Leave it where it is."
    return (
        f"noclobber: refused: git {quote(name)} would throw away {lost}. Nothing was changed. "
        f"{step} Only a person can allow more: noclobber allow FILE --reason TEXT.\n"
    )


def read_only(what: bytes, path: bytes) -> str:
    """What is said where a session may change nothing. `what` is empty or the
    command that would."""
    act = f"{what.decode(errors='replace')} would change" if what else "nothing may change"
    return (
        f"noclobber: refused: this session is in the read-only tier, and {act} {quote(path)}. "
        "Reading works, git's status, diff, log, show and fetch too; outside of the session's "
        "roots all does.\n"
    )


def lifted(task: str) -> str:
    """The reason of a receipt where the host lifted the dirty guard."""
    return f"NOCLOBBER_DIRTY_OVERRIDE lifts the dirty guard for task {task}"
