"""What a program is that `noclobber run` has come to: the agent, or not yet.

`noclobber run -- npx some-agent` starts node, which starts a shell, which
starts node: taking the first for the agent would take what the last one reads
for nothing, and its writing for a program's. So each program on the way asks.
"""

from __future__ import annotations

import os

from noclobber import voice, wire
from noclobber import voice_lists as lists
from noclobber.ledger import Image
from noclobber.session import Speaker
from noclobber.wire import C, WireError


def answer(speaker: Speaker, record: bytes) -> bytes:
    """The answer to a program that asks what it is. Raises WireError."""
    size, _ = wire.WHO.unpack_from(record)[4:]
    (wanted,) = wire.strings(record, wire.WHO.size, len(record), [size])
    image, session = speaker.image, speaker.session
    if image is None or session is None:
        raise WireError("a question before the hello")
    command = session.ledger.command_of(image)
    started = command is not None and command.pid == image.pid
    return wire.answer(0, role_of(image, wanted, started=started), 0)


def role_of(image: Image, wanted: bytes, *, started: bool) -> int:
    """The role (enum nc_role) of a program on the way. `wanted` is the name
    that the user gave of the agent's program, or empty; `started`: it is what
    the user named as the command."""
    program = voice.Program.known_by(image.pid, image.exe, image.argv)
    name = voice.program_name(program)
    if wanted:
        names = {name, *map(_base, program.argv[:1]), _base(program.exe)}
        if script := voice.script_of(program):
            names.add(_base(script))
        return int(C.NC_ROLE_AGENT if os.fsdecode(wanted) in names else C.NC_ROLE_WAY)
    if name in lists.SHELLS or name in lists.WRAPPERS or voice.is_launcher(program):
        return int(C.NC_ROLE_WAY)
    if not started and _is_tool(name):
        return int(C.NC_ROLE_NONE)
    return int(C.NC_ROLE_AGENT)


def _is_tool(name: str) -> bool:
    """A tool that a shell on the way uses: `dirname`, `sed`, `uname`."""
    return (
        name in lists.CARRIERS
        or name in lists.TEXT_TOOLS
        or name in lists.SEEKERS
        or name in lists.WAYSIDE
    )


def _base(word: str) -> str:
    return word.rpartition("/")[2]
