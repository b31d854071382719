"""Receipts as OpenTelemetry log records, for who watches over many machines.

Off unless the user's own configuration says `export = "otel"` and the extra
noclobber[otel] is installed; where to, the standard OTEL_* variables of the
daemon's environment say. A thread follows the file of receipts, so no verdict
waits, and what `noclobber restore` writes is told, too. Where no collector
answers, the SDK drops what its queue cannot hold: the file has it all. What a
command line said is not sent.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noclobber import __version__, chain

if TYPE_CHECKING:
    from opentelemetry._logs import Logger

POLL = 2.0  # s between two looks at what others have written
CLOSE_TIMEOUT = 2.0  # s for the last records to be sent
QUIET = 60.0  # s between two lines of the log about a collector that is gone

MISSING = (
    'export = "otel" needs what is not installed: pip install "noclobber[otel]"; '
    "no receipt is exported."
)
_SENT = (
    "id", "session", "command", "pid", "exe", "op", "path", "verdict", "row", "grade",
    "seen_bytes", "total_bytes", "seen_lines", "total_lines", "kind", "snapshot", "previous",
)  # fmt: skip


class Export:
    """Sends receipts while the daemon runs. `trouble` says why it does not."""

    def __init__(self, receipts: Path, log: Callable[[str], None]) -> None:
        self.trouble = ""
        self._path = receipts
        self._log = log
        self._over = threading.Event()
        self._written = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """From now on each new receipt is sent."""
        if not _is_installed():
            self.trouble = MISSING
            return
        size = self._path.stat().st_size if self._path.exists() else 0
        self._thread = threading.Thread(target=self._run, args=(size,), name="export", daemon=True)
        self._thread.start()

    def written(self) -> None:
        """There is a new receipt."""
        self._written.set()

    def close(self) -> None:
        """Returns when all of them are sent, or CLOSE_TIMEOUT is over."""
        self._over.set()
        self._written.set()
        if self._thread:
            self._thread.join(CLOSE_TIMEOUT)

    def _run(self, at: int) -> None:
        try:
            self._follow(at)
        except Exception as error:  # of a library that is none of the guard's business
            self.trouble = f"receipts are not exported any more: {error!r}"
            self._log(self.trouble)

    def _follow(self, at: int) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.resources import Resource

        library = logging.getLogger("opentelemetry")
        library.addHandler(_Seldom(self._log))
        library.propagate = False
        resource = Resource.create({} if _is_named() else {"service.name": "noclobber"})
        provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        logger = provider.get_logger("noclobber", __version__)
        over = False
        while not over:
            self._written.wait(POLL)
            self._written.clear()
            over = self._over.is_set()
            at = self._send(logger, at)
        provider.shutdown()

    def _send(self, logger: Logger, at: int) -> int:
        """Sends what stands behind `at`; returns where it ends."""
        for line, end in lines(self._path, at):
            at = end
            found = chain.parse(line)
            if found is not None:
                logger.emit(**record(found, chain.hash_of(line)))
        return at


def lines(path: Path, at: int) -> Iterator[tuple[bytes, int]]:
    """The whole lines behind `at`, and where each ends. A file that is shorter
    was begun anew."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        if os.fstat(file.fileno()).st_size < at:
            at = 0
        file.seek(at)
        for line in file:
            if not line.endswith(b"\n"):
                return
            at += len(line)
            yield line[:-1], at


def record(found: dict[str, Any], digest: str) -> dict[str, Any]:
    """What is sent of a receipt: the arguments of Logger.emit. `noclobber.hash`
    is its own in the chain, so a file that was tampered with is found out."""
    from opentelemetry._logs import SeverityNumber

    denied = found.get("verdict") == "deny"
    sent: dict[str, Any] = {key: found[key] for key in _SENT if found.get(key) not in (None, "")}
    sent |= {f"override.{key}": value for key, value in (found.get("override") or {}).items()}
    attributes = {f"noclobber.{key}": _plain(value) for key, value in sent.items()}
    return {
        "timestamp": _ns(str(found.get("time", ""))),
        "observed_timestamp": time.time_ns(),
        "severity_number": SeverityNumber.WARN if denied else SeverityNumber.INFO,
        "severity_text": "WARN" if denied else "INFO",
        "body": _plain(str(found.get("reason", "")).strip()),
        "attributes": attributes | {"noclobber.hash": digest},
        "event_name": "noclobber.receipt",
    }


def _plain(value: Any) -> Any:
    """Text that is UTF-8: a path may not be."""
    return os.fsencode(value).decode(errors="backslashreplace") if isinstance(value, str) else value


def _ns(text: str) -> int:
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return time.time_ns()
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _is_installed() -> bool:
    try:
        return all(map(find_spec, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")))
    except ModuleNotFoundError:  # of the package above
        return False


def _is_named() -> bool:
    named = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return "OTEL_SERVICE_NAME" in os.environ or "service.name=" in named


class _Seldom(logging.Handler):
    """What the SDK has to say, now and then: a collector that is gone for weeks
    must not fill the log."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._line = log
        self._last = -QUIET

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._last >= QUIET:
            self._last = now
            self._line(f"export: {record.getMessage()}")
