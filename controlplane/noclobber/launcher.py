"""Where our own programs are."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

LAUNCHER = "noclobber-exec"
HOOK = "noclobber-hook"


def beside(name: str) -> Path | None:
    """A program of ours: beside this script, beside this Python, or on PATH."""
    script = Path(sys.argv[0]).resolve()
    for directory in (script.parent, Path(sys.executable).parent):
        if os.access(directory / name, os.X_OK):
            return directory / name
    found = shutil.which(name)
    return Path(found) if found else None
