"""Restoring: what is chosen, and what happens to files. No daemon runs."""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from noclobber import placing, putback, receipts, restore
from noclobber.cli.app import app
from noclobber.receipts import Receipt, Receipts
from noclobber.snapshots import Store

OLD = b"".join(b"old line %d\n" % number for number in range(1, 501))
MAIN = "from noclobber.cli import main; main()"
START = datetime(2026, 1, 31, 12, 0, 0, tzinfo=timezone.utc)
WHO = putback.Who("", "", "somebody", ("noclobber", "restore"))


def stamp(seconds: float) -> str:
    return receipts.timestamp(int((START + timedelta(seconds=seconds)).timestamp() * 1e9))


def told(where: str, seconds: float, session: str = "s", **changes: object) -> dict:
    """A receipt about content that was kept then."""
    given = {
        "id": f"id{seconds}", "time": stamp(seconds), "session": session, "path": where,
        "op": "truncate", "snapshot": f"id{seconds}", "total_bytes": 4, "reason": "why",
        "argv": ["prog"],
    }  # fmt: skip
    return given | changes


class State:
    """A store with receipts, and a tree beside it."""

    def __init__(self, running) -> None:
        self.running = running
        self.tree: Path = running.tree
        self.store: Path = running.state / "snapshots"
        self.receipts: Path = running.state / "receipts.jsonl"
        self.store.mkdir(parents=True)
        self.places: dict[str, Path] = {}  # of kept content, by the receipt's id
        self._count = 0

    def cli(self, *args: str) -> Result:
        """`noclobber ARGS`, within this process: a start of Python each would
        take the longest part of these tests."""
        before = Path.cwd()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        os.chdir(self.tree)
        try:
            return CliRunner().invoke(app, args, env=self.running.env, prog_name="noclobber")
        finally:
            os.chdir(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def process(self, *args: str, **options: object) -> subprocess.CompletedProcess[str]:
        """The same as a process of its own."""
        return self.running.cli(*args, **options)

    def keep(
        self,
        path: Path,
        content: bytes,
        session: str = "s",
        op: str = "truncate",
        mode: int = 0o644,
        given: dict | None = None,
    ) -> str:
        """As the daemon keeps: content, then the receipt. One a second."""
        self._count += 1
        ident = f"k{self._count}"
        was = self.running.home / "was"
        was.write_bytes(content)
        was.chmod(mode)
        fd = os.open(was, os.O_RDONLY)
        name = Store(self.store).keep(fd)
        attributes = placing.attributes_of(fd) | (given or {})
        os.close(fd)
        self.places[ident] = self.store / name
        log = Receipts(self.receipts)
        log.add(Receipt(
            time=stamp(self._count), session=session, command="c", pid=1, exe="/bin/x",
            argv=["sed", "-i", "s/a/b/", "f"], op=op, path=str(path), verdict="snapshot", row=6,
            grade="shown", seen_bytes=0, total_bytes=len(content), seen_lines=0, total_lines=0,
            unseen=[], reason="it read all", id=ident, snapshot=name, attributes=attributes,
        ))  # fmt: skip
        log.close()
        return ident

    def told(self) -> list[dict]:
        found = list(receipts.read(self.receipts))
        assert all(isinstance(each, dict) for each in found), found
        return found

    def names(self) -> list[str]:
        return sorted(each.name for each in self.tree.iterdir())

    def contents(self) -> list[bytes]:
        return [each.read_bytes() for each in self.store.iterdir()]

    def one(self, path: Path) -> restore.Snapshot:
        return restore.of(restore.snapshots(self.told()), str(path))[0]


@pytest.fixture
def state(stopped) -> State:
    return State(stopped)


@pytest.fixture
def file(state) -> Path:
    """A file that was replaced: OLD is kept."""
    path = state.tree / "f"
    path.write_bytes(b"new\n")
    state.keep(path, OLD)
    return path


# What is chosen.


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-01-31T12:00:00Z", START),
        ("2026-01-31T12:00:00.25Z", START + timedelta(seconds=0.25)),
        ("2026-01-31 13:00:00+01:00", START),
        ("2026-01-31T12:00:00.000001Z", START + timedelta(microseconds=1)),
    ],
)
def test_times_are_taken_as_receipts_and_people_write_them(text, wanted):
    assert restore.moment(text) == wanted


