"""Answers that are worked out once, where one may need another.

Of two files of a session each may have been made by a program that read the
other. While an answer is being worked out, whoever needs it is told what is
assumed of it; what was worked out by leaning on an assumption is no finding,
and kept for another question it would turn a guess into a fact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")

_NOTHING = 1 << 30  # deeper than any answer


class Depth:
    """How deep answers that need each other nest, and the outermost of them
    that the last one leant on."""

    def __init__(self) -> None:
        self.now = 0
        self.leant = _NOTHING


class Settled(Generic[Name, Value]):
    """Answers by name. Kinds of answers that need each other share a depth."""

    def __init__(self, depth: Depth) -> None:
        self._depth = depth
        self._known: dict[Name, Value] = {}
        self._open: dict[Name, tuple[int, Value]] = {}

    def get(self, name: Name, assumed: Value, work: Callable[[], Value]) -> Value:
        """The answer, worked out by `work` if need be; `assumed` to those that
        ask meanwhile."""
        if name in self._known:
            return self._known[name]
        depth = self._depth
        if name in self._open:
            outer, value = self._open[name]
            depth.leant = min(depth.leant, outer)
            return value
        here, before = depth.now, depth.leant
        depth.now, depth.leant = here + 1, _NOTHING
        self._open[name] = here, assumed
        try:
            value = work()
        finally:
            del self._open[name]
            depth.now = here
        if depth.leant >= here:
            self._known[name] = value
            depth.leant = before
        else:
            depth.leant = min(depth.leant, before)
        return value
