"""Starts, finds and stops the daemon. One for each user, by a lock.

Started from within a session it must not carry the session with it: it would
judge itself. So it leaves behind descriptors, terminal, directory and
environment of whoever started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from noclobber import places, plainexec, wire
from noclobber.errors import NoclobberError
from noclobber.wire import C, WireError

START_TIMEOUT = 10.0  # s until a started daemon accepts
STOP_TIMEOUT = 10.0  # s until a stopped one is gone
LOG_LIMIT = 1 << 20  # bytes; a longer log is put aside at the next start
REPLY_TIMEOUT = 5.0  # s for the reply to a request
_READY = b"ready"
_POLL = 0.02  # s


class ServiceError(NoclobberError):
    """The daemon cannot be started, reached or stopped; says why and what to
    do next."""


class NotRunningError(ServiceError):
    """No daemon listens."""


class HungUpError(ServiceError):
    """The daemon was there, and ended or dropped the connection."""


def ask(request: dict[str, Any], fds: Iterable[int] = ()) -> dict[str, Any]:
    """The daemon's reply to a request. Raises NotRunningError, HungUpError,
    ServiceError."""
    path = places.socket_path()
    try:
        end = places.connect(path, REPLY_TIMEOUT)
    except OSError as error:
        raise NotRunningError(
            f"no daemon listens at {path} ({error.strerror}); start one: noclobber daemon start"
        ) from None
    with end:
        try:
            record = wire.record(C.NC_REQUEST, wire.RECORD, tail=json.dumps(request).encode())
            passed = list(fds)
            if passed:
                import socket

                socket.send_fds(end, [record], passed)
            else:
                end.sendall(record)
            buffer = b""
            while True:
                piece = end.recv(1 << 16)
                if not piece:
                    raise ConnectionResetError("it hung up")
                buffer += piece
                found, _ = wire.records(buffer, len(buffer))
                if found:
                    break
        except (OSError, WireError) as error:
            lost = isinstance(error, (ConnectionResetError, BrokenPipeError))
            raise (HungUpError if lost else ServiceError)(
                f"the daemon gives no reply ({error}); its log: {log_file()}"
            ) from None
    reply: dict[str, Any] = json.loads(buffer[wire.RECORD_SIZE : found[0][3]].rstrip(b"\0"))
    if "error" in reply:
        raise ServiceError(str(reply["error"]))
    return reply


def log_file() -> Path:
    """What the daemon has to say goes there."""
    return places.state_directory() / "daemon.log"


def start() -> bool:
    """Returns when a daemon accepts; False where one did before. Raises
    ServiceError, OSError."""
    path = places.socket_path()
    if _accepts(path):
        return False
    places.private(path.parent)
    places.private(places.state_directory())
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _detach(reading, writing)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    if said.startswith(_READY):
        return True
    # Another one may have been quicker.
    until = time.monotonic() + START_TIMEOUT
    while not said and time.monotonic() < until:
        if _accepts(path):
            return False
        time.sleep(_POLL)
    why = said.decode(errors="replace") or "it ended without a word"
    raise ServiceError(f"the daemon did not start: {why}; its log: {log_file()}")


def stop() -> bool:
    """Returns when no daemon is left; False where there was none. Raises
    ServiceError."""
    try:
        pid = int(ask({"do": "stop"})["pid"])
    except NotRunningError:
        return False
    until = time.monotonic() + STOP_TIMEOUT
    while time.monotonic() < until:
        lock = _lock(places.socket_path().parent / "daemon.lock")
        if lock is not None:
            os.close(lock)
            return True
        time.sleep(_POLL)
    raise ServiceError(f"the daemon, process {pid}, does not end; try: kill {pid}")


def _accepts(path: Path) -> bool:
    try:
        places.connect(path, REPLY_TIMEOUT).close()
    except OSError:
        return False
    return True


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock, None where somebody else does."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _detach(reading: int, writing: int) -> None:
    """In the first child: becomes nobody's, then the daemon. Never returns."""
    status = 1
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(reading)
        if _is_tainted():
            os.set_inheritable(writing, True)
            plainexec.execve(
                sys.executable,
                [sys.executable, "-c", _AFRESH, str(writing)],
                _clean_environment(),
            )
        status = run(writing)
    except BaseException as error:  # the caller may wait for a word
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        with contextlib.suppress(OSError):
            os.write(writing, f"{type(error).__name__}: {error}".encode()[:500])
    finally:
        os._exit(status)


_AFRESH = "import sys; from noclobber import service; sys.exit(service.run(int(sys.argv[1])))"


def _is_tainted() -> bool:
    """Whether this process belongs to a session, by its environment."""
    return "LD_PRELOAD" in os.environ or any(name.startswith("NOCLOBBER_") for name in os.environ)


def _clean_environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "DYLD_INSERT_LIBRARIES") and not name.startswith("NOCLOBBER_")
    }
    # The package may stand on a path that only this process knows.
    return {**kept, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def run(ready: int) -> int:
    """The daemon itself; says `ready` into that descriptor when it accepts.
    Returns its exit status."""
    from noclobber.daemon import BACKLOG, Daemon, log
    from noclobber.guard import Guard

    os.umask(0o077)
    os.chdir("/")
    path, state = places.socket_path(), places.state_directory()
    _give_up_descriptors(ready)
    lock = _lock(path.parent / "daemon.lock")
    if lock is None:
        return 0
    guard = Guard(state, path.parent)
    if guard.configs.of(None).export == "otel":
        from noclobber.export import Export

        guard.export = Export(guard.receipts.path, log)
        guard.export.start()
    for trouble in (guard.journal.trouble, guard.configs.trouble):
        if trouble:
            log(trouble)
    daemon = Daemon(places.listen(path, BACKLOG), guard)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: daemon.stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # of leases: snapshots.py
    # Ledgers grow by small objects that stay: do not look at them each time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    os.write(ready, _READY)
    os.close(ready)
    log(f"process {os.getpid()} accepts at {path}")
    try:
        daemon.serve()
    finally:
        path.unlink(missing_ok=True)
        daemon.close()
    log(f"process {os.getpid()} ends")
    os.close(lock)
    if guard.export:
        guard.export.close()  # the next daemon does not wait for it
    return 0


def _give_up_descriptors(kept: int) -> None:
    """Closes whatever was inherited; input from nowhere, output to the log."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    if log_file().exists() and log_file().stat().st_size > LOG_LIMIT:
        log_file().replace(log_file().with_suffix(".log.old"))
    out = os.open(log_file(), flags, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, out), (2, out)):
        os.dup2(source, target)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    top = 1 << 20 if limit == resource.RLIM_INFINITY else limit
    os.closerange(3, kept)
    os.closerange(kept + 1, top)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
