"""Sessions whose output is recorded: what was shown decides, and for whom."""

import os
import subprocess

import pytest

from noclobber.evidence import is_interactive
from noclobber.rule import Verdict
from noclobber.wire import C

ALLOW, DENY, SNAPSHOT = (verdict.value for verdict in Verdict)
TEXT = b"".join(b"line %d\n" % number for number in range(1, 1001))
SHELL = ("bash", "-c", "...")


@pytest.fixture
def attested(running):
    """The session "shown", whose commands print what we say they print."""
    running.launch("shown", "one", C.NC_ATTESTED, SHELL)
    return running


@pytest.fixture
def file(attested):
    path = attested.tree / "f"
    path.write_bytes(TEXT)
    return path


def print_(running, text, command="one", ended=True):
    running.launch("shown", command, C.NC_ATTESTED, SHELL)
    running.shown(text, "shown", command)
    if ended:
        running.launch("shown", command, C.NC_ENDED)


def talker(running, kind="direct", command="two"):
    running.launch("shown", command, C.NC_ATTESTED, SHELL)
    return running.talker(kind, session="shown", command=command)


def test_reading_is_not_seeing(attested, file):
    talker(attested).read(file)
    answer = talker(attested, "voiced").ask(file)
    assert (answer.verdict, answer.row) == (DENY, 9)
    assert "was shown 0 bytes" in answer.text


def test_what_was_printed_is_seen_whoever_read_it(attested, file):
    print_(attested, TEXT)
    assert talker(attested, "voiced").ask(file).row == 4


def test_a_command_knows_nothing_of_what_it_prints_itself(attested, file):
    writer = talker(attested, "voiced", "one")
    print_(attested, TEXT, "one", ended=False)
    answer = writer.ask(file)
    assert (answer.verdict, answer.row) == (DENY, 9)
    assert "this same command printed" in answer.text


def test_a_program_below_the_command_that_printed_may_go_by_it(attested, file):
    writer = talker(attested, "direct", "one")
    print_(attested, TEXT, "one", ended=False)
    assert writer.ask(file).row == 4


def test_another_commands_text_counts_while_it_still_runs(attested, file):
    print_(attested, TEXT, "slow", ended=False)
    assert talker(attested, "voiced").ask(file).row == 4


def test_a_view_needs_a_command_that_read_the_file(attested, file):
    print_(attested, TEXT[:40], "one")
    assert talker(attested).ask(file).row == 11
    other = attested.tree / "g"
    other.write_bytes(TEXT)
    talker(attested, "direct", "one").read(other)
    assert talker(attested).ask(other).row == 10


def test_one_line_is_no_view(attested, file):
    talker(attested, "direct", "one").read(file)
    print_(attested, b"f:500:line 500\n", "one")
    assert talker(attested).ask(file).row == 11


def test_an_older_version_that_was_printed_is_a_view(attested, file):
    talker(attested, "direct", "one").read(file)
    print_(attested, TEXT, "one")
    file.write_bytes(TEXT[::-1])
    answer = talker(attested).ask(file)
    assert (answer.verdict, answer.row) == (DENY, 10)
    assert "It was changed at" in answer.text


def test_a_driven_program_may_replace_what_was_viewed(attested, file):
    talker(attested, "direct", "one").read(file)
    print_(attested, TEXT[:400], "one")
    assert talker(attested, "driven").ask(file).verdict == SNAPSHOT


def test_git_stands_behind_a_viewed_file(attested, file):
    def git(*words):
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
        subprocess.run(command, cwd=attested.tree, env=env, check=True, capture_output=True)

    talker(attested, "direct", "one").read(file)
    print_(attested, TEXT[:400], "one")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "a")
    assert talker(attested).ask(file).verdict == ALLOW
    assert talker(attested, "voiced").ask(file).verdict == DENY


