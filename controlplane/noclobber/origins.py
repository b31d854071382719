"""Where the bytes that a program writes come from, by what it is.

voice_lists.py knows the carriers; this says of one image, after it has gone,
whether what it wrote was its own making (a program's output, the agent's
text), passed on, or brought from elsewhere.
"""

from __future__ import annotations

from noclobber import voice
from noclobber import voice_lists as lists
from noclobber.cmdline import NETWORK, STDIN, sources
from noclobber.holding import Origin
from noclobber.ledger import Image, Key, Ledger, Stamp, Write
from noclobber.wire import C

# What these print is what git holds, and not git's own words.
GIT_CONTENT = frozenset(["show", "cat-file", "archive", "bundle", "checkout-index", "lfs"])
GIT_TAKES = frozenset(["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"])


def origin(image: Image, write: Write) -> Origin:
    """What the program does with bytes that it writes to its own files, or to
    a descriptor that it was given."""
    given = bool(write.flags & C.NC_INHERIT)
    found: Origin | None = image.origins.get(given)
    if found is None:
        found = image.origins[given] = _origin(image, given)
    # A file whose reading was not reported lies where nothing is followed.
    return Origin.BRINGS if found is Origin.COPIES and not image.reads else found


def sole_origin(ledger: Ledger, key: Key, stamp: Stamp) -> Origin | None:
    """The same of a version that one image wrote whole, from nothing; else None."""
    sole = ledger.sole_author(key, stamp)
    author = ledger.images.get(sole.token) if sole else None
    return origin(author, sole) if sole and author else None


def _origin(image: Image, given: bool) -> Origin:
    program = voice.Program.known_by(image.pid, image.exe, image.argv)
    name = voice.program_name(program)
    argv = list(program.argv)
    if name in lists.MULTICALL and len(argv) > 1:
        argv = argv[1:]
        name = argv[0]
    if name == "git" or name.startswith("git-"):
        return Origin.MAKES if given and _subcommand(argv) not in GIT_CONTENT else Origin.BRINGS
    carrier = lists.CARRIERS.get(name)
    found = sources(argv, carrier) if carrier else None
    if found is None:
        return Origin.MAKES
    if NETWORK in found:
        return Origin.BRINGS
    files = [s for s in found if s != STDIN and not s.startswith(("/dev/", "/proc/"))]
    return Origin.COPIES if files else Origin.PASSES


def _subcommand(argv: list[str]) -> str:
    words = iter(argv[1:])
    for word in words:
        if word in GIT_TAKES:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""
