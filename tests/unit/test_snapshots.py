"""The store of old content: what it holds, and what a crash leaves of it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber.snapshots import Store, hash_of, named_by_hash

DAY = 86_400_000_000_000


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "snapshots")


def keep(store: Store, text: bytes, age: int = 0) -> str:
    """Keeps a file of that content, as if `age` ns ago."""
    path = store.place.parent / "file"
    path.write_bytes(text)
    fd = os.open(path, os.O_PATH)
    try:
        name = store.keep(fd)
    finally:
        os.close(fd)
    then = time.time_ns() - age
    os.utime(store.place / name, ns=(then, then))
    return name


def names(store: Store) -> set[str]:
    return {path.name for path in store.place.iterdir()}


def content(store: Store, name: str) -> bytes:
    with os.fdopen(store.open(name), "rb") as file:
        return file.read()


def test_content_is_named_by_its_hash_and_kept_once(store):
    name = keep(store, b"one\n")
    assert name == hashlib.blake2b(b"one\n", digest_size=32).hexdigest() and named_by_hash(name)
    assert keep(store, b"one\n") == name and names(store) == {name}
    assert content(store, name) == b"one\n"
    assert store.held().size == 4 and store.held().files == 1


def test_the_store_is_the_users_alone(store):
    name = keep(store, b"secret\n")
    assert store.place.stat().st_mode & 0o777 == 0o700
    assert (store.place / name).stat().st_mode & 0o777 == 0o600


def test_kept_once_more_it_is_young_again(store):
    name = keep(store, b"x", age=30 * DAY)
    assert keep(store, b"x") == name
    store.evict(1 << 30, time.time_ns() - DAY, time.time_ns() + DAY)
    assert names(store) == {name}


def test_content_that_a_crash_cut_off_is_replaced(store):
    name = keep(store, b"whole\n")
    os.truncate(store.place / name, 2)
    assert keep(store, b"whole\n") == name and content(store, name) == b"whole\n"


def test_a_link_keeps_the_inode_and_only_of_a_file_at_rest(store, tmp_path):
    path = tmp_path / "big"
    path.write_bytes(b"big\n")
    with path.open("ab") as writer:
        assert not store.link(writer.fileno(), "id")
    fd = os.open(path, os.O_PATH)
    inode = path.stat().st_ino
    assert store.link(fd, "id")
    os.close(fd)
    path.unlink()
    assert (store.place / "id").stat().st_ino == inode and content(store, "id") == b"big\n"
    assert not named_by_hash("id")


def test_a_file_system_of_its_own_makes_no_links(store, tmp_path):
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs another file system")
    path = shm / f"nc-link-{os.getpid()}"
    path.write_bytes(b"far\n")
    try:
        fd = os.open(path, os.O_PATH)
        assert not store.link(fd, "id") and content(store, store.keep(fd)) == b"far\n"
        os.close(fd)
    finally:
        path.unlink()


# The budget.


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=12),
    limit=st.integers(0, 300),
    spared=st.integers(0, 12),
)
def test_the_oldest_go_first_and_only_as_many_as_must(tmp_path_factory, sizes, limit, spared):
    store = Store(tmp_path_factory.mktemp("store") / "snapshots")
    kept = [
        keep(store, bytes([65 + at]) * size, age=(len(sizes) - at) * DAY)
        for at, size in enumerate(sizes)
    ]
    # of the youngest `spared` the session runs
    since = time.time_ns() - spared * DAY - DAY // 2
    store.evict(limit, 0, since)
    left = names(store)
    gone = len(sizes) - len(left)
    assert left == set(kept[gone:])
    assert gone <= max(0, len(sizes) - spared)
    total = sum(sizes[gone:])
    assert total <= limit or gone == max(0, len(sizes) - spared)
    assert not gone or total + sizes[gone - 1] > limit


def test_what_is_too_old_goes_but_for_a_running_sessions(store):
    old, older = keep(store, b"old", 15 * DAY), keep(store, b"older", 40 * DAY)
    store.evict(1 << 30, time.time_ns() - 14 * DAY, time.time_ns() - 20 * DAY)
    assert names(store) == {old} and older not in names(store)


def test_nothing_goes_while_somebody_keeps(store):
    keep(store, b"x", age=40 * DAY)
    folder = os.open(store.place, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_SH)
    with pytest.raises(BlockingIOError):
        store.evict(0, time.time_ns(), time.time_ns())
    os.close(folder)
    store.evict(0, time.time_ns(), time.time_ns())
    assert names(store) == set()


# Errors, and crashes.


@pytest.fixture
def no_nameless(monkeypatch):
    """A kernel without O_TMPFILE sees a directory opened for writing."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)


def test_a_file_system_without_nameless_files_will_do(store, no_nameless):
    name = keep(store, b"x")
    assert keep(store, b"x") == name and names(store) == {name}


def test_what_a_killed_keeper_left_is_swept(store):
    name = keep(store, b"x")
    (store.place / ".0123").write_bytes(b"half")
    assert store.held().files == 1
    store.evict(1 << 30, 0, time.time_ns())
    assert names(store) == {name}


LIMITED = """
import os, resource, sys
from pathlib import Path
from noclobber.snapshots import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
try:
    Store(Path(sys.argv[1])).keep(os.open(sys.argv[2], os.O_RDONLY))
except OSError as error:
    sys.exit(str(error))
"""


def test_a_full_disk_leaves_nothing_half_and_names_the_store(store, tmp_path):
    """A limit on the size of files stands for it."""
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10_000)
    words = [sys.executable, "-c", LIMITED, str(store.place), str(path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and str(store.place) in done.stderr, done
    assert names(store) == set()


KEEPS = """
import os, sys
from pathlib import Path
from noclobber.snapshots import Store
if sys.argv[3] == "named":
    os.O_TMPFILE = os.O_DIRECTORY
store = Store(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100_000):
    path = Path(sys.argv[2])
    path.write_bytes(b"%d\\n" % number * 50_000)
    store.keep(os.open(path, os.O_RDONLY))
"""


@pytest.mark.parametrize("how", ["nameless", "named"])
@pytest.mark.parametrize("round_", range(4))
def test_killed_at_any_moment_every_name_tells_the_truth(store, tmp_path, how, round_):
    words = [sys.executable, "-c", KEEPS, str(store.place), str(tmp_path / "f"), how]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline()
    time.sleep(0.02 + 0.013 * round_)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for path in store.place.iterdir():
        if not path.name.startswith("."):
            with path.open("rb") as file:
                assert hash_of(file.fileno()) == path.name
    assert content(store, keep(store, b"after\n")) == b"after\n"
