"""Samples taken in turn, and what they say: medians and quartiles, never
means. A busy machine disturbs both sides of a pair alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Sampler = Callable[[], float]


@dataclass(frozen=True)
class Spread:
    """The middle of some figures, and the two quartiles around it."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """Raises statistics.StatisticsError where there is no figure."""
        if len(figures) < 2:
            only = statistics.median(figures)
            return cls(only, only, only)
        low, middle, high = statistics.quantiles(figures, n=4, method="inclusive")
        return cls(low, middle, high)


@dataclass(frozen=True)
class Row:
    """One line of the table: the same work done by each variant in turn.

    `samples` has a list for each variant, all of one length, in `unit`;
    `base` names the variant that `over` and `ratio` are against. `aim` is
    what we want: at most so much over the base, or at most that ratio."""

    name: str
    unit: str
    samples: Mapping[str, Sequence[float]]
    base: str = "bare"
    aim: str = ""

    def median(self, variant: str) -> float | None:
        """The variant's middle sample; None where it was not measured."""
        found = self.samples.get(variant)
        return statistics.median(found) if found else None

    @property
    def over(self) -> Spread:
        """What the guard adds, from the difference within each pair."""
        return Spread.of([b - a for a, b in self._pairs()])

    @property
    def ratio(self) -> Spread:
        """Guarded over base, within each pair."""
        return Spread.of([b / a for a, b in self._pairs()])

    def _pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.samples[self.base], self.samples["noclobber"], strict=True))


def in_turn(variants: Mapping[str, Sampler], rounds: int) -> dict[str, list[float]]:
    """A B A B ...: `rounds` samples of each. Each is run once before, unkept:
    caches are warm for all of them."""
    for sample in variants.values():
        sample()
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, sample in variants.items():
            taken[name].append(sample())
    return taken