def test_a_time_without_a_zone_is_local_and_without_a_day_of_this_day():
    now = datetime(2026, 1, 31, 23, 30)
    assert restore.moment("9:05", now) == datetime(2026, 1, 31, 9, 5).astimezone()
    assert restore.moment("2026-01-31 09:05", now) == datetime(2026, 1, 31, 9, 5).astimezone()


@pytest.mark.parametrize("text", ["", "x", "25:00", "2026-13-01", "1", "yesterday"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError):
        restore.moment(text)


def test_the_newest_comes_first_and_of_one_moment_the_later_line():
    found = restore.snapshots([told("/f", 1), told("/f", 3), told("/f", 2), told("/f", 3, id="z")])
    assert [one.id for one in found] == ["z", "id3", "id2", "id1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"snapshot": ""},
        {"snapshot": "../../etc/passwd"},
        {"snapshot": ".."},
        {"path": "relative"},
        {"total_bytes": None},
        {"time": "never"},
    ],
)
def test_a_receipt_that_is_wrong_tells_of_no_snapshot(changes):
    assert restore.snapshots([told("/f", 1, **changes)]) == []


def test_the_newest_that_is_not_there_already_is_chosen():
    kept = restore.snapshots([told("/f", 1), told("/f", 2), told("/f", 3)])
    assert restore.newest_other(kept, lambda one: one.id == "id3").id == "id2"
    with pytest.raises(restore.NothingError, match="/f holds already"):
        restore.newest_other(kept, lambda one: True)


def test_a_session_goes_back_to_before_its_own_first_touch():
    kept = restore.snapshots(
        [told("/f", 1, "other"), told("/f", 2), told("/f", 3), told("/g", 4), told("/h", 5, "x")]
    )
    assert [(one.path, one.id) for one in restore.of_session(kept, "s")] == [
        ("/f", "id2"),
        ("/g", "id4"),
    ]
    with pytest.raises(restore.NothingError, match="session nobody"):
        restore.of_session(kept, "nobody")


steps = st.lists(
    st.tuples(st.sampled_from("fgh"), st.sampled_from("st"), st.integers(0, 5)), max_size=30
)


@given(steps, st.integers(0, 31))
def test_what_a_file_held_at_any_time_is_found_again(done, moment):
    """Every replacement keeps the old content: then `at` is a time machine."""
    present = dict.fromkeys("fgh", "-")
    history = [dict(present)]  # history[n]: what files held after n steps
    log = []
    for number, (name, session, content) in enumerate(done, 1):
        log.append(told(f"/{name}", number, session, reason=present[name]))
        present[name] = str(content)
        history.append(dict(present))
    moment = min(moment, len(done))
    when = START + timedelta(seconds=moment + 0.5)
    kept = restore.snapshots(log)
    touched = {name for name, session, _ in done if session == "s"}
    for name in touched:
        one = restore.at(restore.of(kept, f"/{name}"), when)
        assert (one.reason if one else present[name]) == history[moment][name]
    if touched:
        found = {one.path[1:]: one.reason for one in restore.of_session(kept, "s", when)}
        assert present | found == present | {n: history[moment][n] for n in touched}


# Lists.


def test_a_list_is_newest_first_and_json_has_one_object_a_line(state, file):
    state.keep(state.tree / "g", b"gone\n", session="other", op="delete")
    done = state.cli("restore", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["path"], one["size"]) for one in found] == [
        (str(state.tree / "g"), 5),
        (str(file), len(OLD)),
    ]
    assert set(found[0]) >= {"time", "session", "path", "size", "why", "id"}
    assert Path(found[1]["content"]).read_bytes() == OLD
    plain = state.cli("restore").stdout.splitlines()
    assert len(plain) == 2 and "k2" in plain[0] and "delete" in plain[0] and "\x1b" not in plain[0]
    assert file.read_bytes() == b"new\n"


