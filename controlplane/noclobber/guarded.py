"""What one session protects, prepared for its questions."""

from __future__ import annotations

import os
import time

from noclobber.config import Config
from noclobber.evidence import Evidence
from noclobber.overrides import Override, Overrides, Rules
from noclobber.protected import Protection, Standing, skip_directories
from noclobber.repository import Repositories
from noclobber.session import Session

STANDS_FOR = 1.0  # s for which the place of a path is remembered
STANDINGS_KEPT = 4096


class Guarded:
    """What is protected in one session, and by which configuration."""

    def __init__(
        self,
        config: Config,
        session: Session,
        repositories: Repositories,
        overrides: Overrides,
    ) -> None:
        self.config = config
        self.session = session
        self.helpers: list[Guarded] = []  # its sub-agents that are at work
        self._overrides = overrides
        self._rules = Rules(config.allow)
        self.roots = roots = session.roots
        self.evidence = Evidence(session.ledger, config.shown)
        self._standings: dict[bytes, tuple[float, Standing]] = {}
        self.repositories = repositories
        self.protection = Protection(
            roots,
            skip_directories(os.environ),
            unprotected=config.unprotected,
            outputs=config.outputs,
            repositories=repositories,
        )

    def standing(self, path: bytes) -> Standing:
        """Where a path lies; for a moment only the names are remembered."""
        now = time.monotonic()
        known = self._standings.get(path)
        if known is None or now > known[0]:
            if len(self._standings) > STANDINGS_KEPT:
                self._standings.clear()
            known = self._standings[path] = (now + STANDS_FOR, self.protection.standing(path))
        return known[1].anew()

    def override(self, path: bytes) -> Override | None:
        """What lets a replacement of the file at a path through, if anything
        does. What may always be replaced uses up no one-time override."""
        ruled = self._rules.get(path, self.standing(path).root) if self.config.allow else None
        return ruled or self._overrides.get(path)
