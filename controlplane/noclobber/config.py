"""Configuration: TOML files, the user's and the root's.

A typing error in a file must neither switch the guard off nor take it down:
`load` raises ConfigError with the file and the line, and who called keeps what
it had and says so.

Read in this order, later ones over earlier ones: `noclobber/config.toml` in
the user's config directory; in the root, `[tool.noclobber]` of pyproject.toml;
in the root, `noclobber.toml`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Names that are outputs by convention: a snapshot at most, for every writer.
OUTPUTS = ("*.log", "nohup.out", "*.pid", "core")
RETENTION_DAYS = 14
SNAPSHOT_SIZE = 2 << 30  # bytes of old content that are kept
SNAPSHOT_DAYS = 14
SHOWN_LIMIT = 30_000  # bytes of one command's output that reach the agent
SHOWN_MOST: int = 1 << 24  # the launcher keeps no more


class ConfigError(ValueError):
    """A file that is no configuration. `line` is 1-based, 0 if not known."""

    def __init__(self, path: Path, line: int, why: str) -> None:
        where = f"{path}, line {line}" if line else str(path)
        super().__init__(f"{where}: {why}")
        self.path = path
        self.line = line


@dataclass(frozen=True)
class Shown:
    """What a harness passes on of one command's output, in bytes.

    Up to `whole` everything; of more, the head and the tail in `ends`. Where
    the command fails, up to `failed`, and of more half from either end.
    """

    whole: int
    ends: tuple[int, int]
    failed: int

    def parts(self, size: int, failed: bool) -> tuple[int, int]:
        """How many bytes from the head and from the tail of `size` are shown."""
        if size <= (self.failed if failed else self.whole):
            return size, 0
        return halves(self.failed) if failed else self.ends


def halves(limit: int) -> tuple[int, int]:
    """A limit as the launcher shares it out: head and tail."""
    return limit - limit // 2, limit // 2


def even(limit: int) -> Shown:
    """The launcher's own cut, head and tail alike."""
    return Shown(limit, halves(limit), limit)


PRESETS = {
    # Its documentation: about 30,000 characters, of more a preview of 2,000;
    # of what a failed command printed about 10,000, head and tail.
    "claude": Shown(whole=30_000, ends=(2_000, 0), failed=10_000),
}
"""Harnesses that say how they cut: names for `shown_limit`."""


@dataclass(frozen=True)
class Rule:
    """Files that may always be replaced, and why. Globs as in .gitignore."""

    paths: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Config:
    """What may be set, with its defaults. Globs as in .gitignore."""

    unprotected: tuple[str, ...] = ()
    outputs: tuple[str, ...] = OUTPUTS
    programs: str = "deny"  # row 10: deny | snapshot
    fail: str = "closed"  # without a daemon: closed | open
    supervisor: str = "auto"  # of what the shim does not enter: auto | always | never
    on_dirty: str = "protect"  # what is uncommitted at a session's start: see dirty.py
    on_compact: str = "clear"  # a harness compacts: what it had shown is so no more | keep
    shown_limit: int | str = SHOWN_LIMIT  # bytes, or one of PRESETS
    retention_days: int = RETENTION_DAYS
    snapshot_size: int = SNAPSHOT_SIZE  # or as text: "2GiB"; 0: nothing is kept
    snapshot_days: int = SNAPSHOT_DAYS
    allow: tuple[Rule, ...] = ()  # [[allow]] tables
    allow_inside: bool = False  # `noclobber allow` from within a session
    export: str = "none"  # of receipts: none | otel; when the daemon starts

    @property
    def shown(self) -> Shown:
        """What of a command's output reaches the agent."""
        if isinstance(self.shown_limit, str):
            return PRESETS[self.shown_limit]
        return even(self.shown_limit)


_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(|B|KiB|MiB|GiB|TiB)")

# An agent works in the root: what it writes there must not set these.
_USERS_OWN = ("allow_inside", "export")
_CHOICES = {
    "programs": ("deny", "snapshot"),
    "fail": ("closed", "open"),
    "supervisor": ("auto", "always", "never"),
    "on_dirty": ("protect", "read-only", "ignore"),
    "on_compact": ("clear", "keep"),
    "export": ("none", "otel"),
}


