"""Reads the command lines of programs that were told what to do in one.

Pure: words in, facts out. What a program is told decides whose bytes it
writes (`python -c TEXT` and `python FILE` are two different writers), so an
option taken for an operand here is a refusal or a loss later on.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from noclobber.voice_lists import Carrier, Syntax

STDIN = "-"
NETWORK = "network:"

_REMOTE = re.compile(r"[^/]+:|rsync://")
_TAR_ARGUMENTS = "bCFfgHIKLNTVX"


@dataclass(frozen=True)
class Given:
    """Where a program's own program is: in the command line, in a file, in a
    module, or in what it reads from standard input."""

    kind: Literal["inline", "script", "module", "stdin"]
    value: str = ""
    by: str = ""  # the option that said so
    index: int = 0  # of the script among the words


def given(argv: Sequence[str], syntax: Syntax) -> Given:
    """What `argv` (argv[0] is the name) tells an interpreter to run."""
    script: Given | None = None
    flags = set()
    operands = len(argv)
    for option, value, index in _options(argv, syntax):
        if option is None:
            operands = index
            break
        if option in syntax.program:
            return Given("inline", value, option)
        if option in syntax.module:
            return Given("module", value, option)
        if option in syntax.script:
            script = Given("script", value, option, index)
        flags.add(option[-1] if len(option) == 2 else option)
    if script is not None:
        return script
    first = argv[operands] if operands < len(argv) else None
    if syntax.flag in flags:
        return Given("inline", first or "", f"-{syntax.flag}")
    if syntax.text:
        return Given("inline", first or "")
    if first is None or first == STDIN or syntax.stdin in flags:
        return Given("stdin")
    return Given("script", first, "", operands)


def _options(argv: Sequence[str], syntax: Syntax) -> Iterator[tuple[str | None, str, int]]:
    """Each option with its argument and the place of it; at last (None, '',
    the place of the first operand)."""
    takes = syntax.program | syntax.script | syntax.module | syntax.takes
    index = 1
    while index < len(argv):
        word = argv[index]
        if word == "--" or (word == "-" and syntax.plus):
            index += 1
            break
        if len(word) < 2 or word[0] not in ("-+" if syntax.plus else "-"):
            break
        name, equals, value = word.partition("=")
        if name in takes and (len(name) > 2 or word == name):
            if not equals:
                index += 1
                value = argv[index] if index < len(argv) else ""
            yield name, value, index
        elif word.startswith("--") or not syntax.bundles:
            yield name, value, index
        else:
            index = yield from _letters(argv, index, takes, syntax)
        index += 1
    yield None, "", index


def _letters(
    argv: Sequence[str], index: int, takes: frozenset[str], syntax: Syntax
) -> Generator[tuple[str | None, str, int], None, int]:
    """The options bundled in one word. Returns the place of the last word used."""
    letters = argv[index][1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = f"-{letter}"
        if letter in syntax.rest:
            yield option, letters, index
            return index
        if option not in takes:
            yield option, "", index
        elif letters and not syntax.plus:
            yield option, letters, index
            return index
        else:  # a shell takes the argument of -o from the next word: -euo pipefail
            index += 1
            yield option, argv[index] if index < len(argv) else "", index
    return index


def operands(argv: Sequence[str], takes: frozenset[str]) -> tuple[list[str], dict[str, str]]:
    """The operands of `argv`, options among them or not, and the arguments of
    the options in `takes`."""
    found: list[str] = []
    values: dict[str, str] = {}
    index = 1
    while index < len(argv):
        word = argv[index]
        name, equals, value = word.partition("=")
        if word == "--":
            found.extend(argv[index + 1 :])
            break
        if len(word) < 2 or word[0] != "-":
            found.append(word)
        elif word.startswith("--"):
            if name in takes and not equals:
                index += 1
                value = argv[index] if index < len(argv) else ""
            values[name] = value
        else:
            for place, letter in enumerate(word[1:], 2):
                values[f"-{letter}"] = ""
                if f"-{letter}" in takes:
                    if place < len(word):
                        values[f"-{letter}"] = word[place:]
                    elif index + 1 < len(argv):
                        index += 1
                        values[f"-{letter}"] = argv[index]
                    break
        index += 1
    return found, values


def sources(argv: Sequence[str], carrier: Carrier) -> list[str] | None:
    """The files that a carrier takes its bytes from, as it spells them; STDIN
    and NETWORK stand for themselves, and an empty list for nothing at all.
    None: it is not carrying here (`tar c`)."""
    if carrier.sources == "none":
        return []
    if carrier.sources == "stdin":
        return [STDIN]
    if carrier.sources == "dd":
        return [word[3:] for word in argv[1:] if word.startswith("if=")] or [STDIN]
    if carrier.sources == "network":
        files = [word[7:] for word in argv[1:] if word.startswith("file://")]
        return files or [NETWORK]
    if carrier.sources == "tar":
        return _tar(argv, carrier)
    found, values = operands(argv, carrier.takes)
    if carrier.sources == "operands":
        return found or [STDIN]
    if carrier.sources == "first":
        return found[:1]
    if carrier.sources == "cpio":
        if "-i" not in values and "--extract" not in values:
            return None
        return [values.get("-F") or values.get("-I") or values.get("--file") or STDIN]
    if carrier.sources == "rsync":
        if "--server" in values:
            return [STDIN]
        return [NETWORK if _REMOTE.match(word) else word for word in found[:-1]]
    if "-d" in values and argv[0].endswith("install"):
        return []
    everything = "-t" in values or "--target-directory" in values or len(found) == 1
    return found if everything else found[:-1]


def _tar(argv: Sequence[str], carrier: Carrier) -> list[str] | None:
    """The archive that is extracted. Old bundles (`tar xzf A B`) take their
    letters' arguments from the words behind them, in order."""
    words = list(argv)
    if len(words) > 1 and words[1] and not words[1].startswith("-"):
        bundle, behind = words[1], words[2:]
        spelled = [f"-{letter}" for letter in bundle if letter not in _TAR_ARGUMENTS]
        for letter in bundle:
            if letter in _TAR_ARGUMENTS and behind:
                spelled += [f"-{letter}", behind.pop(0)]
        words = [words[0], *spelled, *behind]
    _, values = operands(words, carrier.takes | {"-f", "--file"})
    if not values.keys() & {"-x", "--extract", "--get"}:
        return None
    archive = values.get("-f") or values.get("--file") or STDIN
    return [NETWORK if _REMOTE.match(archive) else archive]
