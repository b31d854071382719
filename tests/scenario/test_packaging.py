"""The wheel holds all that runs, and running it takes no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "libnoclobber.dylib" if sys.platform == "darwin" else "libnoclobber.so"


def run(*command: str | Path, **env: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built by pip from a copy of what git (or the sdist) holds."""
    source = tmp_path_factory.mktemp("source") / "noclobber"
    skip = shutil.ignore_patterns(".git", ".venv", "build", "dist", "_native*.so", "__pycache__")
    shutil.copytree(ROOT, source, ignore=skip)
    output = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", output, source)
    (found,) = output.glob("*.whl")
    return found


def test_wheel_is_for_this_platform_and_any_python_from_3_10(wheel: Path) -> None:
    name, _, tag = wheel.stem.partition("-cp310-abi3-")
    assert name.startswith("noclobber-")
    assert tag not in ("", "any")


def test_wheel_holds_launcher_shim_and_types(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    ends = ("noclobber/_native.abi3.so", "noclobber/py.typed", f"data/lib/noclobber/{LIBRARY}")
    for end in (*ends, "scripts/noclobber-exec", "scripts/noclobber-bash", "licenses/LICENSE"):
        assert [name for name in names if name.endswith(end)], end
    foreign = ("build_hook.py", "build_native.py", ".c", ".h")
    assert not [name for name in names if name.endswith(foreign)]


def test_installed_wheel_runs_without_a_compiler(wheel: Path, home: Path) -> None:
    venv.create(home / "venv", with_pip=True)
    programs = home / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "-q", wheel, CC="/bin/false", PATH="/nowhere")

    private = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}
    private |= {"XDG_STATE_HOME": str(home / "state"), "PATH": f"{programs}:/usr/bin:/bin"}
    (home / "tree").mkdir()
    guarded = ("--root", home / "tree", "--", "bash", "-c", "echo $LD_PRELOAD")
    try:
        shown = run(programs / "noclobber-exec", "--session", "s", *guarded, **private)
        assert shown.strip().endswith(str(home / "venv" / "lib" / "noclobber" / LIBRARY))
        assert run(programs / "noclobber", "--version", **private).strip()
        assert "echoed" in run(programs / "noclobber-bash", "-c", "echo echoed", **private)
    finally:
        run(programs / "noclobber", "daemon", "stop", **private)