def test_what_git_ignores_is_not_protected_from_programs(attested):
    built = attested.tree / "build" / "out"
    built.parent.mkdir()
    built.write_bytes(TEXT)
    (attested.tree / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q"], cwd=attested.tree, check=True)
    answer = talker(attested).ask(built)
    assert (answer.row, answer.scope) == (2, os.fsencode(built.parent))
    assert talker(attested, "voiced").ask(built).row == 9


def test_who_asks_about_own_files_again_and_again_is_told_where_it_need_not(attested):
    built = attested.tree / "build"
    built.mkdir()
    (attested.tree / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q"], cwd=attested.tree, check=True)
    writer, scopes = talker(attested), []
    for number in range(20):
        writer.create(built / str(number), TEXT)
        scopes.append(writer.ask(built / str(number)).scope)
    assert scopes[0] == b"" and os.fsencode(built) in scopes


def test_the_configuration_leaves_out(attested, file):
    (attested.tree / "noclobber.toml").write_text('unprotected = ["f"]\n')
    assert talker(attested, "voiced").ask(file).row == 2


def test_a_copy_that_stands_keeps_the_old_bytes(attested, file):
    copy = attested.tree / "f.bak"
    cp = talker(attested)
    cp.read(file)
    cp.create(copy, TEXT)
    assert talker(attested, "voiced").ask(file).row == 5
    copy.write_bytes(TEXT[:-1])
    assert talker(attested, "voiced").ask(file).row == 9


def test_a_log_by_its_name_gets_a_snapshot_at_most(attested):
    log = attested.tree / "build.log"
    log.write_bytes(TEXT)
    assert talker(attested, "voiced").ask(log).verdict == SNAPSHOT


def test_a_part_of_the_lineage_is_a_part(attested, file):
    half = talker(attested)
    half.read(file, (0, 400))
    assert half.ask(file).row == 8


def test_a_shrink_is_judged_by_what_it_cuts(attested, file):
    print_(attested, TEXT[-400:])
    writer = talker(attested, "voiced")
    size = len(TEXT)
    assert writer.ask(file, C.NC_OP_SHRINK, size - 300, size).row == 4
    assert writer.ask(file, C.NC_OP_SHRINK, size - 500, size).verdict == DENY


def test_a_deleted_file_that_was_viewed_comes_back_when_it_is_created_blindly(attested, file):
    talker(attested, "direct", "one").read(file)
    print_(attested, TEXT[:400], "one")
    file.chmod(0o640)
    writer = talker(attested, "voiced")
    assert writer.ask(file, C.NC_OP_DELETE).verdict == SNAPSHOT
    file.unlink()
    file.touch()
    answer = writer.ask(file, C.NC_OP_CREATE)
    assert (answer.verdict, answer.row) == (DENY, 9)
    assert "Deleting it first" in answer.text
    assert file.read_bytes() == TEXT and file.stat().st_mode & 0o777 == 0o640


def test_a_deleted_file_that_nobody_viewed_may_be_created_anew(attested, file):
    writer = talker(attested, "voiced")
    assert writer.ask(file, C.NC_OP_DELETE).verdict == SNAPSHOT
    file.unlink()
    file.touch()
    assert writer.ask(file, C.NC_OP_CREATE).verdict == ALLOW
    assert file.read_bytes() == b""


def test_a_tombstone_outlives_the_daemon(attested, file):
    talker(attested, "direct", "one").read(file)
    print_(attested, TEXT[:400], "one")
    talker(attested, "voiced").ask(file, C.NC_OP_DELETE)
    file.unlink()
    page = attested.socket.parent / "tombs"
    assert any(page.read_bytes())
    attested.cli("daemon", "stop")
    attested.start()
    assert any(page.read_bytes())
    file.touch()
    assert talker(attested, "voiced").ask(file, C.NC_OP_CREATE).verdict == DENY
    assert not any(page.read_bytes())


@pytest.mark.parametrize(
    "argv, interactive",
    [
        (["bash"], True), (["-bash"], True), (["bash", "-i"], True), (["bash", "--norc"], True),
        (["bash", "-c", "x"], False), (["bash", "-lc", "x"], False), (["bash", "s.sh"], False),
        (["cat", "f"], False), (["python3"], False), ([], False),
    ],
)  # fmt: skip
def test_which_commands_are_told_what_to_do_as_they_go(argv, interactive):
    words = tuple(word.encode() for word in argv)
    assert is_interactive(words) == interactive
