"""What a session does in test_model.py: one shell text for each step, with
what it must print, and what it must do to the world.

Steps that no rule may refuse (views, edits, appends, transforms, copies,
deletions) change the world at once. A replacement comes last in its command,
and changes it when the disk has told what became of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from shlex import quote

from model_oracle import Chunk, covers
from model_world import MUST_ALLOW, World


@dataclass(frozen=True)
class Replacement:
    """The end of a command: `name` shall hold `content` unless refused."""

    name: str
    verdict: str
    content: bytes
    before: bytes | None  # None: there is no such file
    written: bool = True  # by the session, as its own text
    program: bool = False  # to which what the command printed counts as well
    anew: bool = False


@dataclass
class Step:
    """`text` for the shell, and what it prints of the file `place`."""

    text: str
    place: str = ""
    chunks: list[Chunk] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)  # old contents that must be kept
    last: Replacement | None = None


Make = Callable[[World, str, str, int, int], Step]


def lines_of(content: bytes) -> list[bytes]:
    """Its lines, with their ends."""
    return re.findall(rb"[^\n]*\n|[^\n]+\Z", content)


# ---- Views ---------------------------------------------------------------


def _part(content: bytes, first: int, behind: int) -> Chunk:
    """Lines [first, behind), from 0."""
    lines = lines_of(content)
    at = sum(map(len, lines[:first]))
    return Chunk(b"".join(lines[first:behind]), content, at)


def _cat(world: World, session: str, name: str, x: int, y: int) -> Step:
    return Step(f"cat {name}", name, [Chunk(world.content(name), world.content(name), 0)])


def _head(world: World, session: str, name: str, x: int, y: int) -> Step:
    count = _count(world, name, x)
    return Step(f"head -n {count} {name}", name, [_part(world.content(name), 0, count)])


def _tail(world: World, session: str, name: str, x: int, y: int) -> Step:
    content = world.content(name)
    count = _count(world, name, x)
    total = len(lines_of(content))
    chunk = _part(content, max(total - count, 0), total)
    return Step(f"tail -n {count} {name}", name, [chunk])


def _sed_range(world: World, session: str, name: str, x: int, y: int) -> Step:
    first, last = _range(world, name, x, y)
    return sed_view(world, name, first, last)


def sed_view(world: World, name: str, first: int, last: int) -> Step:
    """Lines first to last, counted from 1."""
    chunk = _part(world.content(name), first - 1, last)
    return Step(f"sed -n '{first},{last}p' {name}", name, [chunk])


def _awk_range(world: World, session: str, name: str, x: int, y: int) -> Step:
    first, last = _range(world, name, x, y)
    chunks = [_part(world.content(name), first - 1, last), *_newline(world, name, last)]
    return Step(f"awk 'NR>={first} && NR<={last}' {name}", name, chunks)


def _cat_n(world: World, session: str, name: str, x: int, y: int) -> Step:
    return Step(f"cat -n {name}", name, _numbered(world.content(name), "{:6}\t"))


def _grep_n(world: World, session: str, name: str, x: int, y: int) -> Step:
    chunks = _numbered(world.content(name), "{}:")
    chunks += _newline(world, name, len(chunks))
    return Step(f"grep -n '' {name} || :", name, chunks)


def _head_c(world: World, session: str, name: str, x: int, y: int) -> Step:
    content = world.content(name)
    count = x % (len(content) + 1)
    return Step(f"head -c {count} {name}", name, [Chunk(content[:count], content, 0)])


def _tail_c(world: World, session: str, name: str, x: int, y: int) -> Step:
    content = world.content(name)
    at = x % (len(content) + 1)
    chunk = Chunk(content[at:], content, at)
    return Step(f"tail -c {len(content) - at} {name}", name, [chunk])


def bytes_view(world: World, name: str, at: int, count: int) -> Step:
    """`count` bytes of it from `at`."""
    content = world.content(name)
    chunk = Chunk(content[at : at + count], content, at)
    return Step(f"tail -c +{at + 1} {name} | head -c {count}", name, [chunk])


def _numbered(content: bytes, gutter: str) -> list[Chunk]:
    chunks = []
    at = 0
    for number, line in enumerate(lines_of(content), 1):
        chunks += [Chunk(gutter.format(number).encode()), Chunk(line, content, at)]
        at += len(line)
    return chunks


def _newline(world: World, name: str, last: int) -> list[Chunk]:
    """The newline that awk and grep put after a last line that has none."""
    content = world.content(name)
    lacks = content and not content.endswith(b"\n") and last >= len(lines_of(content))
    return [Chunk(b"\n")] if lacks else []


def _count(world: World, name: str, x: int) -> int:
    return 1 + x % (len(lines_of(world.content(name))) + 1)


def _range(world: World, name: str, x: int, y: int) -> tuple[int, int]:
    total = max(len(lines_of(world.content(name))), 1)
    first = 1 + x % total
    return first, first + y % (total - first + 1)


# ---- Edits, appends and transforms: never refused --------------------------


def _changed(
    world: World, session: str, name: str, content: bytes, text: str, new: bytes = b""
) -> Step:
    """A change that the session makes; `new` is what it added."""
    before = world.content(name)
    whole = world.sessions[session].knows(name, before)
    kept = [before] if world.must_be_kept(session, name, before) else []
    world.change(name, content, session)
    if whole:
        world.sessions[session].written[name] = ((0, len(content)),)
    world.sessions[session].wrote(new)
    return Step(text, name, kept=kept)


def _sed_line(world: World, session: str, name: str, x: int, y: int) -> Step:
    lines = lines_of(world.content(name))
    if not lines:
        return _cat(world, session, name, x, y)
    at = x % len(lines)
    new = f"edited {world.token()}"
    if y % 3 == 0:
        script, made = f"{at + 1}d", []
    elif y % 3 == 1:
        end = b"\n" if lines[at].endswith(b"\n") else b""
        script, made = f"{at + 1}s/.*/{new}/", [new.encode() + end]
    else:
        script, made = f"{at + 1}i\\{new}", [new.encode() + b"\n", lines[at]]
    content = b"".join([*lines[:at], *made, *lines[at + 1 :]])
    return _changed(world, session, name, content, f"sed -i {quote(script)} {name}", new.encode())


def _in_place(world: World, session: str, name: str, x: int, y: int) -> Step:
    old, new = ((b"line", b"row"), (b"has", b"had"), (b"of", b"from the"))[x % 3]
    before = world.content(name)
    code = f"f=open('{name}','r+b');t=f.read().replace({old!r},{new!r})"
    code += ";f.seek(0);f.write(t);f.truncate()"
    knowledge = world.sessions[session]
    own = covers(knowledge.written.get(name, ()), 0, len(before))
    step = _rewritten(world, session, name, before.replace(old, new), code)
    # Nothing is asked where a file is opened to be edited in place: what was
    # known then is forgotten, and no copy is kept.
    step.kept.clear()
    if not own:
        knowledge.written.pop(name, None)
    return step


def _rewrite(world: World, session: str, name: str, x: int, y: int) -> Step:
    before = world.content(name)
    code = f"t=open('{name}','rb').read();open('{name}','wb').write(t.upper())"
    return _rewritten(world, session, name, before.upper(), code)


def _rewritten(world: World, session: str, name: str, content: bytes, code: str) -> Step:
    added = _added(world.content(name), content)
    text = f"python3 -SEc {quote(code)}"
    return _changed(world, session, name, content, text, added)


def _sort(world: World, session: str, name: str, x: int, y: int) -> Step:
    before = world.content(name)
    content = b"".join(line + b"\n" for line in sorted(before.split(b"\n")[: _total(before)]))
    return _changed(world, session, name, content, f"sort -o {name} {name}")


def _filtered(world: World, session: str, name: str, x: int, y: int) -> Step:
    before = world.content(name)
    content = before.replace(b"line", b"row", 1) if b"\n" not in before else b"".join(
        line.replace(b"line", b"row", 1) for line in lines_of(before)
    )  # fmt: skip
    added = _added(before, content)
    temp = f"t{world.token()}"
    text = f"sed s/line/row/ {name} > {temp} && mv {temp} {name}"
    return _changed(world, session, name, content, text, added)


def _append(world: World, session: str, name: str, x: int, y: int) -> Step:
    before = world.content(name)
    new = world.text(1 + x % 4, 0)
    knowledge = world.sessions[session]
    ranges = knowledge.written.get(name, ())
    text = f">> {name}" if y % 2 else f"| tee -a {name} >/dev/null"
    world.change(name, before + new, session)
    knowledge.written[name] = (*ranges, (len(before), len(before) + len(new)))
    knowledge.wrote(new)
    return Step(f"printf %s {quote(new.decode())} {text}", name)


def _added(before: bytes, after: bytes) -> bytes:
    return b"".join((Counter(lines_of(after)) - Counter(lines_of(before))).elements())


def _total(content: bytes) -> int:
    return len(lines_of(content))


# ---- Names -----------------------------------------------------------------


def _copy(world: World, session: str, name: str, x: int, y: int) -> Step:
    free = world.free(session)
    if not free:
        return _cat(world, session, name, x, y)
    new = free[y % len(free)]
    world.change(new, world.content(name), session)
    world.copies.add((session, name, new))
    world.sessions[session].touched.add(name)
    return Step(f"cp {('', '-p ')[x % 2]}{name} {new}", name)


def _rename(world: World, session: str, name: str, x: int, y: int) -> Step:
    free = world.free(session)
    if not free:
        return _cat(world, session, name, x, y)
    new = free[y % len(free)]
    world.move(name, new, session)
    return Step(f"mv {name} {new}", new)


def _touch(world: World, session: str, name: str, x: int, y: int) -> Step:
    world.touch(name, session)
    return Step(f"touch {name}", name)


def delete(world: World, session: str, name: str, x: int, y: int) -> Step:
    """`rm`, which is never refused."""
    before = world.content(name)
    kept = [before] if world.must_be_kept(session, name, before) else []
    world.take(name, session)
    return Step(f"rm {name}", name, kept=kept)


# ---- Replacements ----------------------------------------------------------


def replace(world: World, session: str, name: str, x: int, y: int) -> Step:
    """A voiced replacement of `name`, or its creation."""
    sizes = (1, 2, 5, 60, 200, 900)
    text = world.text(sizes[x % len(sizes)], y // 11 % 7)
    verdict = world.judge(session, name)
    before = world.content(name) if name in world.files else None
    writers = (_redirected, _here, _teed, _copied, _python, _moved, _dd, _shrunk, _emptied)
    writer = writers[y % len(writers)]
    if writer is _shrunk:
        return _shrunk(world, session, name, x, before or b"", text, verdict)
    if writer is _emptied:
        text = b""
    if writer is _here and not text.endswith(b"\n"):
        text += b"\n"
    last = Replacement(name, verdict, text, before, anew=writer is _moved)
    return Step(writer(world, name, text), name, last=last)


def _redirected(world: World, name: str, text: bytes) -> str:
    return f"printf %s {quote(text.decode())} > {name}"


def _here(world: World, name: str, text: bytes) -> str:
    return f"cat > {name} <<'END'\n{text.decode()}END"


def _teed(world: World, name: str, text: bytes) -> str:
    return f"printf %s {quote(text.decode())} | tee {name} > /dev/null"


def _copied(world: World, name: str, text: bytes) -> str:
    temp = f"t{world.token()}"
    return f"printf %s {quote(text.decode())} > {temp}; cp {temp} {name}; rm {temp}"


def _python(world: World, name: str, text: bytes) -> str:
    code = f"open({name!r}, 'wb').write({text!r})"
    return f"python3 -SEc {quote(code)}"


def _moved(world: World, name: str, text: bytes) -> str:
    temp = f"t{world.token()}"
    return f"printf %s {quote(text.decode())} > {temp}; mv {temp} {name} || rm {temp}"


def _dd(world: World, name: str, text: bytes) -> str:
    return f"printf %s {quote(text.decode())} | dd of={name} status=none"


def _emptied(world: World, name: str, text: bytes) -> str:
    return f": > {name}"


def _shrunk(
    world: World, session: str, name: str, x: int, before: bytes, text: bytes, verdict: str
) -> Step:
    if not before:
        last = Replacement(name, verdict, text, None if name not in world.files else before)
        return Step(_redirected(world, name, text), name, last=last)
    start = x % len(before)
    last = Replacement(
        name, world.judge(session, name, start), before[:start], before, written=False
    )
    return Step(f"truncate -s {start} {name}", name, last=last)


def _cut_short(world: World, session: str, name: str, x: int, y: int) -> Step:
    before = world.content(name)
    count = _count(world, name, x)
    source = b"".join(lines_of(before)[:count])
    verdict = MUST_ALLOW
    if source != before:
        verdict = world.judge_partial(session, name, source)
    temp = f"t{world.token()}"
    text = f"head -n {count} {name} > {temp}; mv {temp} {name} || rm {temp}"
    last = Replacement(name, verdict, source, before, False, program=True, anew=True)
    return Step(text, name, last=last)


VIEWS: tuple[Make, ...] = (
    _cat, _head, _tail, _sed_range, _awk_range, _cat_n, _grep_n, _head_c, _tail_c,
)  # fmt: skip
CHANGES: tuple[Make, ...] = (
    _sed_line, _in_place, _rewrite, _sort, _filtered, _append, _append, _copy, _rename, _touch,
)  # fmt: skip
LAST: tuple[Make, ...] = (_cut_short, replace, replace, replace, replace)