def test_a_list_can_be_of_one_session_one_file_or_one_directory(state, file):
    state.keep(state.tree / "d" / "g", b"g", session="other")
    state.keep(state.tree / "dd", b"x", session="other")

    def ids(*args: str) -> list[str]:
        done = state.cli("restore", "--json", *args)
        assert done.exit_code == 0, done.stderr
        return [json.loads(line)["id"] for line in done.stdout.splitlines()]

    assert ids("--session", "other") == ["k3", "k2"]
    assert ids("--path", "d") == ["k2"]
    assert ids("--path", ".") == ["k3", "k2", "k1"]
    assert ids("--path", "f") == ids("f") == ids("--session", "s") == ["k1"]
    assert ids("--session", "nobody") == []
    listed = state.cli("restore", "--list", "--session", "s").stdout
    assert len(listed.splitlines()) == 1 and file.read_bytes() == b"new\n"


def test_what_the_store_has_let_go_is_not_listed(state, file):
    state.places["k1"].unlink()
    assert state.cli("restore", "--json").stdout == ""
    assert "Nothing to restore" in state.cli("restore").stdout


def test_a_list_before_there_is_any_state_is_empty(stopped):
    done = stopped.cli("restore", "--json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# One file.


def test_the_old_content_comes_back_and_the_present_one_is_kept(state, file):
    file.chmod(0o640)
    os.setxattr(file, "user.note", b"mine")
    before = file.stat()
    done = state.cli("restore", "f")
    assert done.exit_code == 0, done.stderr
    after = file.stat()
    assert file.read_bytes() == OLD and state.names() == ["f"]
    assert after.st_mode == before.st_mode and os.getxattr(file, "user.note") == b"mine"
    _, told = state.told()
    assert (told["op"], told["verdict"], told["path"]) == ("restore", "snapshot", str(file))
    assert told["session"] == "" and told["total_bytes"] == 4 and "k1" in told["reason"]
    assert (state.store / told["snapshot"]).read_bytes() == b"new\n"
    assert told["id"] in done.stdout


def test_a_restore_once_more_undoes_it_and_so_does_its_id(state, file):
    first = state.cli("restore", "f").stdout.split()[-1]
    assert state.cli("restore", "f").exit_code == 0
    assert file.read_bytes() == b"new\n"
    assert state.cli("restore", "f").exit_code == 0
    assert file.read_bytes() == OLD
    assert state.cli("restore", "--id", first).exit_code == 0
    assert file.read_bytes() == b"new\n"
    assert len(state.told()) == 5


def test_the_newest_that_differs_is_taken_and_others_by_their_id(state, file):
    state.keep(file, b"newer\n")
    state.keep(file, b"new\n")
    assert "would be replaced" in state.cli("restore", "--dry-run", "f").stdout
    assert file.read_bytes() == b"new\n" and len(state.told()) == 3
    assert state.cli("restore", "f").exit_code == 0
    assert file.read_bytes() == b"newer\n"
    assert state.cli("restore", "--id", "k1").exit_code == 0
    assert file.read_bytes() == OLD
    again = state.cli("restore", "--id", "k1")
    assert again.exit_code == 0 and "already" in again.stdout


def test_one_file_can_go_back_to_a_time(state, file):
    state.keep(file, b"newer\n")
    assert state.cli("restore", "f", "--until", stamp(0.5)).exit_code == 0
    assert file.read_bytes() == OLD


def test_there_may_be_nothing_to_restore(state, file):
    for args in (["g"], ["--id", "k9"], ["--session", "nobody"], ["f", "--until", stamp(9)]):
        done = state.cli("restore", *args)
        assert (done.exit_code, done.stdout) == (1, ""), args
        assert "Error: " in done.stderr
    file.write_bytes(OLD)
    done = state.cli("restore", "f")
    assert done.exit_code == 1 and "holds already" in done.stderr
    assert len(state.told()) == 1


@pytest.mark.parametrize(
    "args",
    [
        ["f", "--session", "s"],
        ["--id", "k1", "--session", "s"],
        ["--until", "12:00"],
        ["f", "--until", "soon"],
        ["--diff"],
        ["--no-such"],
        ["f", "g"],
    ],
)
def test_wrong_usage_is_told_apart(state, file, args):
    assert state.cli("restore", *args).exit_code == 2
    assert file.read_bytes() == b"new\n" and len(state.told()) == 1


def test_what_was_deleted_comes_back_with_the_mode_it_had(state, file):
    state.keep(file, OLD, op="delete", mode=0o4754)
    file.unlink()
    assert state.cli("restore", "f").exit_code == 0
    assert file.read_bytes() == OLD and file.stat().st_mode & 0o7777 == 0o4754
    assert file.stat().st_ino != state.places["k2"].stat().st_ino
    assert state.places["k2"].stat().st_mode & 0o7777 == 0o600
    told = state.told()[2]
    assert (told["op"], told["verdict"], told["snapshot"]) == ("restore", "allow", "")


def test_what_was_deleted_comes_back_with_its_extended_attributes(state, file):
    try:
        os.setxattr(file, "user.note", b"a\0b")
    except OSError:
        pytest.skip("no extended attributes here")
    fd = os.open(file, os.O_RDONLY)
    state.keep(file, OLD, op="delete", given=placing.attributes_of(fd))
    os.close(fd)
    file.unlink()
    assert state.cli("restore", "f").exit_code == 0
    assert os.getxattr(file, "user.note") == b"a\0b" and file.read_bytes() == OLD


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_what_was_deleted_goes_back_to_its_owner(state, file):
    state.keep(file, OLD, op="delete", given={"uid": 1234, "gid": 4321})
    file.unlink()
    assert state.cli("restore", "f").exit_code == 0
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321)


