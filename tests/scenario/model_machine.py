"""The machine of test_model.py: one tree, two sessions, random work.

It draws what is done next, has model_steps.py make it, runs it, and holds the
disk, the output and the receipts against the model (model_world.py) and the
oracle (model_oracle.py). What it did is kept as a script for people.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import model_steps as steps
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from model_oracle import GRAM, Chunk, Knowledge
from model_script import Script
from model_world import EITHER, MUST_ALLOW, MUST_DENY, NAMES, World

TICK = 0.01  # seconds in which the clock of file times surely moves on
PIECE = 14_000  # bytes that one view of `see_whole` prints at the most
RULES = 16  # of one example
STEPS_OF_RULES = 20  # steps that these come to, at the least
SHRINKING = 60  # seconds in which a failure is made smaller
SESSIONS = ("A", "B")

number = st.integers(0, 1 << 20)
session = st.sampled_from(SESSIONS)
view = st.tuples(st.sampled_from(steps.VIEWS), number, number, number)
change = st.tuples(st.sampled_from(steps.CHANGES), number, number, number)
last = st.tuples(st.sampled_from(steps.LAST), number, number, number)
action = st.tuples(session, st.lists(st.one_of(view, view, change), max_size=3), st.none() | last)
kind_of_file = st.tuples(st.sampled_from((1, 3, 5, 50, 400, 1500, 3000)), st.integers(0, 6))
OUTSIDE = ("append", "edit", "same size", "replace", "rename", "touch", "delete", "restore")
outside = st.tuples(st.sampled_from(OUTSIDE), number, number)
interlude = st.lists(st.one_of(action, outside), max_size=2)


class Work(RuleBasedStateMachine):
    """One tree, two sessions."""

    guard: ClassVar[Any]
    examples: ClassVar[Any] = itertools.count()
    wanted: ClassVar[int]  # steps
    taken: ClassVar[int] = 0  # steps, over all examples
    failed: ClassVar[Script | None] = None  # the last failure: the smallest
    first_failed: ClassVar[float] = 0.0
    verdicts: ClassVar[Counter[str]] = Counter()  # what the oracle said

    @initialize(files=st.lists(kind_of_file, min_size=1, max_size=3), git=st.integers(0, 3))
    def start(self, files: list[tuple[int, int]], git: int) -> None:
        self.world = World(sessions={name: Knowledge() for name in SESSIONS})
        if not self.goes_on():
            return  # no file, and so nothing to do
        self.ident = next(self.examples)
        self.script = Script()
        self.tree = self.guard.home / f"tree{self.ident}"
        self.tree.mkdir()
        self.receipts = self.guard.home / "state" / "noclobber" / "receipts.jsonl"
        self.offset = self.receipts.stat().st_size if self.receipts.exists() else 0
        for name, (count, style) in zip(NAMES, files, strict=False):
            self.world.change(name, self.world.text(count, style), "")
            self.put(name)
            self.script.put(name, self.world.content(name))
        if git:
            self.world.committed = {
                name: self.world.content(name)
                for n, name in enumerate(self.world.present)
                if git >> n & 1
            }
            add = f"git add {name}" if (name := " ".join(self.world.committed)) else ":"
            self.outside_shell(f"git init -q && {add} && git commit --allow-empty -qm x")

    @rule(actions=st.lists(action, min_size=1, max_size=3))
    def work(self, actions: list[Any]) -> None:
        for who, several, end in actions:
            self.act(who, several, end)

    @rule(who=session, at=number, plain=st.booleans(), between=interlude, x=number, y=number)
    def see_whole_and_replace(
        self, who: str, at: int, plain: bool, between: list[Any], x: int, y: int
    ) -> None:
        if not (name := self.pick(at)):
            return
        self.see_whole(who, name, plain)
        for what in between:
            if what[0] in SESSIONS:
                self.act(*what)
            else:
                self.meddle(*what)
        self.run(who, [steps.replace(self.world, who, name, x, y)])

    @rule(who=session, at=number, first=st.none() | view, count=number, x=number, y=number)
    def delete_and_create(self, who: str, at: int, first: Any, count: int, x: int, y: int) -> None:
        if not (name := self.pick(at)):
            return
        if first:
            make, _, *numbers = first
            self.act(who, [(make, at, *numbers)], None)
        gone = steps.delete(self.world, who, name, 0, 0)
        if count % 2:
            self.run(who, [gone, steps.replace(self.world, who, name, x, y)])
        else:
            self.run(who, [gone])
            self.run(who, [steps.replace(self.world, who, name, x, y)])

    @rule(who=session, at=number, x=number, y=number)
    def write_somewhere(self, who: str, at: int, x: int, y: int) -> None:
        if hasattr(self, "tree"):
            self.run(who, [steps.replace(self.world, who, NAMES[at % len(NAMES)], x, y)])

    @rule(change=outside)
    def meddle_once(self, change: Any) -> None:
        self.meddle(*change)

    @invariant()
    def disk_is_as_it_should_be(self) -> None:
        if not hasattr(self, "tree"):
            return
        found = {p.name: p.read_bytes() for p in self.tree.iterdir() if p.name != ".git"}
        assert found.keys() == self.world.files.keys()
        for name, file in self.world.files.items():
            assert found[name] == file.content, f"{name} is not what it should be"

    def teardown(self) -> None:
        if hasattr(self, "tree"):
            shutil.rmtree(self.tree)

    # What the rules are made of.

    def goes_on(self) -> bool:
        """Whether there are steps left to take, or a failure is to be made smaller."""
        if not self.failed:
            return self.taken < self.wanted
        spent = time.monotonic() - self.first_failed
        return spent < SHRINKING or current_build_context().is_final

    def pick(self, at: int) -> str:
        present = self.world.present
        return present[at % len(present)] if present else ""

    def act(self, who: str, several: list[Any], end: Any) -> None:
        """One command of some steps."""
        made = []
        for make, at, x, y in [*several, *([end] if end else [])]:
            if name := self.pick(at):
                made.append(make(self.world, who, name, x, y))
                self.world.sessions[who].touched.add(name)
        if made:
            self.run(who, made)

    def see_whole(self, who: str, name: str, plain: bool) -> None:
        content = self.world.content(name)
        lines = steps.lines_of(content)
        self.world.sessions[who].touched.add(name)
        if not plain or any(len(line) > PIECE for line in lines):
            for at in range(0, len(content), PIECE):
                self.run(who, [steps.bytes_view(self.world, name, at, PIECE)])
            return
        first = size = 0
        for number, line in enumerate(lines):
            size += len(line)
            if number + 1 == len(lines) or size + len(lines[number + 1]) > PIECE:
                self.run(who, [steps.sed_view(self.world, name, first + 1, number + 1)])
                first, size = number + 1, 0

    def run(self, who: str, made: list[steps.Step]) -> None:
        """Runs the steps as one command and looks what became of them."""
        try:
            self.run_and_look(who, made)
        except AssertionError:
            # An inode number that was used again, a clock: when hypothesis
            # tries once more, it may go well.
            Work.failed = self.script
            Work.first_failed = Work.first_failed or time.monotonic()
            raise

    def run_and_look(self, who: str, made: list[steps.Step]) -> None:
        text = "\n".join(step.text for step in made)
        self.script.run(who, text)
        Work.taken += len(made)
        command = ["bash", "-c", text]
        launcher = self.guard.command(*command, session=f"{who}{self.ident}")
        launcher[launcher.index("--root") + 1] = str(self.tree)
        done = self.guard.bare(
            *launcher, cwd=self.tree, text=False, capture_output=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        chunks = [chunk for step in made for chunk in step.chunks]
        places = [step.place for step in made for _ in step.chunks]
        printed = b"".join(chunk.text for chunk in chunks)
        receipts = self.new_receipts()
        denied = [r["path"] for r in receipts if r["verdict"] == "deny"]
        kept = [old for step in made for old in step.kept]
        end = made[-1].last
        if end and end.program and end.verdict == MUST_DENY and printed:
            end = replace(end, verdict=EITHER)
        refused = end is not None and self.settle(who, end, kept)
        if refused:
            assert end is not None
            assert set(denied) == {str(self.tree / end.name)}, done.stdout[-2000:]
            assert done.stdout.startswith(printed)
            # The refusal came behind all of it, and is no part of the file.
            chunks.append(Chunk(done.stdout[len(printed) :]))
            places.append("")
        else:
            assert not denied, f"refused: {denied}\n{done.stdout[-2000:].decode()}"
            assert done.stdout == printed, "the output is not what the files held"
            assert done.returncode == 0
        knowledge = self.world.sessions[who]
        knowledge.was_printed(done.stdout)
        knowledge.was_shown(chunks, places)
        snapshots = [self.snapshot(r) for r in receipts if r.get("snapshot")]
        for old in kept:  # what the command itself printed counts for programs
            if not knowledge.may_know(old):
                assert old in snapshots, f"not seen, gone and not kept: {old[:200]!r}"
        self.disk_is_as_it_should_be()

    def settle(self, who: str, end: steps.Replacement, kept: list[bytes]) -> bool:
        """Whether the replacement was refused; changes the world with it."""
        world, path = self.world, self.tree / end.name
        found = path.read_bytes() if path.exists() else None
        refused = found != end.content
        self.script.remark(f"{end.verdict}: {'refused' if refused else 'let through'}")
        Work.verdicts[end.verdict] += 1
        if not refused:
            assert end.verdict != MUST_DENY, f"unseen lines of {end.name} were lost"
            if end.before and world.must_be_kept(who, end.name, end.before):
                start = len(end.content) if end.before.startswith(end.content) else 0
                if not world.sessions[who].may_know(end.before, start):
                    kept.append(end.before)
            whole = world.sessions[who].knows(end.name, end.before or b"")
            world.change(end.name, end.content, who, anew=end.anew)
            rest = end.content[end.content.rfind(b"\n") + 1 :]
            if end.written:
                world.sessions[who].wrote(end.content)
            elif len(rest) < GRAM:
                world.sessions[who].wrote(rest)  # what the cut left of a line
            if end.written or (whole and end.before):
                world.sessions[who].written[end.name] = ((0, len(end.content)),)
            return False
        assert end.verdict != MUST_ALLOW, f"{end.name} was seen whole, or its session's own"
        if end.before is not None:
            assert found == end.before, "the refused write changed the file"
        else:
            tomb = world.tombs[who, end.name]
            assert found is not None and (found == tomb.content or end.verdict == EITHER)
            world.change(end.name, found, who)
        return True

    def meddle(self, how: str, at: int, x: int) -> None:
        """Somebody changes a file by other means."""
        if not (name := self.pick(at)):
            return
        Work.taken += 1
        self.script.wait(TICK)
        time.sleep(TICK)
        world, path = self.world, self.tree / name
        content = world.content(name)
        lines = steps.lines_of(content)
        world.past.append((name, content))
        if how == "touch" or not lines:
            os.utime(path)
            self.script.outside(f"touch {name}")
            world.touch(name, "")
            return
        if how == "delete":
            path.unlink()
            self.script.outside(f"rm {name}")
            world.take(name, "")
            return
        new = f"foreign {world.token()}\n".encode()
        spot = x % len(lines)
        if how == "append":
            content += new
        elif how == "edit":
            lines[spot] = new
            content = b"".join(lines)
        elif how == "same size":
            lines[spot] = bytes(b ^ 1 if chr(b).isalnum() else b for b in lines[spot])
            content = b"".join(lines)
        elif how in ("replace", "rename"):
            content = world.text(1 + x % 80, x % 7)
        else:
            content = next(old for place, old in world.past if place == name)
        times = path.stat()
        own = any(name in knowledge.written for knowledge in world.sessions.values())
        world.change(name, content, "", anew=how == "rename")
        self.put(name, anew=how == "rename")
        # Of a session's own file nobody can tell this from a change of mode: it
        # is let go, and kept.
        keeps_time = how == "same size" and not own
        self.script.put(name, content, anew=how == "rename", keeps_time=keeps_time)
        if keeps_time:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def put(self, name: str, *, anew: bool = False) -> None:
        path = self.tree / name
        content = self.world.content(name)
        if anew:
            other = path.with_suffix(".new")
            other.write_bytes(content)
            other.replace(path)
        else:
            path.write_bytes(content)

    def outside_shell(self, text: str) -> None:
        who = {"GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "n@example.org"}
        who |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in who.items()}
        env = self.guard.env | who | {"GIT_CONFIG_NOSYSTEM": "1"}
        self.script.outside(text)
        done = self.guard.bare("bash", "-c", text, cwd=self.tree, env=env)
        assert done.returncode == 0, done.stderr

    def new_receipts(self) -> list[dict[str, Any]]:
        if not self.receipts.exists():
            return []
        with self.receipts.open("rb") as file:
            file.seek(self.offset)
            text = file.read()
        self.offset += len(text)
        return [json.loads(line) for line in text.splitlines()]

    def snapshot(self, receipt: dict[str, Any]) -> bytes:
        path = self.receipts.parent / "snapshots" / receipt["snapshot"]
        return path.read_bytes()


def drive(guard: Any, wanted: int, chosen: int, *, shrinks: bool = True) -> type[Work]:
    """Takes that many steps, the choice of which follows from a number. What
    failed is raised; `Work.failed` is its script then."""
    Work.guard, Work.wanted = guard, wanted
    chosen_settings = settings(
        max_examples=max(wanted // STEPS_OF_RULES, 1),
        stateful_step_count=RULES,
        deadline=None,
        database=None,
        phases=[Phase.generate, *([Phase.shrink] if shrinks else [])],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(chosen)(Work), settings=chosen_settings)
    return Work
