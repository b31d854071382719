"""Whose bytes does a process write: the agent's, or a program's?

An agent's text is fixed before it runs and may be blind to what it destroys
(`cat > notes.md <<X`); a generator that makes its output anew, or a build, is
not. Taking the one for the other loses files or stops honest work. The walk
goes from the process that writes up to the command that the agent started:

    driven   somewhere on the way stands a driver (make, git, npm, a script
             of the tree): its business is to run others
    direct   else: somewhere stands a program, or a carrier of a file that is
             not the agent's own text
    voiced   else: shells running the agent's text, wrappers, carriers,
             interpreters with an inline program

Pure: `judge` is given the processes and asks `facts` about files. The names
it knows are data, in voice_lists.py; processes.py gathers the chain.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from noclobber import voice_lists as lists
from noclobber.cmdline import NETWORK, STDIN, given, operands, sources

Kind = Literal["voiced", "direct", "driven"]

_VERSION = re.compile(r"[-.]?\d+(\.\d+)*[a-z]?(-[\w-]+)?$")
_LOADER = re.compile(r"ld(-[\w.-]+)?\.so(\.\d+)*$")
_STREAMS = ("/dev/", "/proc/", "/sys/")


@dataclass(frozen=True)
class Program:
    """A process image: what runs under a pid.

    Words that are no UTF-8 carry surrogates, as os.fsdecode makes them.
    """

    pid: int
    exe: str  # absolute path of the executable; "" where it is not known
    argv: tuple[str, ...]
    forked: bool = False  # a child that has not called exec: its parent's image
    cwd: str = "/"  # the directory it was started in, as far as is known
    # Standard input's path where that is a file, and not what the harness gave
    # to the whole command.
    stdin: str | None = None

    @classmethod
    def known_by(
        cls, pid: int, exe: bytes, argv: Iterable[bytes], *, forked: bool = False
    ) -> "Program":
        """The program that a hello describes; its directory is not known."""
        return cls(pid, os.fsdecode(exe), tuple(map(os.fsdecode, argv)), forked)

    def path(self, word: str) -> bytes:
        """The absolute path that a word of its command line names."""
        return os.fsencode(str(PurePosixPath(self.cwd, word)))


def _is_stream(path: bytes) -> bool:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 (a path is bytes)
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@dataclass(frozen=True)
class Facts:
    """What the walk asks about; paths are absolute, symlinks not resolved."""

    # The script was new when this session wrote it, as the agent's own text.
    script_is_session_text: Callable[[bytes], bool]
    # The file's present bytes are the agent's own text.
    source_is_own_text: Callable[[bytes], bool]
    # The process is the agent (`noclobber run`).
    is_agent: Callable[[int], bool] = lambda pid: False
    # A pipe, socket or device.
    is_stream: Callable[[bytes], bool] = _is_stream


@dataclass(frozen=True)
class Step:
    """One process on the way: the kind that it makes of the writer, and why."""

    program: Program
    name: str
    kind: Kind
    why: str


@dataclass(frozen=True)
class Walk:
    """The kind of a writer, and the way from it (first) to the command (last)."""

    kind: Kind
    steps: tuple[Step, ...]


def judge(chain: Sequence[Program], facts: Facts) -> Walk:
    """The walk along `chain`, which begins with the writer and ends with the
    command, or where its ancestors are gone. An empty chain is direct: nothing
    is known of a process that has vanished."""
    steps = _steps(chain, facts)
    kinds = {step.kind for step in steps}
    if "driven" in kinds:
        return Walk("driven", steps)
    return Walk("direct" if "direct" in kinds or not steps else "voiced", steps)


def _steps(chain: Sequence[Program], facts: Facts) -> tuple[Step, ...]:
    agent = _agent(chain, facts)
    way = chain if agent is None else chain[:agent]
    steps = []
    for place, program in enumerate(way):
        image, number = program, place
        while image.forked and number + 1 < len(way):
            number += 1
            image = way[number]
        if image.forked and number + 1 == agent:
            steps.append(_voiced(program, program_name(program), "the agent, forked"))
            continue
        step = _Looker(image, facts, writer=place == 0).step()
        steps.append(Step(program, step.name, step.kind, step.why))
    if agent is not None:
        steps.append(_voiced(chain[agent], program_name(chain[agent]), "the agent itself"))
    return tuple(steps)


def _agent(chain: Sequence[Program], facts: Facts) -> int | None:
    """The place of the agent: what is above it is not on the way. Where a
    package runner was started as the agent (`npx claude`), the agent is the
    first program below it."""
    places = [place for place, program in enumerate(chain) if facts.is_agent(program.pid)]
    if not places:
        return None
    place = places[0]
    if is_launcher(chain[place]):
        for below in range(place - 1, -1, -1):
            name = program_name(chain[below])
            if not (name in lists.SHELLS or name in lists.WRAPPERS or is_launcher(chain[below])):
                return below
    return place


def is_launcher(program: Program) -> bool:
    """Whether it is a package runner, whose business is to start another."""
    name = program_name(program)
    words = [name]
    if name in lists.INTERPRETERS:  # node /usr/bin/npx, or its title: `npm exec`
        words += [_called(word.split(" ")[0]) for word in program.argv[:2]]
    return any(word in lists.LAUNCHERS for word in words)


def program_name(program: Program) -> str:
    """The name that the lists know a program by: no directory, no version.
    The name that it was called by counts where the executable's says nothing
    (busybox, sudo.ws)."""
    called = _called(program.argv[0].lstrip("-")) if program.argv else ""
    name = _called(program.exe) or called
    if _is_multicall(name) or (name not in lists.KNOWN and called in lists.KNOWN):
        return called or name
    return name


def script_of(program: Program) -> str | None:
    """The script that an interpreter was given, as its command line spells it."""
    name, argv = _resolved(program)
    syntax = lists.SHELLS.get(name) or lists.INTERPRETERS.get(name)
    told = given(argv, syntax) if syntax else None
    return told.value if told and told.kind == "script" else None


def _resolved(program: Program) -> tuple[str, list[str]]:
    """The name and the words of what really runs, behind a loader started by
    hand and a multi-call executable; argv[0] means nothing."""
    name, argv = program_name(program), list(program.argv)
    if _LOADER.match(name):
        found, _ = operands(argv, lists.LOADER_TAKES)
        argv = argv[argv.index(found[0]) :] if found else argv
        name = _called(argv[0]) if argv else name
    elif _is_multicall(name) and len(argv) > 1:
        argv = argv[1:]
        name = _called(argv[0].removeprefix("--coreutils-prog="))
    return name, argv or [name]


def _is_multicall(name: str) -> bool:
    return name in lists.MULTICALL or name.startswith("busybox")


def _called(word: str) -> str:
    """`/usr/bin/python3.11`, `pip-3` and `npm-cli.js` as the lists know them."""
    base = word.removesuffix(" (deleted)").rpartition("/")[2]
    entry = lists.ENTRY_POINT.match(base)
    if entry:
        return entry[1]
    bare = _VERSION.sub("", base)
    return bare if bare in lists.VERSIONED else base


def _voiced(program: Program, name: str, why: str) -> Step:
    return Step(program, name, "voiced", why)


@dataclass(frozen=True)
class _Looker:
    """Looks at one process: its name, then what it was told."""

    program: Program
    facts: Facts
    writer: bool  # it is the process that writes

    def step(self) -> Step:
        name, argv = _resolved(self.program)
        if not name:
            return self._say("?", "direct", "nothing is known of it")
        return self._named(name, argv)

    def _say(self, name: str, kind: Kind, why: str) -> Step:
        return Step(self.program, name, kind, why)

    def _named(self, name: str, argv: list[str]) -> Step:
        """The step of a program called `name`; argv[0] is not looked at."""
        first = next((word for word in argv[1:] if not word.startswith("-")), "")
        branches = lists.SUBCOMMANDS.get(name, {})
        branch = branches.get(argv[1] if len(argv) > 1 else "")
        if branches.get(first) == "wrapper":
            return self._say(name, "voiced", f"a wrapper: {name} {first} starts what follows")
        title = _called(argv[0].split(" ")[0])
        for known in (name, title):
            if known in lists.DRIVERS or known.startswith(lists.DRIVER_PREFIXES):
                return self._say(known, "driven", "a driver: it runs others")
        if name in lists.MACHINES and any(
            mark in word for word in argv[1:] for mark in lists.MACHINE_DRIVERS
        ):
            return self._say(name, "driven", "a driver on a virtual machine")
        if branch == "driver":
            return self._say(name, "driven", f"a driver: {name} {argv[1]} runs others")
        if branch == "inline":
            return self._say(name, "voiced", f"its program was given with {argv[1]}")
        if branch == "script":
            argv = argv[1:]
        if name in lists.SHELLS:
            return self._interpreter(name, argv, lists.SHELLS[name])
        if name in lists.INTERPRETERS:
            return self._interpreter(name, argv, lists.INTERPRETERS[name])
        if name in lists.TEXT_TOOLS:
            return self._interpreter(name, argv, lists.TEXT_TOOLS[name])
        if name in lists.WRAPPERS or (name in lists.SEEKERS and not self.writer):
            return self._say(name, "voiced", "a wrapper: it starts what it was told to")
        if name in lists.CARRIERS:
            return self._carrier(name, argv)
        return self._say(name, "direct", "a program: it writes what its own logic makes")

    def _interpreter(self, name: str, argv: list[str], syntax: lists.Syntax) -> Step:
        told = given(argv, syntax)
        if told.kind == "inline":
            by = f" with {told.by}" if told.by else " on its command line"
            return self._say(name, "voiced", f"its text was given{by}")
        if told.kind == "module":
            return self._module(name, told.value)
        if told.kind == "script":
            return self._script(name, told.value, [] if told.by else argv[told.index :])
        stdin = self._stdin()
        if stdin is None:
            return self._say(name, "voiced", "its text came from standard input")
        return self._script(name, stdin, [])

    def _stdin(self) -> str | None:
        """The path of standard input where it is a plain file; a here-document
        lies in a deleted one."""
        path = self.program.stdin
        if path is None or path.endswith(" (deleted)") or path.startswith(_STREAMS):
            return None
        return path

    def _script(self, name: str, script: str, words: list[str]) -> Step:
        """`words` are the script and its arguments, where they are known."""
        if script.startswith(("/dev/", "/proc/")):  # bash <(...), /dev/stdin
            return self._say(name, "voiced", "its text came through a pipe")
        if self.facts.script_is_session_text(self.program.path(script)):
            return self._say(name, "voiced", f"runs {script}, which this session wrote")
        called = _called(script)
        if words and called != name and _is_tool(called):
            return self._named(called, words)
        if name in lists.SHELLS:
            return self._say(name, "driven", f"a script that was there before: {script}")
        return self._say(name, "direct", f"runs {script}, whose own logic writes")

    def _module(self, name: str, module: str) -> Step:
        package = module.partition(".")[0]
        if module in lists.DRIVER_MODULES or package in lists.DRIVER_MODULES:
            return self._say(name, "driven", f"a driver: -m {module} runs others")
        stem = module.replace(".", "/")
        for script in (f"{stem}.py", f"{stem}/__main__.py"):
            if self.facts.script_is_session_text(self.program.path(script)):
                return self._say(name, "voiced", f"runs {script}, which this session wrote")
        return self._say(name, "direct", f"runs the module {module}, whose own logic writes")

    def _carrier(self, name: str, argv: list[str]) -> Step:
        found = sources(argv, lists.CARRIERS[name])
        if found is None:
            return self._say(name, "direct", "a program: it makes what it writes")
        for source in found:
            if source == NETWORK:
                continue
            if source in (STDIN, "/dev/stdin"):
                inherited = self._stdin()
                if inherited is None:
                    continue
                source = inherited
            elif source.startswith(_STREAMS) and not source.startswith("/dev/shm/"):
                continue
            path = self.program.path(source)
            if not (self.facts.source_is_own_text(path) or self.facts.is_stream(path)):
                return self._say(name, "direct", f"carries {source}, not the agent's own text")
        return self._say(name, "voiced", "a carrier: it passes on what it was given")


def _is_tool(script: str) -> bool:
    """A script that is known by its name, such as pip or parallel."""
    return (
        script in lists.DRIVERS
        or script in lists.SCRIPTED_WRAPPERS
        or script in lists.INTERPRETERS
        or script.startswith(lists.DRIVER_PREFIXES)
    )
