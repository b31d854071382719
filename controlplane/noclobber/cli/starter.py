"""`noclobber daemon start`, alone."""

from __future__ import annotations

import sys

from noclobber import service


def start() -> int:
    """Returns the exit status: 0 when a daemon accepts, 1 when none can."""
    try:
        service.start()
    except (service.ServiceError, OSError) as error:
        print(f"noclobber: {error}", file=sys.stderr)
        return 1
    return 0
