"""Receipts sent to a collector: a small one, on loopback."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from noclobber import chain, export
from noclobber.rule import Verdict

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
)

TEXT = b"".join(b"line %d\n" % number for number in range(1, 1001))
WAIT = 20.0  # s


class Collector:
    """Takes OTLP over HTTP, in protobuf."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ExportLogsServiceRequest]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                found = ExportLogsServiceRequest.FromString(body)
                collector.requests.append((self.path, found))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def records(self) -> list[dict]:
        """What came, oldest first: the attributes, and the rest by its name."""
        return [
            {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in one.attributes}
            | {"body": one.body.string_value, "severity": one.severity_text}
            | {"time": one.time_unix_nano, "event": one.event_name}
            for _, request in list(self.requests)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for one in scope.log_records
        ]

    def resource(self) -> dict[str, str]:
        (found, *_) = self.requests[0][1].resource_logs
        return {a.key: a.value.string_value for a in found.resource.attributes}

    def wait_for(self, count: int) -> list[dict]:
        until = time.monotonic() + WAIT
        while len(self.records()) < count and time.monotonic() < until:
            time.sleep(0.02)
        return self.records()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


def exporting(stopped, address: str):
    """The daemon, told to export there."""
    path = stopped.home / "config" / "noclobber" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('export = "otel"\n')
    stopped.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_BLRP_SCHEDULE_DELAY": "50"}
    stopped.start()
    stopped.launch()
    return stopped


def refuse(running, name: str = "f") -> Path:
    path = running.tree / name
    path.write_bytes(TEXT)
    running.talker().read(path, (0, 103))
    assert running.talker().ask(path).verdict == Verdict.DENY.value
    return path


def troubles(running) -> list[str]:
    return json.loads(running.cli("status", "--json").stdout)["troubles"]


def test_a_refusal_is_told_with_its_place_in_the_chain(stopped, collector):
    running = exporting(stopped, collector.address)
    path = refuse(running)
    (found,) = collector.wait_for(1)
    line = (running.state / "receipts.jsonl").read_bytes().rstrip(b"\n")
    told = json.loads(line)
    assert found["noclobber.hash"] == chain.hash_of(line)
    assert (found["noclobber.path"], found["noclobber.verdict"]) == (str(path), "deny")
    assert (found["noclobber.seen_bytes"], found["noclobber.row"]) == (103, told["row"])
    assert (found["severity"], found["event"]) == ("WARN", "noclobber.receipt")
    assert found["body"] == told["reason"].strip()
    assert export._ns(told["time"]) == found["time"]
    assert "noclobber.argv" not in found and "noclobber.explain" not in found
    assert collector.requests[0][0] == "/v1/logs"
    assert collector.resource()["service.name"] == "noclobber"


def test_an_override_says_who_and_what_restore_writes_is_told_too(stopped, collector):
    stopped.env["OTEL_SERVICE_NAME"] = "fleet"
    running = exporting(stopped, collector.address)
    path = refuse(running)
    assert running.cli("allow", str(path), "--reason", "tidy").returncode == 0
    assert running.talker().ask(path).row == 7
    path.write_bytes(b"new\n")
    assert running.cli("restore", str(path)).returncode == 0
    _, allowed, restored = collector.wait_for(3)
    assert allowed["noclobber.override.reason"] == "tidy" and allowed["severity"] == "INFO"
    assert restored["noclobber.op"] == "restore"
    assert restored["noclobber.previous"] == allowed["noclobber.hash"]
    assert collector.resource()["service.name"] == "fleet"


def test_what_was_there_before_is_not_sent_and_the_last_one_is(stopped, collector):
    stopped.start()
    stopped.launch()
    refuse(stopped, "before")
    stopped.cli("daemon", "stop")
    running = exporting(stopped, collector.address)
    odd = os.fsdecode(b"we\xffird")
    refuse(running, odd)
    running.cli("daemon", "stop")
    (found,) = collector.wait_for(1)
    assert found["noclobber.path"] == f"{running.tree}/we\\xffird"


def unused_port() -> int:
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        return int(end.getsockname()[1])


def test_a_collector_that_is_gone_costs_nothing_but_a_line(stopped):
    running = exporting(stopped, f"http://127.0.0.1:{unused_port()}")
    for number in range(20):
        refuse(running, f"f{number}")
    said = running.state / "daemon.log"
    until = time.monotonic() + WAIT
    while "export: " not in said.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert said.read_text().count("export: ") == 1
    assert troubles(running) == []
    assert running.cli("daemon", "stop").returncode == 0


def test_a_collector_that_never_answers_does_not_keep_the_daemon(stopped):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        running = exporting(stopped, f"http://127.0.0.1:{deaf.getsockname()[1]}")
        path = refuse(running)
        deaf.settimeout(WAIT)
        with deaf.accept()[0]:  # it is being told, and waits
            pid = json.loads(running.cli("status", "--json").stdout)["pid"]
            assert running.talker().ask(path).verdict == Verdict.DENY.value
            assert running.cli("daemon", "stop").returncode == 0
            running.start()
            assert running.talker().ask(path).verdict == Verdict.DENY.value
            until = time.monotonic() + WAIT
            while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
                time.sleep(0.05)
            assert not Path(f"/proc/{pid}").exists()


def test_without_the_extra_it_is_said_and_all_goes_on(stopped):
    hollow = stopped.home / "hollow" / "opentelemetry"
    hollow.mkdir(parents=True)
    (hollow / "__init__.py").touch()
    stopped.env["PYTHONPATH"] = f"{hollow.parent}{os.pathsep}{stopped.env['PYTHONPATH']}"
    running = exporting(stopped, "http://127.0.0.1:1")
    refuse(running)
    (said,) = troubles(running)
    assert 'pip install "noclobber[otel]"' in said


def test_a_tree_cannot_have_receipts_sent(stopped, collector):
    (stopped.tree / "noclobber.toml").write_text('export = "otel"\n')
    stopped.start()
    stopped.launch()
    refuse(stopped)
    (said,) = troubles(stopped)
    assert "export: only the user's own file may set it" in said


def test_lines_are_whole_and_a_new_file_is_read_from_its_start(tmp_path):
    path = tmp_path / "r"
    assert list(export.lines(path, 0)) == []
    path.write_bytes(b"one\ntwo\nthr")
    assert list(export.lines(path, 0)) == [(b"one", 4), (b"two", 8)]
    assert list(export.lines(path, 8)) == []
    path.write_bytes(b"new\n")
    assert list(export.lines(path, 8)) == [(b"new", 4)]