@pytest.mark.parametrize("name", [b"caf\xc3\xa9 x", b"odd\xff\xfe", b"two\nlines", b"x" * 255])
def test_any_name_that_a_file_can_have(state, name):
    path = state.tree / os.fsdecode(name)
    path.write_bytes(b"new")
    state.keep(path, OLD)
    done = state.cli("restore", path.name)
    assert done.exit_code == 0, done.stderr
    assert path.read_bytes() == OLD and state.names() == [os.fsdecode(name)]
    assert "\n" not in done.stdout[:-1]


def test_a_file_with_several_names_stays_one(state, file):
    other = state.tree / "other"
    os.link(file, other)
    file.chmod(0o751)
    inode = file.stat().st_ino
    assert state.cli("restore", "f").exit_code == 0
    assert other.read_bytes() == OLD and other.stat().st_ino == file.stat().st_ino == inode
    assert file.stat().st_mode & 0o7777 == 0o751
    assert state.cli("restore", "f").exit_code == 0
    assert other.read_bytes() == b"new\n"  # shorter again


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_the_owner_stays_where_that_may_be(state, file):
    os.chown(file, 1234, 4321)
    assert state.cli("restore", "f").exit_code == 0
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321) and file.read_bytes() == OLD


# Ways that are refused.


def test_a_directory_over_a_link_is_the_same_directory(state, file):
    (state.running.home / "way").symlink_to(state.tree)
    assert state.cli("restore", str(state.running.home / "way" / "f")).exit_code == 0
    assert file.read_bytes() == OLD


def test_a_link_in_the_files_place_is_refused(state, file):
    victim = state.running.home / "victim"
    victim.write_bytes(b"victim\n")
    file.unlink()
    file.symlink_to(victim)
    done = state.cli("restore", "f")
    assert done.exit_code == 1 and "symbolic link" in done.stderr
    assert victim.read_bytes() == b"victim\n" and file.is_symlink() and len(state.told()) == 1


@pytest.mark.parametrize("args", [["d/f"], ["--id", "k1"], ["--session", "s"]])
def test_a_link_in_a_directorys_place_is_refused(state, args):
    other = state.running.home / "elsewhere"
    other.mkdir()
    (other / "f").write_bytes(b"victim\n")
    state.keep(state.tree / "d" / "f", OLD)
    (state.tree / "d").symlink_to(other)
    done = state.cli("restore", *args)
    assert done.exit_code == 1 and "symbolic link" in done.stderr
    assert (other / "f").read_bytes() == b"victim\n" and len(list(other.iterdir())) == 1


def test_a_directory_that_is_gone_is_told_of_and_how_to_make_it(state):
    path = state.tree / "d" / "e" / "f"
    state.keep(path, OLD)
    done = state.cli("restore", "d/e/f")
    assert done.exit_code == 1 and f"mkdir -p {path.parent}" in done.stderr
    path.parent.mkdir(parents=True)
    assert state.cli("restore", "d/e/f").exit_code == 0
    assert path.read_bytes() == OLD


