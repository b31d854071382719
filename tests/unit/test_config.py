"""Configuration: what is set, in which order, and errors with file and line."""

import os
import time
from pathlib import Path

import pytest

from noclobber import config, failmark
from noclobber.config import Config, ConfigError, Configs
from noclobber.failmark import FailMark


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "noclobber").mkdir(parents=True)
    (tmp_path / "root").mkdir()


def user(tmp_path, text):
    (tmp_path / "config" / "noclobber" / "config.toml").write_text(text)


def root(tmp_path) -> bytes:
    return os.fsencode(tmp_path / "root")


def test_without_files_the_defaults_are_in_force(tmp_path):
    assert config.load(root(tmp_path)) == Config()


def test_the_root_is_over_pyproject_and_that_is_over_the_user(tmp_path):
    user(tmp_path, 'programs = "snapshot"\nshown_limit = 1\nretention_days = 1\n')
    (tmp_path / "root" / "pyproject.toml").write_text(
        "[tool.other]\nx = 1\n[tool.noclobber]\nshown_limit = 2\nretention_days = 2\n"
    )
    (tmp_path / "root" / "noclobber.toml").write_text("retention_days = 3\n")
    found = config.load(root(tmp_path))
    assert (found.programs, found.shown_limit, found.retention_days) == ("snapshot", 2, 3)


def test_lists_are_tuples(tmp_path):
    user(tmp_path, 'unprotected = ["build/", "*.tmp"]\n')
    assert config.load(None).unprotected == ("build/", "*.tmp")


@pytest.mark.parametrize(
    "text, size",
    [("5", 5), ('"7"', 7), ('"2GiB"', 2 << 30), ('"1.5 MiB"', 3 << 19), ('"0"', 0)],
)
def test_a_size_is_bytes_or_text(tmp_path, text, size):
    user(tmp_path, f"snapshot_size = {text}\n")
    assert config.load(None).snapshot_size == size


@pytest.mark.parametrize(
    "text, line, why",
    [
        ("a = 1\n\nprograms = \n", 3, ""),
        ('programs = "deny"\nprograms = "deny"\n', 2, ""),
        ('unprotected = ["a"\n', 1, ""),
        ('\n# x\nprogams = "deny"\n', 3, "unknown setting 'progams'"),
        ('\nprograms = "never"\n', 2, 'programs is to be "deny" or "snapshot"'),
        ("shown_limit = -1\n", 1, "whole number"),
        ("shown_limit = true\n", 1, "whole number"),
        ("shown_limit = 0\n", 1, "from 1 to 16777216"),
        ('shown_limit = "cloude"\n', 1, 'or "claude"'),
        ('outputs = "*.log"\n', 1, "list of strings"),
        ("outputs = [1]\n", 1, "list of strings"),
        ("[programs]\nx = 1\n", 1, "programs is to be"),
        ('snapshot_size = "2 GB"\n', 1, 'such as "2GiB"'),
        ('snapshot_days = "2"\n', 1, "whole number"),
        ('\nallow = "*"\n', 2, "list of tables"),
        ('[[allow]]\npaths = ["a"]\n', 1, "has paths, a list of globs, and a reason"),
        ('[[allow]]\npaths = ["a"]\nreason = " "\n', 1, "and a reason"),
        ('[[allow]]\npaths = "a"\nreason = "x"\n', 1, "a list of globs"),
        ("allow_inside = 1\n", 1, "true or false"),
    ],
)
def test_an_error_names_the_file_and_the_line(tmp_path, text, line, why):
    user(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        config.load(None)
    assert error.value.line == line
    assert f"config.toml, line {line}: " in str(error.value) and why in str(error.value)


def test_what_may_always_be_replaced_is_a_table_with_a_reason(tmp_path):
    (tmp_path / "root" / "noclobber.toml").write_text(
        '[[allow]]\npaths = ["a", "b/"]\nreason = "x"\n[[allow]]\npaths = ["c"]\nreason = "y"\n'
    )
    found = config.load(root(tmp_path)).allow
    assert found == (config.Rule(("a", "b/"), "x"), config.Rule(("c",), "y"))


def test_a_root_cannot_set_what_is_the_users_own(tmp_path):
    user(tmp_path, "allow_inside = true\n")
    assert config.load(root(tmp_path)).allow_inside
    (tmp_path / "root" / "noclobber.toml").write_text("\nallow_inside = true\n")
    with pytest.raises(ConfigError, match=r"noclobber\.toml, line 2: .*only the user's own"):
        config.load(root(tmp_path))


def test_what_is_not_utf_8_is_an_error_with_a_line(tmp_path):
    path = tmp_path / "config" / "noclobber" / "config.toml"
    path.write_bytes(b"# a\n# \xff\n")
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        config.load(None)


def test_an_unreadable_file_is_an_error(tmp_path):
    (tmp_path / "root" / "noclobber.toml").mkdir()
    with pytest.raises(ConfigError, match=r"noclobber\.toml: "):
        config.load(root(tmp_path))


def edit(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(time.time_ns(), time.time_ns()))


def test_a_file_that_breaks_leaves_what_was_good_in_force(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CHECK_EVERY", 0.0)
    path, configs = tmp_path / "root" / "noclobber.toml", Configs()
    edit(path, "shown_limit = 5\n")
    assert configs.of(root(tmp_path)).shown_limit == 5 and configs.trouble == ""
    edit(path, "shown_limit = five\n")
    assert configs.of(root(tmp_path)).shown_limit == 5
    assert "noclobber.toml, line 1" in configs.trouble and "before is in force" in configs.trouble
    edit(path, "shown_limit = 6\n")
    assert configs.of(root(tmp_path)).shown_limit == 6 and configs.trouble == ""


def test_a_file_that_was_never_good_leaves_the_defaults(tmp_path):
    (tmp_path / "root" / "noclobber.toml").write_text("=\n")
    configs = Configs()
    assert configs.of(root(tmp_path)) == Config()
    assert "the defaults are in force" in configs.trouble


def test_a_harness_names_its_cut(tmp_path):
    user(tmp_path, 'shown_limit = "claude"\n')
    assert config.load(None).shown == config.PRESETS["claude"]
    assert Config().shown == config.Shown(30_000, (15_000, 15_000), 30_000)


def test_a_launcher_without_a_daemon_sees_what_the_user_chose(tmp_path):
    FailMark(tmp_path, Configs()).show()
    assert not (tmp_path / failmark.NAME).exists()
    user(tmp_path, 'fail = "open"\n')
    FailMark(tmp_path, Configs()).show()
    assert (tmp_path / failmark.NAME).exists()
    user(tmp_path, 'fail = "closed"\n')
    FailMark(tmp_path, Configs()).show()
    assert not (tmp_path / failmark.NAME).exists()
