"""hatchling's build hook: make builds the C parts, this puts them in the wheel.

The launcher looks for the shim beside itself (`../lib/noclobber/`), so the
wheel's scripts and data land in the same layout as the build tree's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_native

PROGRAMS = ("noclobber-exec", "noclobber-bash", "noclobber-hook", "noclobber-supervise")


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels, editable ones too; a source archive needs no build."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is `standard` or `editable`; fills in `build_data`."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        self.make(root)

        library = "libnoclobber.dylib" if sys.platform == "darwin" else "libnoclobber.so"
        build = root / "build"
        native = build_native.file_name()
        build_data["pure_python"] = False
        build_data["shared_scripts"] = {str(build / "bin" / name): name for name in PROGRAMS}
        build_data["shared_data"] = {
            str(build / "lib" / name): f"lib/{name}"
            for name in (f"noclobber/{library}", f"noclobber/musl/{library}")
            if (build / "lib" / name).exists()
        }
        if version == "editable":
            # The package is imported from the source tree: the module stands there.
            package = root / "controlplane" / "noclobber"
            fresh = package / f"{native}.new"
            shutil.copy2(build / "native" / native, fresh)
            fresh.replace(package / native)  # the old one may be mapped
        else:
            build_data["force_include"][str(build / "native" / native)] = f"noclobber/{native}"

        build_data["infer_tag"] = True
        if build_native.is_abi3():
            build_data["infer_tag"] = False
            build_data["tag"] = f"cp310-abi3-{platform_tag()}"

    def make(self, root: Path) -> None:
        """Run make. Raises SystemExit where it fails, or where make or the
        compiler is missing."""
        env = dict(os.environ, PYTHON=sys.executable)
        # A make above us has a job server whose descriptors pip has closed.
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
            env.pop(name, None)
        for tool in (env.get("MAKE", "make"), env.get("CC", "cc").split()[0]):
            if not shutil.which(tool):
                sys.exit(f"noclobber: building from source needs {tool}, a C compiler and make")
        command = [env.get("MAKE", "make"), "-j2", "all", "native"]
        if subprocess.run(command, cwd=root, env=env).returncode != 0:
            sys.exit("noclobber: make failed; what it said stands above")


def platform_tag() -> str:
    """This machine's platform, without the promise of a manylinux policy."""
    from packaging.tags import platform_tags

    return next(t for t in platform_tags() if not t.startswith(("manylinux", "musllinux")))
