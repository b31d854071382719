"""nc_socket_path: launcher and daemon must name the same socket, always."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import subprocess
import sys

import pytest

from noclobber import _native

SIZE = 4096
UID = os.getuid()
PRINT_PATH = (
    "from noclobber._native import ffi, lib; out = ffi.new('char[]', 4096);"
    "assert lib.nc_socket_path(out, 4096) == 0; print(ffi.string(out).decode())"
)


def socket_path(size: int = SIZE) -> str:
    out = _native.ffi.new("char[]", SIZE)
    _native.ffi.errno = 0
    if _native.lib.nc_socket_path(out, size) != 0:
        raise OSError(_native.ffi.errno, "nc_socket_path")
    return _native.ffi.string(out).decode()


def path_with_run_user(*arrange: str, **variables: str) -> str:
    """The path as a process sees it that has a /run/user of its own."""
    command = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/run", *arrange]
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("bwrap may not make namespaces here")
    program = [*command, sys.executable, "-c", PRINT_PATH]
    done = subprocess.run(program, env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


needs_bwrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bwrap")


def test_runtime_directory_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/some/where")
    monkeypatch.setenv("XDG_STATE_HOME", "/other")
    assert socket_path() == "/some/where/noclobber/daemon.sock"


@pytest.mark.parametrize("value", ["relative/run", ""])
def test_relative_runtime_directory_is_ignored(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    ignored = socket_path()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert ignored == socket_path()
    assert ignored.startswith("/")


@needs_bwrap
def test_own_run_user_directory_comes_second() -> None:
    here = path_with_run_user("--dir", f"/run/user/{UID}", HOME="/h", XDG_STATE_HOME="/s")
    assert here == f"/run/user/{UID}/noclobber/daemon.sock"


@needs_bwrap
def test_run_user_that_is_a_symlink_is_not_taken() -> None:
    link = ("--dir", "/run/user", "--symlink", "/tmp", f"/run/user/{UID}")
    assert path_with_run_user(*link, XDG_STATE_HOME="/s") == "/s/noclobber/run/daemon.sock"


@needs_bwrap
def test_state_home_comes_third() -> None:
    assert path_with_run_user(XDG_STATE_HOME="/s", HOME="/h") == "/s/noclobber/run/daemon.sock"


@needs_bwrap
@pytest.mark.parametrize("state", [{}, {"XDG_STATE_HOME": "relative"}])
def test_home_comes_fourth(state: dict[str, str]) -> None:
    expected = "/h/.local/state/noclobber/run/daemon.sock"
    assert path_with_run_user(HOME="/h", **state) == expected


@needs_bwrap
def test_home_of_the_user_database_comes_last() -> None:
    expected = f"{pwd.getpwuid(UID).pw_dir}/.local/state/noclobber/run/daemon.sock"
    assert path_with_run_user() == expected


def test_path_longer_than_the_buffer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/r")
    whole = len("/r/noclobber/daemon.sock")
    assert len(socket_path(whole + 1)) == whole
    with pytest.raises(OSError, match="nc_socket_path") as error:
        socket_path(whole)
    assert error.value.errno == errno.ENAMETOOLONG


def test_path_longer_than_sun_path_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "d" * 300)
    assert len(socket_path()) > 300
