"""For launchers that find no daemon to ask: does the user want to go on then?

A launcher reads no configuration. So what the user's own file says of `fail`
stands beside the socket, as a file that is there or is not; it goes with the
runtime directory, and then the answer is no."""

from __future__ import annotations

from pathlib import Path

from noclobber.config import Configs

NAME = "fail-open"  # csrc/launch.c looks for it


class FailMark:
    """Keeps the file in `runtime`. Raises OSError where it cannot."""

    def __init__(self, runtime: Path, configs: Configs) -> None:
        self._path = runtime / NAME
        self._configs = configs
        self._is_open: bool | None = None

    def show(self) -> None:
        """Makes the file say what is configured."""
        is_open = self._configs.of(None).fail == "open"
        if is_open == self._is_open:
            return
        if is_open:
            self._path.touch(mode=0o600)
        else:
            self._path.unlink(missing_ok=True)
        self._is_open = is_open