def test_what_is_no_file_now_is_refused(state):
    state.keep(state.tree / "d", OLD)
    (state.tree / "d").mkdir()
    os.mkfifo(state.tree / "p")
    state.keep(state.tree / "p", OLD)
    for name in ("d", "p"):
        done = state.cli("restore", name)
        assert done.exit_code == 1 and "no regular file" in done.stderr


def test_damaged_or_missing_content_is_named(state, file):
    kept = state.places["k1"]
    kept.write_bytes(OLD[:100])
    done = state.cli("restore", "f")
    assert done.exit_code == 1 and str(kept) in done.stderr and "100 bytes" in done.stderr
    kept.write_bytes(OLD.replace(b"o", b"0"))
    done = state.cli("restore", "f")
    assert done.exit_code == 1 and str(kept) in done.stderr and "not what its name" in done.stderr
    kept.unlink()
    done = state.cli("restore", "f")
    assert done.exit_code == 1 and str(kept) in done.stderr and "not there" in done.stderr
    assert file.read_bytes() == b"new\n" and len(state.told()) == 1


# Errors half way.


def limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_that_cannot_be_written_whole_is_as_it_was(state, file):
    """A limit on the size of files stands for a full disk."""
    done = state.process("restore", "f", preexec_fn=lambda: limit_files(len(OLD) // 2))
    assert done.returncode == 1 and str(file) in done.stderr, done.stderr
    assert file.read_bytes() == b"new\n" and state.names() == ["f"]
    assert len(state.told()) == 1 and len(state.contents()) == 1


def test_a_file_with_several_names_gets_its_old_content_back(state, file):
    os.link(file, state.tree / "other")
    done = state.process("restore", "f", preexec_fn=lambda: limit_files(len(OLD) - 1))
    assert done.returncode == 1 and str(file) in done.stderr, done.stderr
    assert file.read_bytes() == b"new\n" and file.stat().st_size == 4


ON_A_FULL_DISK = """
set -e
mount -t tmpfs -o size=64k full "$1"
cd "$1"
printf 'new\\n' > f
[ "$2" = alone ] || ln f other
head -c 100000 /dev/zero > fill 2>/dev/null || :
shift 2
status=0
"$@" >&2 || status=$?
ls -A
cat f
exit $status
"""


@pytest.mark.parametrize("names", ["alone", "two"])
def test_a_full_disk_costs_nothing(state, file, names):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("may not mount")
    words = ["unshare", "-m", "sh", "-c", ON_A_FULL_DISK, "sh", str(state.tree), names]
    words += [sys.executable, "-c", MAIN, "restore", "f"]
    done = subprocess.run(words, env=state.running.env, capture_output=True, text=True)
    assert done.returncode == 1 and "No space left" in done.stderr, done
    others = ["other"] if names == "two" else []
    assert done.stdout.split() == ["f", "fill", *others, "new"]


@pytest.mark.skipif(os.getuid() != 0, reason="runs as another user")
def test_a_directory_that_may_not_be_written_is_left_alone(state, file):
    """As another user, of whose state and store this is."""
    done = as_nobody(state)
    assert done.returncode == 1 and "Permission denied" in done.stderr, done.stderr
    assert file.read_bytes() == b"new\n" and state.names() == ["f"] and len(state.told()) == 1
    assert len(state.contents()) == 1


def as_nobody(state: State) -> subprocess.CompletedProcess[str]:
    """`putback` on the state's only snapshot, without root's power."""

    def drop() -> None:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)

    for place in (state.running.home, state.tree, state.running.home / "state"):
        place.chmod(0o755)
    for place in (state.running.state, state.store, *state.store.iterdir(), state.receipts):
        os.chown(place, 65534, 65534)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        drop()
        try:
            with putback.opened(state.store, state.one(state.tree / "f")) as found:
                putback.put(found, state.store, state.receipts, WHO)
            os._exit(0)
        except OSError as error:
            os.write(writing, str(error).encode())
            os._exit(1)
        finally:
            os._exit(2)
    os.close(writing)
    said = os.fdopen(reading, "rb").read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return subprocess.CompletedProcess([], status, "", said)


def test_who_writes_meanwhile_loses_nothing(state, file):
    with putback.opened(state.store, state.one(file)) as found:
        file.write_bytes(b"somebody else's\n")
        with pytest.raises(restore.RestoreError, match="changed by somebody else"):
            putback.put(found, state.store, state.receipts, WHO)
    assert file.read_bytes() == b"somebody else's\n" and state.names() == ["f"]
    assert len(state.told()) == 1


def test_who_creates_it_meanwhile_loses_nothing(state, file):
    file.unlink()
    with putback.opened(state.store, state.one(file)) as found:
        file.write_bytes(b"somebody else's\n")
        with pytest.raises(FileExistsError, match="f"):
            putback.put(found, state.store, state.receipts, WHO)
    assert file.read_bytes() == b"somebody else's\n" and state.names() == ["f"]


@pytest.fixture
def no_nameless(monkeypatch) -> Iterator[None]:
    """A kernel that does not know O_TMPFILE sees a directory opened for
    writing, and says so."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    yield


def test_a_file_system_without_nameless_files_will_do(state, file, no_nameless):
    for wanted in (b"new\n", OLD):  # replaced, then created
        with putback.opened(state.store, state.one(file)) as found:
            putback.put(found, state.store, state.receipts, WHO)
        assert state.names() == ["f"] and wanted in state.contents()
        file.unlink()
        state.receipts.write_text("".join(f"{json.dumps(r)}\n" for r in state.told()[:1]))


def test_nothing_is_left_there_after_an_error_either(state, file, no_nameless):
    with putback.opened(state.store, state.one(file)) as found:
        file.write_bytes(b"x")
        with pytest.raises(restore.RestoreError):
            putback.put(found, state.store, state.receipts, WHO)
    assert state.names() == ["f"]
    file.unlink()
    with putback.opened(state.store, state.one(file)) as found:
        file.write_bytes(b"y")
        with pytest.raises(FileExistsError):
            putback.put(found, state.store, state.receipts, WHO)
    assert state.names() == ["f"] and file.read_bytes() == b"y"


def test_filling_a_file_anew_makes_it_longer_and_shorter(tmp_path):
    for old, new in ((b"", b"x"), (b"long" * 1000, b"s"), (b"s", b"long" * 500_000), (b"x", b"")):
        (tmp_path / "a").write_bytes(new)
        (tmp_path / "b").write_bytes(old)
        with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("r+b") as target:
            placing.fill(source.fileno(), target.fileno())
        assert (tmp_path / "b").read_bytes() == new


def test_receipts_of_two_processes_are_not_mixed(state, file):
    """A restore appends while the daemon does."""
    code = (
        "import sys; from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from noclobber.receipts import Receipt, Receipts\n"
        "one = Receipt(*['x'] * 3, 1, 'x', ['y' * 300] * 40, *['x'] * 3, 1, 'x', *[1] * 4, [], 'x')"
        "\nlog = Receipts(Path(sys.argv[1]))\nprint('ready', flush=True)\n"
        "for _ in range(2000): log.add(one)\n"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-c", code, str(state.receipts)], stdout=subprocess.PIPE
    )
    assert daemon.stdout is not None and daemon.stdout.readline() == b"ready\n"
    for _ in range(50):
        with putback.opened(state.store, state.one(file)) as found:
            putback.put(found, state.store, state.receipts, WHO)
        file.write_bytes(b"new\n")
    assert daemon.wait(60) == 0
    daemon.stdout.close()
    assert sum(each["op"] == "restore" for each in state.told()) == 50
    assert len(state.told()) == 1 + 50 + 2000


# Differences.


@pytest.mark.parametrize(
    ("present", "kept"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"", b"a\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\r\nb\r\n", b"a\nb\r\nc\x0bd\x85\n"),
        (b"caf\xc3\xa9\n", b"caf\xe9\n"),
        (b"x\n" * 500, b"x\n" * 200 + b"y\n" + b"x\n" * 300),
    ],
)
def test_a_diff_leads_from_the_present_to_the_kept_content(state, present, kept):
    path = state.tree / "f"
    path.write_bytes(present)
    state.keep(path, kept)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "restore", "--diff", "f"],
        env=state.running.env, cwd=state.tree, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0 and path.read_bytes() == present and len(state.told()) == 1
    patched = subprocess.run(
        ["patch", "--binary", "-s", "-o", "-", str(path)], input=done.stdout, capture_output=True
    )
    assert patched.returncode == 0, patched
    assert patched.stdout == kept


def test_a_diff_of_what_is_no_text_says_so(state):
    path = state.tree / "f"
    path.write_bytes(b"text\n")
    state.keep(path, b"\x7fELF\0\0")
    assert "Binary file" in state.cli("restore", "--diff", "--id", "k1").stdout


def test_a_diff_on_a_terminal_cannot_steer_it(state, file):
    state.keep(file, b"\x1b]0;owned\x07\n")
    text = on_a_terminal(state, "restore", "--diff", "f")
    assert b"\x1b]0" not in text and b"\\x1b]0;owned\\x07" in text


def on_a_terminal(state: State, *args: str) -> bytes:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *args], env=state.running.env | {"TERM": "xterm"},
        cwd=state.tree, stdin=child, stdout=child, stderr=child,
    )  # fmt: skip
    os.close(child)
    text = b""
    while select.select([parent], [], [], 60)[0]:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        text += piece
    os.close(parent)
    assert process.wait(60) == 0, text
    return text


# A whole session.


def test_a_session_is_undone_file_by_file(state):
    a, b, c = (state.tree / name for name in "abc")
    for path in (a, b, c):
        path.write_bytes(b"present\n")
    state.keep(a, b"a0\n")
    state.keep(a, b"a1\n")
    state.keep(b, b"b0\n", op="delete")
    state.keep(c, b"c0\n", session="other")
    b.unlink()
    would = state.cli("restore", "--session", "s", "--dry-run")
    assert would.exit_code == 0 and len(would.stdout.splitlines()) == 2
    assert a.read_bytes() == b"present\n" and not b.exists()
    shown = state.cli("restore", "--session", "s", "--diff").stdout
    assert "+a0" in shown and "+b0" in shown and "a1" not in shown
    done = state.cli("restore", "--session", "s")
    assert done.exit_code == 0, done.stderr
    assert [p.read_bytes() for p in (a, b, c)] == [b"a0\n", b"b0\n", b"present\n"]
    assert b"present\n" in state.contents()
    again = state.cli("restore", "--session", "s")
    assert again.exit_code == 0 and again.stdout.count("already") == 2


def test_a_session_can_go_back_to_a_time(state):
    a, b = state.tree / "a", state.tree / "b"
    a.write_bytes(b"a3\n")
    b.write_bytes(b"b1\n")
    state.keep(a, b"a0\n")  # second 1
    state.keep(b, b"b0\n")  # second 2
    state.keep(a, b"a1\n")  # second 3
    state.keep(a, b"a2\n")  # second 4
    assert state.cli("restore", "--session", "s", "--until", stamp(2.5)).exit_code == 0
    assert (a.read_bytes(), b.read_bytes()) == (b"a1\n", b"b1\n")


def test_one_failure_does_not_stop_the_others(state):
    a, b = state.tree / "a", state.tree / "b"
    b.write_bytes(b"present\n")
    (state.tree / "a").mkdir()
    state.keep(a, b"a0\n")
    state.keep(b, b"b0\n")
    done = state.cli("restore", "--session", "s")
    assert done.exit_code == 1 and "1 of 2" in done.stderr and str(a) in done.stderr
    assert b.read_bytes() == b"b0\n"


def test_many_files_show_how_far_it_is_on_a_terminal_only(state):
    for number in range(25):
        (state.tree / f"f{number}").write_bytes(b"present\n")
        state.keep(state.tree / f"f{number}", b"kept\n")
    assert b"restoring" in on_a_terminal(state, "restore", "--session", "s")
    assert {(state.tree / f"f{n}").read_bytes() for n in range(25)} == {b"kept\n"}
    quiet = state.cli("restore", "--session", "s")
    assert "restoring" not in quiet.stderr + quiet.stdout
