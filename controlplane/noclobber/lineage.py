"""Whose reading stands behind a process: the images that its bytes come from.

`sed s/a/b/ f > t; mv t f` must pass, for sed read all of f, although mv read
nothing; `head -n 20 f > t; mv t f` must not. So lineage goes from an image to
the one it was forked from, to the writers of the pipes it reads, and to the
authors of the files it reads, as far as it leads.
"""

from __future__ import annotations

from collections.abc import Iterable

from noclobber import coverage
from noclobber.coverage import Coverage
from noclobber.ledger import Image, Key, Ledger, Stamp, size_of
from noclobber.wire import C

# A pipe that carried less than this part of the file's bytes carries no file:
# `wc -l f` through a pipe is a number, a filter's output is the file.
CARRIES = 10


class Lineage:
    """The lineages of one question about one file of `size` bytes."""

    def __init__(self, ledger: Ledger, target: Key, size: int) -> None:
        self._ledger = ledger
        self._target = target
        self._size = size
        self._made: dict[frozenset[int], frozenset[int]] = {}

    def of(self, tokens: Iterable[int]) -> frozenset[int]:
        """Tokens of the images that stand behind these, themselves included."""
        start = frozenset(tokens)
        if start not in self._made:
            found: set[int] = set()
            waiting = list(start)
            while waiting:
                token = waiting.pop()
                if token and token not in found:
                    found.add(token)
                    waiting += self._behind(token)
            self._made[start] = frozenset(found)
        return self._made[start]

    def of_source(self, source: Key, stamp: Stamp) -> frozenset[int]:
        """The lineage of those who made the file that is moved or copied."""
        return self.of(write.token for write in self._ledger.authors(source, stamp))

    def read(self, tokens: frozenset[int], stamp: Stamp) -> Coverage:
        """What these images read or wrote of the target at `stamp`, in bytes."""
        read = self._ledger.read_by(tokens, self._target, stamp)
        return coverage.union(read, self._wrote(tokens, stamp))

    def _wrote(self, tokens: frozenset[int], stamp: Stamp) -> Coverage:
        """What they wrote of it, where nobody else wrote to it since."""
        writes = self._ledger.authors(self._target, stamp)
        if not writes or not self._ledger.same(self._target, writes[-1].stamp, stamp):
            return coverage.NOTHING
        if all(write.token in tokens for write in writes):
            return coverage.whole(size_of(stamp)) if _made(writes[0].flags) else coverage.NOTHING
        return coverage.NOTHING

    def _behind(self, token: int) -> list[int]:
        image = self._ledger.images.get(token)
        if image is None or image.agent:
            return []  # what its children gave the agent is its intake
        return [image.parent_token, *self.writers(image), *self._sources(image)]

    def writers(self, image: Image) -> Iterable[int]:
        """Tokens of those at the other end of the pipes that it reads.

        Each end's count is a bound ("at most so much went through"), told
        again as it grows; what one writer passed on is under both.
        """
        agents = self._ledger.agents  # they tell, and pass nothing on
        for ino in {ino for ino, end, _ in image.pipes if end & C.NC_PIPE_READ}:
            taken = 0
            given: dict[int, int] = {}
            for token, end, count in self._ledger.pipes[ino]:
                if token == image.token and end & C.NC_PIPE_READ:
                    taken = max(taken, count)
                if token != image.token and token not in agents and end & C.NC_PIPE_WRITE:
                    given[token] = max(given.get(token, 0), count)
            for token, count in given.items():
                if min(taken, count) * CARRIES >= self._size:
                    yield token

    def _sources(self, image: Image) -> Iterable[int]:
        """Those who wrote, in this session, the files that it reads."""
        writes = self._ledger.writes
        for key in (writes.keys() & self._ledger.keys_read(image)) - {self._target}:
            stamps = [r.stamp for r in self._ledger.reads(key) if r.token == image.token]
            for stamp in set(stamps):
                yield from (write.token for write in self._ledger.authors(key, stamp))


def _made(flags: int) -> bool:
    return bool(flags & (C.NC_CREATED | C.NC_TRUNCATED | C.NC_INHERIT))
