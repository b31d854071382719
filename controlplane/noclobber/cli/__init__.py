"""The command line for people. `noclobber-exec` is for machines."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script. The launcher waits for `daemon start`: that much is
    done without loading what draws tables."""
    if sys.argv[1:] == ["daemon", "start"]:
        from noclobber.cli.starter import start

        sys.exit(start())
    from noclobber.cli.app import app

    app(prog_name="noclobber")
