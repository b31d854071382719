"""The daemon as a process, talked to over its socket."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import struct
import time
from pathlib import Path

import pytest

from noclobber import places, wire
from noclobber.rule import Verdict
from noclobber.wire import C

ALLOW, DENY, SNAPSHOT = (verdict.value for verdict in Verdict)
TEXT = b"".join(b"line %d\n" % number for number in range(1, 1001))


@pytest.fixture
def file(running) -> Path:
    path = running.tree / "f"
    path.write_bytes(TEXT)
    return path


def receipts(running) -> list[dict]:
    done = running.cli("log", "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_nobody_looked_at_is_replaced_after_a_snapshot(running, file):
    assert running.talker().ask(file).verdict == SNAPSHOT
    (receipt,) = receipts(running)
    assert (receipt["verdict"], receipt["row"], receipt["seen_bytes"]) == ("snapshot", 11, 0)
    assert (running.state / "snapshots" / receipt["snapshot"]).read_bytes() == TEXT


@pytest.mark.parametrize("op", [C.NC_OP_TRUNCATE, C.NC_OP_DELETE])
def test_what_cannot_be_kept_is_refused_until_it_can(running, file, op):
    store = running.state / "snapshots"
    shutil.rmtree(store)
    store.write_text("in the way\n")
    talker = running.talker()
    answer = talker.ask(file, op)
    assert (answer.verdict, answer.row) == (C.NC_DENY, 0)
    assert str(store) in answer.text and str(file) in answer.text
    store.unlink()
    assert talker.ask(file, op).verdict == C.NC_SNAPSHOT
    first, second = receipts(running)
    assert (first["verdict"], first["snapshot"]) == ("deny", "") and str(store) in first["note"]
    assert (store / second["snapshot"]).read_bytes() == TEXT


def test_the_budget_is_kept_but_for_running_sessions(stopped):
    running, file = stopped, stopped.tree / "f"
    file.write_bytes(TEXT)
    config = running.home / "config" / "noclobber" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("snapshot_size = 30000\n")
    store = running.state / "snapshots"
    store.mkdir(parents=True)
    old = time.time() - 3600
    for number in range(8):
        (store / f"{number:064x}").write_bytes(b"x" * 10_000)
        os.utime(store / f"{number:064x}", (old + number, old + number))
    running.start()
    running.launch()
    assert running.talker().ask(file).verdict == C.NC_SNAPSHOT
    receipt = receipts(running)[0]
    until = time.monotonic() + 10.0
    while len(left := {path.name for path in store.iterdir() if path.is_file()}) > 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert left == {f"{6:064x}", f"{7:064x}", receipt["snapshot"]}
    found = json.loads(running.cli("status", "--json").stdout)["snapshots"]
    assert found["size"] == 20_000 + len(TEXT) and found["limit"] == 30_000
    assert "of 29.3 KiB" in running.cli("status").stdout


def test_a_part_read_by_another_process_is_refused_with_a_next_step(running, file):
    running.talker().read(file, (0, 103))
    answer = running.talker().ask(file)
    assert (answer.verdict, answer.row) == (DENY, 10)
    assert f"{file}" in answer.text and "103 bytes" in answer.text
    assert f"sed -n '15,1000p' {file}" in answer.text
    assert answer.text.endswith("\n") and answer.text.count("\n") == 1
    (receipt,) = receipts(running)
    assert receipt["verdict"] == "deny" and receipt["path"] == str(file)
    assert (receipt["seen_bytes"], receipt["total_bytes"]) == (103, len(TEXT))
    assert receipt["unseen"] == [
        {"start": 103, "end": len(TEXT), "first_line": 15, "last_line": 1000}
    ]


def test_two_halves_read_by_two_processes_make_a_whole(running, file):
    middle = len(TEXT) // 2
    running.talker().read(file, (0, middle))
    running.talker().read(file, (middle, len(TEXT)))
    assert (running.talker().ask(file).verdict, receipts(running)) == (ALLOW, [])


def test_a_changed_version_voids_what_was_read(running, file):
    running.talker().read(file)
    time.sleep(0.02)
    file.write_bytes(TEXT[::-1])
    assert running.talker().ask(file).verdict == DENY


def test_another_sessions_reading_is_nothing(running, file):
    running.launch("other")
    running.talker(session="other").read(file)
    running.talker().read(file, (0, 10))
    assert running.talker().ask(file).verdict == DENY


def test_a_transform_keeps_the_old_content(running, file):
    running.launch(command="d")
    running.talker().read(file, (0, 10))
    half = running.talker()
    half.read(file, (0, 200))
    assert half.ask(file).row == 8
    whole = running.talker()
    whole.read(file)
    assert whole.ask(file).verdict == ALLOW  # row 4: in grade *read* all is known now


def test_a_session_may_replace_what_it_wrote(running):
    own = running.tree / "own"
    running.talker().create(own, b"mine\n")
    assert (running.talker().ask(own).verdict, running.talker().ask(own).row) == (ALLOW, 3)


def test_what_somebody_else_changed_is_not_the_sessions(running):
    own = running.tree / "own"
    writer = running.talker()
    writer.create(own, b"mine\n")
    writer.read(own, (0, 1))
    time.sleep(0.02)
    own.write_bytes(b"theirs\n")
    assert running.talker().ask(own).verdict == DENY


def test_outside_of_the_roots_is_unprotected_for_programs(running, home):
    path = home / "elsewhere"
    path.write_bytes(TEXT)
    assert running.talker().ask(path).verdict == ALLOW


def test_reports_sent_before_the_question_are_known_to_it(running, file):
    """By another connection, in the same instant, a hundred times."""
    for number in range(100):
        path = running.tree / f"f{number}"
        path.write_bytes(TEXT)
        reader, writer = running.talker(), running.talker()
        reader.read(path)
        assert writer.ask(path).row == 4, number


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(4096),
        struct.pack("=IBBH", 8, 99, C.NC_READ, 0),
        struct.pack("=IBBH", C.NC_RECORD_MAX + 8, C.NC_VERSION, C.NC_SHOWN, 0),
        struct.pack("=IBBH", 16, C.NC_VERSION, C.NC_HELLO, 0) + bytes(8),
        struct.pack("=IBBH", 8, C.NC_VERSION, C.NC_ADOPT, 0),
        wire.record(C.NC_READ, wire.READ, 1, 2, 3, 4, 5, 1 << 31, 0),
        wire.record(C.NC_HELLO, wire.HELLO, 1, 0, 1, 1, 60000, 60000, 60000, 60000),
        wire.record(C.NC_QUESTION, wire.QUESTION, 1, 1, 0, 1, 0, 0),
    ],
)
def test_garbage_costs_its_connection_and_nothing_else(running, file, garbage):
    good = running.talker()
    end = places.connect(running.socket, 5)
    end.sendall(garbage)
    assert end.recv(1) == b""
    assert good.ask(file).verdict == SNAPSHOT
    assert "connection dropped" in (running.state / "daemon.log").read_text()


def test_garbage_after_a_hello_costs_the_connection(running, file):
    bad = running.talker()
    bad.say(b"\xff" * 64)
    assert bad.is_dropped()
    assert running.talker().ask(file).verdict == SNAPSHOT


def test_a_flood_of_descriptors_is_dropped_and_closed(running):
    bad = running.talker()
    before = len(descriptors(pid_of(running)))
    fds = [os.open("/dev/null", os.O_RDONLY)] * 10
    try:
        for _ in range(3):
            socket.send_fds(bad.end, [b"\0" * 4], fds)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert bad.is_dropped()
    running.talker()
    assert len(descriptors(pid_of(running))) <= before + 1


def descriptors(pid: int) -> list[str]:
    """What a process has open."""
    return [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]


def pid_of(running) -> int:
    return json.loads(running.cli("status", "--json").stdout)["pid"]


def test_an_adopted_descriptor_is_a_connection(running, file):
    carrier = running.talker()
    ours, theirs = socket.socketpair()
    record = struct.pack("=IBBH", 8, C.NC_VERSION, C.NC_ADOPT, 0)
    socket.send_fds(carrier.end, [record], [theirs.fileno()])
    theirs.close()
    adopted = running.talker()
    adopted.end.close()
    adopted.end = ours
    adopted.say(adopted.hello())
    assert adopted.ask(file).verdict == SNAPSHOT


def test_a_record_in_many_pieces_is_one_record(running, file):
    slow = running.talker()
    slow.end.close()
    slow.end = places.connect(running.socket, 5)
    for byte in slow.hello():
        slow.say(bytes([byte]))
    assert slow.ask(file).verdict == SNAPSHOT


def test_after_kill_and_restart_the_session_goes_on(running, file):
    running.talker().read(file, (0, 103))
    seen = running.tree / "seen"
    seen.write_bytes(TEXT)
    reader = running.talker()
    reader.read(seen)
    own = running.tree / "own"
    reader.create(own, b"mine\n")
    assert reader.ask(file).verdict == DENY
    time.sleep(0.2)  # let the journal be committed
    os.kill(pid_of(running), signal.SIGKILL)
    running.start()
    assert running.talker().ask(file).verdict == DENY
    assert running.talker().ask(seen).row == 4
    assert running.talker().ask(own).row == 3


def test_a_damaged_ledger_is_moved_aside_and_said_so(running, file):
    running.talker().read(file, (0, 103))
    running.cli("daemon", "stop")
    ledger = running.state / "ledger.db"
    raw = bytearray(ledger.read_bytes())
    raw[:4096] = os.urandom(4096)
    ledger.write_bytes(raw)
    running.start()
    status = json.loads(running.cli("status", "--json").stdout)
    assert any("ledger.db" in trouble for trouble in status["troubles"])
    assert [p for p in running.state.iterdir() if ".damaged-" in p.name]
    running.launch()
    assert running.talker().ask(file).verdict == SNAPSHOT


def test_a_second_daemon_is_not_started(running):
    first = pid_of(running)
    running.start()
    assert pid_of(running) == first


def test_stop_returns_when_it_is_gone(running):
    pid = pid_of(running)
    assert running.cli("daemon", "stop").returncode == 0
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
    assert running.cli("daemon", "stop").returncode == 0
    assert not running.socket.exists()


def test_sigterm_ends_it_with_everything_on_disk(running, file):
    running.talker().read(file)
    pid = pid_of(running)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while running.socket.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    running.start()
    assert running.talker().ask(file).row == 4


def test_the_daemon_keeps_nothing_of_who_started_it(stopped, tmp_path):
    held = (tmp_path / "held").open("w")
    env = stopped.env | {"NOCLOBBER_SESSION": "inside", "NOCLOBBER_ROOTS": "/x"}
    os.set_inheritable(held.fileno(), True)
    stopped.env.update(env)
    try:
        done = stopped.cli("daemon", "start", close_fds=False)
        assert done.returncode == 0, done.stderr
    finally:
        for name in ("NOCLOBBER_SESSION", "NOCLOBBER_ROOTS"):
            stopped.env.pop(name)
    pid = pid_of(stopped)
    assert str(tmp_path / "held") not in descriptors(pid)
    assert str(Path(f"/proc/{pid}/cwd").readlink()) == "/"
    environ = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"NOCLOBBER_" not in environ and b"LD_PRELOAD=" not in environ
    assert os.getsid(pid) != os.getsid(0)


def test_socket_and_state_are_the_users_alone(running):
    for path in (running.socket.parent, running.state):
        assert path.stat().st_mode & 0o777 == 0o700, path
    for path in (running.socket, *running.state.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_socket_path_longer_than_an_address(stopped):
    long = stopped.home / ("deep" * 40)
    long.mkdir(mode=0o700)
    stopped.env["XDG_RUNTIME_DIR"] = str(long)
    stopped.start()
    assert "accepts" in (stopped.state / "daemon.log").read_text()
    end = places.connect(long / "noclobber" / "daemon.sock", 5)
    end.close()


def test_a_broken_configuration_is_told_of_and_the_default_stays(running, file):
    running.talker().read(file, (0, 10))
    (running.tree / "noclobber.toml").write_text('programs = "deny"\nprograms = nonsense\n')
    answer = running.talker().ask(file)
    assert answer.verdict == DENY
    assert "noclobber.toml, line 2" in answer.text
    assert any(
        "noclobber.toml, line 2" in t
        for t in json.loads(running.cli("status", "--json").stdout)["troubles"]
    )


def test_a_receipt_with_an_odd_path_is_still_json(running):
    odd = Path(os.fsdecode(os.fsencode(running.tree) + b"/we\xffird\n\x1b[31m name"))
    odd.write_bytes(TEXT)
    running.talker().read(odd, (0, 10))
    answer = running.talker().ask(odd)
    assert answer.verdict == DENY
    assert answer.text.count("\n") == 1 and "\x1b" not in answer.text
    line = (running.state / "receipts.jsonl").read_bytes().splitlines()[0]
    assert os.fsencode(json.loads(line)["path"]) == os.fsencode(odd)


def test_a_cut_off_receipt_is_told_of_and_the_others_are_there(running, file):
    running.talker().read(file, (0, 10))
    running.talker().ask(file)
    running.cli("daemon", "stop")
    path = running.state / "receipts.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    running.start()
    running.talker().ask(file)
    done = running.cli("log", "--json")
    assert len(done.stdout.splitlines()) == 2
    assert "line 2" in done.stderr


def test_a_disk_that_takes_nothing_costs_no_rest_and_the_session_goes_on(running, file):
    running.talker().read(file, (0, 103))
    time.sleep(0.2)
    ledger = running.state / "ledger.db"
    lock = sqlite3.connect(ledger, timeout=0)
    lock.execute("BEGIN EXCLUSIVE")  # stands for a disk that takes no more
    try:
        for _ in range(3):
            assert running.talker().ask(file).verdict == DENY
        before = cpu(pid_of(running))
        time.sleep(1)
        assert cpu(pid_of(running)) - before < 0.5
    finally:
        lock.rollback()
        lock.close()


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_old_log_is_put_aside(stopped):
    stopped.state.mkdir(parents=True)
    log = stopped.state / "daemon.log"
    log.write_bytes(b"x" * (2 << 20))
    stopped.start()
    assert log.stat().st_size < 1000
    assert log.with_name("daemon.log.old").stat().st_size == 2 << 20
