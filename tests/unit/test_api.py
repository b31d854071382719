"""The Python API, as a harness uses it that runs beside the guard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import noclobber
from noclobber import NoclobberError, Session, service
from noclobber.launcher import beside
from noclobber.wire import C

TEXT = b"".join(b"line %d\n" % number for number in range(1, 1001))


@pytest.fixture
def home_of(stopped, monkeypatch):
    """This process is a harness of the user whose daemon does not run yet."""
    for name in list(os.environ):
        if name.startswith(("NOCLOBBER_", "XDG_")):
            monkeypatch.delenv(name)
    for name, value in stopped.env.items():
        if name.startswith("XDG_") or name == "HOME":
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(stopped.tree)
    return stopped


@pytest.fixture
def tree(home_of) -> Path:
    home_of.start()
    return home_of.tree


@pytest.fixture
def file(tree) -> Path:
    path = tree / "f"
    path.write_bytes(TEXT)
    return path


def test_what_was_not_shown_may_not_be_replaced_and_the_verdict_says_what(file):
    with Session() as session:
        assert session.roots == [str(file.parent)]
        session.shown(file, 0, 103)
        found = session.may_replace(file)
    assert not found and not found.allowed
    assert (found.verdict, found.row, found.grade) == ("deny", 9, "shown")
    assert (found.seen_bytes, found.total_bytes) == (103, len(TEXT))
    assert found.unseen == (noclobber.Unseen(103, len(TEXT), 15, 1000),)
    assert f"sed -n '15,1000p' {file}" in found.message and found.reason


def test_paging_through_all_of_it_adds_up(file):
    session = Session()
    for first in range(1, 1001, 300):
        assert not session.may_replace(file)
        session.shown(file, lines=(first, first + 299))
    found = session.may_replace(str(file))
    assert found and (found.verdict, found.row) == ("allow", 4)
    assert (found.seen_bytes, found.unseen, found.message) == (len(TEXT), (), "")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pages=st.permutations(range(10)),
    size=st.integers(1, 9000),
    line=st.sampled_from([b"a word or two\n", b"0123456789abcdef" * 512]),
)
def test_pages_of_bytes_add_up_in_any_order(tree, pages, size, line):
    """They are cut anywhere, in lines as in one that is longer than a page."""
    path = tree / "paged"
    text = (line * (size // len(line) + 1))[:size]
    path.write_bytes(text)
    session = Session()
    page = -(-size // 10)
    for number in pages:
        session.shown(path, number * page, (number + 1) * page)
    found = session.may_replace(path)
    assert found and found.seen_bytes == size


def test_a_text_counts_for_the_file_that_holds_it(file):
    session = Session()
    lines = TEXT.decode().splitlines()
    session.shown_text("".join(f"{n:6}\t{line}\n" for n, line in enumerate(lines[:600], 1)))
    assert session.may_replace(file).seen_bytes == len("".join(f"{x}\n" for x in lines[:600]))
    session.shown_text(b"".join(b"line %d\n" % n for n in range(601, 1001)))
    assert session.may_replace(file)


def test_no_more_is_cut_from_what_a_harness_says_that_it_showed(tree):
    path = tree / "long"
    path.write_text("".join(f"line {number} of many\n" for number in range(5000)))
    session = Session()
    session.shown_text(path.read_bytes())
    assert session.may_replace(path)


def test_a_claim_is_held_against_the_bytes(file):
    session = Session()
    session.shown_text("line 1 and then some\nanother line\n" * 500)
    assert session.may_replace(file).seen_bytes < len("line 1\n") * 2


def test_what_changed_since_was_not_shown(file):
    session = Session()
    session.shown(file)
    assert session.may_replace(file)
    file.write_bytes(TEXT.replace(b"line 500\n", b"somebody else's\n"))
    found = session.may_replace(file)
    assert not found and [(u.first_line, u.last_line) for u in found.unseen] == [(500, 500)]
    assert "changed" in found.reason
    file.write_bytes(TEXT)
    os.utime(file, (1, 1))
    assert session.may_replace(file)


def test_large_files_go_in_pieces(tree):
    path = tree / "large"
    path.write_bytes(b"".join(b"%d\n" % (n * 7919) for n in range(300_000)))
    session = Session()
    session.shown(path)
    assert session.may_replace(path)


@pytest.mark.parametrize(
    "make",
    [lambda p: None, lambda p: p.touch(), lambda p: p.mkdir(), lambda p: os.mkfifo(p)],
)
def test_where_nothing_is_lost_it_is_allowed(tree, make):
    make(tree / "x")
    found = Session().may_replace(tree / "x")
    assert found and found.row == 1


def test_git_ignored_or_not_the_agents_own_text_is_judged(file, tree):
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    (tree / ".gitignore").write_text("f\n")
    assert not Session().may_replace(file)
    assert Session(root="/usr").may_replace("/tmp").row == 1


def test_in_the_read_only_tier_nothing_may_be_replaced_or_made(file, home_of):
    session = Session(session="s")
    session.shown(file)
    assert session.may_replace(file)
    home_of.launch("s", tier=C.NC_READ_ONLY)
    session.shown(file)  # it stays so
    for path in (file, file.parent / "new"):
        found = session.may_replace(path)
        assert not found and "read-only" in found.reason and found.message
    assert session.may_replace("/var/tmp/noclobber-nothing")


def test_deleting_it_first_makes_it_no_less_of_a_replacement(file, home_of):
    session = Session(session="s")
    session.shown(file, 0, 500)
    home_of.launch("s")  # what started these tests is no part of the writer's walk
    writer = home_of.talker("voiced")
    assert writer.ask(file, C.NC_OP_DELETE).verdict == C.NC_SNAPSHOT
    file.unlink()
    found = session.may_replace(file)
    assert not found and (found.seen_bytes, found.total_bytes) == (500, len(TEXT))
    session.shown_text(TEXT)
    assert session.may_replace(file)


def test_a_deletion_among_thousands_is_known_as_soon_as_it_is_asked_about(file):
    """What they were is worked out later than they were told of."""
    others = file.parent / "others"
    others.mkdir()
    for number in range(3000):
        (others / str(number)).write_bytes(TEXT)
    with Session() as session:
        session.shown(file, 0, 103)
        subprocess.run(["rm", "-r", others, file], env=session.environ(), check=True)
        found = session.may_replace(file)
    assert (found.verdict, found.seen_bytes, found.total_bytes) == ("deny", 103, len(TEXT))


def test_an_override_lets_it_through_and_asking_uses_none_up(file, home_of):
    session = Session()
    assert not session.may_replace(file)
    assert home_of.cli("allow", str(file), "--reason", "tidy up").returncode == 0
    for _ in range(2):
        found = session.may_replace(file)
        assert (found.allowed, found.row) == (True, 7) and "tidy up" in found.reason
    assert home_of.cli("log", "--json").stdout == ""


def test_an_odd_name_is_a_name(tree):
    path = Path(os.fsdecode(os.fsencode(tree) + b"/we\xffird\n name"))
    path.write_bytes(TEXT)
    session = Session()
    session.shown(path, 0, 500)
    assert session.may_replace(path).seen_bytes == 500
    link = tree / "link"
    link.symlink_to(path)
    assert session.may_replace(link).seen_bytes == 500


@pytest.mark.parametrize(
    "words",
    [{"start": -1}, {"start": 5, "end": 4}, {"lines": (0, 5)}, {"lines": (5, 4)},
     {"lines": (1, 2), "end": 3}],
)  # fmt: skip
def test_no_range_is_a_value_error(file, words):
    with pytest.raises(ValueError):
        Session().shown(file, **words)


def test_what_is_behind_the_end_counts_for_nothing(file):
    session = Session()
    session.shown(file, len(TEXT) - 10, len(TEXT) + 500)
    session.shown(file, len(TEXT) + 5)
    session.shown(file, lines=(2000, 3000))
    assert session.may_replace(file).seen_bytes == 10


def test_a_file_that_is_not_there_is_pythons_own_error(tree):
    with pytest.raises(FileNotFoundError):
        Session().shown(tree / "none")


def test_two_sessions_share_nothing_and_one_name_is_one_session(file):
    one, other = Session(session="one"), Session()
    one.shown(file)
    assert Session(session="one").may_replace(file) and not other.may_replace(file)
    assert len({Session().name for _ in range(10)}) == 10


def test_the_daemon_is_started_where_none_runs(home_of):
    (home_of.tree / "f").write_bytes(TEXT)
    session = Session()
    assert not session.may_replace(home_of.tree / "f")
    session.shown(home_of.tree / "f")
    pid = json.loads(home_of.cli("status", "--json").stdout)["pid"]
    os.kill(pid, 9)
    assert session.may_replace(home_of.tree / "f")  # it outlives a daemon, too


def test_a_daemon_that_cannot_be_started_is_one_clear_error(home_of):
    (home_of.home / "run" / "noclobber").write_text("in the way")
    with pytest.raises(NoclobberError, match="noclobber"):
        Session().may_replace(home_of.tree)
    assert issubclass(service.NotRunningError, NoclobberError)


def test_what_is_started_with_its_environment_is_judged(file, tree):
    with Session() as session:
        session.shown(file, lines=(1, 10))
        env = session.environ()
        assert env["NOCLOBBER_SESSION"] == session.name
        blind = subprocess.run(["bash", "-c", "echo x > f"], env=env, capture_output=True)
        assert blind.returncode != 0 and file.read_bytes() == TEXT
        assert b"this session was shown" in blind.stderr
        session.shown(file)
        done = subprocess.run(["bash", "-c", "echo x > f"], env=session.environ())
        assert done.returncode == 0 and file.read_bytes() == b"x\n"
        assert session.may_replace(file).row == 3  # it wrote that itself


def test_what_the_launcher_carries_below_it_was_shown(file, tree):
    session = Session()
    words = [str(beside("noclobber-exec")), "--", "cat", "f"]
    out = subprocess.run(words, env=session.environ(), capture_output=True, check=True)
    assert out.stdout == TEXT
    assert session.may_replace(file)


def test_a_roots_list_comes_apart_as_it_was_joined(monkeypatch):
    monkeypatch.setenv("NOCLOBBER_SESSION", "s")
    monkeypatch.setenv("NOCLOBBER_ROOTS", r"/a\:b:/c\\d:/e")
    assert Session().roots == ["/a:b", "/c\\d", "/e"]


def test_a_root_that_is_not_there_is_pythons_own_error():
    with pytest.raises(FileNotFoundError):
        Session(root="/nowhere/at/all")


def test_importing_the_package_loads_nothing():
    code = "import sys; n = len(sys.modules); import noclobber; print(len(sys.modules) - n)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 1
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        noclobber.nothing  # noqa: B018


def test_status_names_it_and_show_draws_it(file, home_of):
    session = Session(session="mine")
    session.shown(file, 0, 103)
    status = json.loads(home_of.cli("status", "--json").stdout)
    (found,) = status["sessions"]
    assert (found["session"], found["grade"]) == ("mine", "shown")
    shown = json.loads(home_of.cli("show", str(file), "--json").stdout)
    assert shown["shown"] == [[0, 103]] and shown["read"] == [[0, 103]]
