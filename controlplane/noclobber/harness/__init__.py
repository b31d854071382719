"""The harnesses that have hooks: what an event of each says, and how each
wants to be answered.

Pure: an event in, `Heard` out. What follows from it is hooks.py's. Events are
taken leniently: a key that is missing or of a surprising type says nothing,
and an event that says nothing is none of ours.

No adapter ever answers "allow": that would skip the person's own permission
prompt. Where there is nothing to object to there is nothing to say.
"""

from noclobber.harness import claude, codex, cursor, gemini
from noclobber.harness.events import Adapter

ADAPTERS: dict[str, Adapter] = {
    "claude": claude.ADAPTER,
    "codex": codex.ADAPTER,
    "cursor": cursor.ADAPTER,
    "gemini": gemini.ADAPTER,
}