def user_file() -> Path:
    """The user's own configuration file."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".config"
    return home / "noclobber" / "config.toml"


def files(root: bytes | None) -> list[Path]:
    """Where configuration may stand, the least first."""
    found = [user_file()]
    if root is not None:
        top = Path(os.fsdecode(root))
        found += [top / "pyproject.toml", top / "noclobber.toml"]
    return found


def load(root: bytes | None) -> Config:
    """The configuration in force under `root`. Raises ConfigError."""
    config = Config()
    for path in files(root):
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(path, 0, error.strerror or str(error)) from None
        config = merge(config, path, text)
    return config


def merge(config: Config, path: Path, text: bytes) -> Config:
    """`config` with what one file sets. Raises ConfigError."""
    try:
        table: Any = tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(path, text.count(b"\n", 0, error.start) + 1, "not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        # "at end of document" names no line: it is the last one.
        line = int(found[1]) if found else len(text.splitlines())
        raise ConfigError(path, line, re.sub(r" \(at .*\)$", "", str(error))) from None
    if path.name == "pyproject.toml":
        tool = table.get("tool", {})
        table = tool.get("noclobber", {}) if isinstance(tool, Mapping) else {}
        if not isinstance(table, Mapping):
            raise ConfigError(path, _line(text, "noclobber"), "[tool.noclobber] is no table")
    known = {field.name: getattr(Config, field.name) for field in fields(Config)}
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise ConfigError(path, _line(text, key), f"unknown setting {key!r}")
        if key in _USERS_OWN and path != user_file():
            where = f"only the user's own file may set it: {user_file()}"
            raise ConfigError(path, _line(text, key), f"{key}: {where}")
        changes[key] = _checked(path, _line(text, key), key, value, known[key])
    return replace(config, **changes)


def _checked(path: Path, line: int, key: str, value: Any, default: Any) -> Any:
    if key == "allow":
        return tuple(_rule(path, line, each) for each in _list(path, line, value))
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        raise ConfigError(path, line, f"{key} is to be true or false")
    if isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ConfigError(path, line, f"{key} is to be a list of strings")
    if key == "shown_limit":
        return _limit(path, line, value)
    if key == "snapshot_size" and isinstance(value, str):
        if found := _SIZE.fullmatch(value):
            return int(float(found[1]) * _UNITS[found[2]])
        raise ConfigError(path, line, f'{key} is to be bytes, or such as "2GiB"')
    if isinstance(default, int):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise ConfigError(path, line, f"{key} is to be a whole number, 0 or more")
    if value not in _CHOICES[key]:
        choices = " or ".join(f'"{choice}"' for choice in _CHOICES[key])
        raise ConfigError(path, line, f"{key} is to be {choices}")
    return value


def _limit(path: Path, line: int, value: Any) -> int | str:
    if isinstance(value, str) and value in PRESETS:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= SHOWN_MOST:
        return value
    names = " or ".join(f'"{name}"' for name in PRESETS)
    why = f"shown_limit is to be a whole number from 1 to {SHOWN_MOST}, or {names}"
    raise ConfigError(path, line, why)


def _list(path: Path, line: int, value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise ConfigError(path, line, "allow is to be a list of tables: [[allow]]")


def _rule(path: Path, line: int, value: Any) -> Rule:
    """One [[allow]] table."""
    if isinstance(value, Mapping) and set(value) == {"paths", "reason"}:
        paths, reason = value["paths"], value["reason"]
        if (
            isinstance(paths, list)
            and all(isinstance(each, str) for each in paths)
            and isinstance(reason, str)
            and reason.strip()
        ):
            return Rule(tuple(paths), reason)
    raise ConfigError(path, line, "[[allow]] has paths, a list of globs, and a reason, a text")


def _line(text: bytes, key: str) -> int:
    """The line that sets a key, as far as can be told without its parser."""
    pattern = re.compile(
        rb"^[ \t]*[\"']?"
        + re.escape(key.encode())
        + rb"[\"']?[ \t]*[.=]|"
        + rb"^[ \t]*\[[^\]\n]*\b"
        + re.escape(key.encode())
        + rb"\b",
        re.M,
    )
    found = pattern.search(text)
    return text.count(b"\n", 0, found.start()) + 1 if found else 0


_DAY = 86_400_000_000_000  # ns
CHECK_EVERY = 1.0  # s between two looks at whether the files have changed


class Configs:
    """The configurations in force, read again when a file changes. A broken
    file is told of in `trouble`; what was good before it stays in force."""

    def __init__(self) -> None:
        self._good: dict[bytes | None, Config] = {}
        self._marks: dict[bytes | None, list[tuple[int, int] | None]] = {}
        self._checked: dict[bytes | None, float] = {}
        self._troubles: dict[bytes | None, str] = {}

    @property
    def trouble(self) -> str:
        """What is wrong, one sentence for each broken file; else empty."""
        return " ".join(sorted(set(self._troubles.values())))

    def since(self) -> int:
        """Sessions that were last heard of before that time (ns) are forgotten."""
        return time.time_ns() - self.of(None).retention_days * _DAY

    def of(self, root: bytes | None) -> Config:
        """The configuration in force under `root`."""
        now = time.monotonic()
        if now - self._checked.get(root, -CHECK_EVERY) >= CHECK_EVERY:
            self._checked[root] = now
            self._look(root)
        return self._good[root]

    def anew(self, root: bytes | None) -> Config:
        """The same, and no change of a file is missed, however new."""
        self._checked.pop(root, None)
        return self.of(root)

    def _look(self, root: bytes | None) -> None:
        marks = [_mark(path) for path in files(root)]
        if self._marks.get(root) == marks:
            return
        self._marks[root] = marks
        try:
            self._good[root] = load(root)
            self._troubles.pop(root, None)
        except ConfigError as error:
            before = self._good.setdefault(root, Config())
            kind = "the defaults are" if before == Config() else "what was set before is"
            self._troubles[root] = f"configuration: {error}; {kind} in force."


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino
