"""The daemon: every session's reports come in here, and every question.

One thread and one selector. All that is readable is drained before a question
is answered, so what happened before it was asked is known; what was reported
is written to disk after the answer, when nothing else is to be done. Garbage
on a connection costs that connection, never the daemon.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import selectors
import socket
import struct
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from noclobber import agents, wire
from noclobber.guard import Guard
from noclobber.session import Speaker
from noclobber.wire import C, WireError, ffi

BUFFER = 256 << 10  # bytes taken in by one system call
BACKLOG = 1024
# s without a word before the journal is committed. A build's processes speak
# every other millisecond, and a commit for each costs more than what they say.
GRACE = 0.01
BREATH = 0.001  # s without a word before something is worked out that can wait
RETRY = 1.0  # s between two tries to commit on a full disk
LONGEST = 0.05  # s that a report may wait for its commit when others press
PAUSE = 0.05  # s
CATCH_UP = 0.5  # s for a pump to tell what it has forwarded
SEND_TIMEOUT = 2.0  # s for an answer that the other end does not take
SETTLING = 0.2  # s for supervisors to tell what they know
TICK = 3600.0  # s between two looks at what has become too old

_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_QUIET = int(socket.MSG_NOSIGNAL)  # an enumeration is slow to combine
_NOTHING_THERE = -errno.EAGAIN

_receive = C.nc_receive_piece
_QUESTION: int = C.NC_QUESTION
_ADOPT: int = C.NC_ADOPT
_TELL = wire.record(C.NC_SHOWN, wire.RECORD)
_WATCH: int = C.NC_WATCH
_SETTLE: int = C.NC_SETTLE
_ASKS = {
    C.NC_QUESTION, C.NC_REQUEST, C.NC_ADOPT, C.NC_BEGIN, C.NC_EXEC, C.NC_WHO, C.NC_HARNESS,
    C.NC_HANDED, C.NC_WATCH, C.NC_SETTLE,
}  # fmt: skip


def log(text: str) -> None:
    """One line in the daemon's log."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{moment} {text}", file=sys.stderr, flush=True)


@dataclass(slots=True, eq=False)
class Connection:
    """One process's stream: what is left of it, and the descriptors sent."""

    socket: socket.socket
    fd: int
    speaker: Speaker
    pending: bytes = b""
    descriptors: deque[int] = field(default_factory=deque)


class Daemon:
    """Serves `listener` until a person asks it to stop."""

    def __init__(self, listener: socket.socket, guard: Guard) -> None:
        self._listener = listener
        self._guard = guard
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._waiting: deque[tuple[Connection, int, bytes]] = deque()
        self._supervisors: set[Connection] = set()
        self._unsettled: set[Connection] = set()
        self._buffer = ffi.new("char[]", BUFFER)
        self._text = ffi.buffer(self._buffer)
        self._with_it = ffi.new("struct nc_received *")
        self._stopping = False
        self._waker, self._wakes = socket.socketpair()
        for end in (self._waker, self._wakes):
            end.setblocking(False)
        self._selector.register(self._wakes, selectors.EVENT_READ, self)
        self._selector.register(guard.host.aside, selectors.EVENT_READ, guard.host.aside)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)

    def serve(self) -> None:
        """The loop. Returns when it is to stop; the journal is committed."""
        tidied = last_commit = time.monotonic()
        while not self._stopping:
            dirty = self._guard.dirty
            if dirty and self._guard.failing:
                patience = RETRY
            else:
                patience = BREATH if self._guard.has_work else GRACE if dirty else TICK
            if not self._poll(patience):
                self._guard.commit()
                self._guard.work()
                last_commit = time.monotonic()
                if last_commit - tidied > TICK:
                    self._guard.tidy()
                    tidied = last_commit
                continue
            if self._waiting:
                # What was sent before the question is readable by now.
                self._poll(0)
                if self._supervisors:
                    self._settle()
                while self._waiting:
                    self._answer(*self._waiting.popleft())
            if dirty and not self._guard.failing and time.monotonic() - last_commit > LONGEST:
                self._guard.commit()
                last_commit = time.monotonic()
        self._guard.close()

    def stop(self) -> None:
        """Makes `serve` return; may be called from a signal's handler."""
        self._stopping = True
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"!")

    def close(self) -> None:
        """Closes every connection and the listener."""
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        for end in (self._listener, self._waker, self._wakes):
            end.close()

    def _settle(self) -> None:
        """Asks supervisors for what they saw: the processes that they speak
        for tell nothing themselves, and may have ended."""
        for connection in list(self._supervisors):
            try:
                self._send(connection, wire.record(_SETTLE, wire.RECORD))
                self._unsettled.add(connection)
            except OSError:
                self._drop(connection)
        until = time.monotonic() + SETTLING
        while self._unsettled and (left := until - time.monotonic()) > 0:
            self._poll(left)
        self._unsettled.clear()
        self._poll(0)  # what they said in others' names came before that

    def _poll(self, timeout: float) -> bool:
        """Takes in whatever is there. False where nothing was."""
        events = self._selector.select(timeout)
        if not events:
            return False
        for key, _ in events:
            if key.data is None:
                self._accept()
            elif isinstance(key.data, Connection):
                self._drain(key.data)
            elif key.data is self._guard.host.aside:
                self._guard.host.aside.deliver()
        return True

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log(f"accept: {error}")
                time.sleep(PAUSE)  # no descriptor is free: they do not come by spinning
                return
            self._join(end)

    def _join(self, end: socket.socket) -> None:
        """A new connection, and what it has said already."""
        end.setblocking(False)
        try:
            pid, uid = _peer(end)
        except OSError as error:
            log(f"a connection without credentials: {error}")
            end.close()
            return
        if uid not in (os.getuid(), 0):
            log(f"refused a connection of user {uid}, pid {pid}")
            end.close()
            return
        connection = Connection(end, end.fileno(), self._guard.speaker(pid))
        connection.speaker.catch_up = functools.partial(self._catch_up, connection)
        self._connections.add(connection)
        self._selector.register(end, selectors.EVENT_READ, connection)
        self._drain(connection)

    def _drain(self, connection: Connection) -> None:
        """Reads all that is there; drops the connection at its end."""
        with_it = self._with_it
        while True:
            # socket.recvmsg takes four times as long.
            count = _receive(connection.fd, self._buffer, BUFFER, with_it)
            if count <= 0:
                if count != _NOTHING_THERE:
                    self._drop(connection)
                return
            if with_it.count:
                connection.descriptors.extend(with_it.fds[0 : with_it.count])
            chunk = self._text[:count]
            if connection.pending:
                chunk = connection.pending + chunk
            try:
                if with_it.cut or len(connection.descriptors) > C.NC_RECEIVED_MAX:
                    raise WireError("more descriptors than any question has")
                self._take(connection, chunk)
            except WireError as error:
                log(f"pid {connection.speaker.pid}: {error}; connection dropped")
                self._drop(connection)
                return
            except Exception:
                log(f"pid {connection.speaker.pid}: reports lost\n{traceback.format_exc()}")
                self._drop(connection)
                return
            if count < BUFFER:
                return

    def _take(self, connection: Connection, chunk: bytes) -> None:
        found, end = wire.records(chunk, len(chunk))
        connection.pending = chunk[end:]
        if len(found) == 1 and found[0][0] == _QUESTION:  # the usual one
            self._waiting.append(
                (connection, _QUESTION, chunk[:end] if end < len(chunk) else chunk)
            )
            return
        asks = [r for r in found if r[0] in _ASKS]
        if len(asks) < len(found):
            self._guard.take(connection.speaker, chunk[:end], found)
        for kind, _, start, stop in asks:
            if kind == _ADOPT:
                self._adopt(connection)
            elif kind == _WATCH:
                self._supervisors.add(connection)
            elif kind == _SETTLE:
                self._unsettled.discard(connection)
            else:
                self._waiting.append((connection, kind, chunk[start:stop]))

    def _adopt(self, connection: Connection) -> None:
        if not connection.descriptors:
            raise WireError("an adoption without a descriptor")
        fd = connection.descriptors.popleft()
        try:
            end = socket.socket(fileno=fd)
            if end.family != socket.AF_UNIX or end.type != socket.SOCK_STREAM:
                raise OSError("not a stream of the Unix family")
        except OSError as error:
            raise WireError(f"the adopted descriptor: {error}") from None
        self._join(end)

    def _answer(self, connection: Connection, kind: int, record: bytes) -> None:
        if connection not in self._connections:
            return
        fds = list(connection.descriptors)
        connection.descriptors.clear()
        try:
            if kind == _QUESTION:
                self._send(connection, self._guard.question(connection.speaker, record, fds))
            elif kind == C.NC_BEGIN:
                self._guard.host.begin(connection.speaker, record, self._sender(connection))
            elif kind == C.NC_EXEC:
                done = self._sender(connection)
                self._guard.host.starts(connection.speaker, record, fds, done)
            elif kind in (C.NC_HARNESS, C.NC_HANDED):
                hooks = self._guard.hooks
                work = hooks.begin if kind == C.NC_HARNESS else hooks.go_on
                told = work(connection.speaker, record, fds)
                self._send(connection, told.record)
                for rest in told.later:
                    rest()
            elif kind == C.NC_WHO:
                self._send(connection, agents.answer(connection.speaker, record))
            else:
                reply = self._guard.request(connection.speaker, record, fds, self.stop)
                self._send(connection, reply)
        except (WireError, OSError) as error:
            log(f"pid {connection.speaker.pid}: {error}; connection dropped")
            self._drop(connection)
        except Exception:
            # A fault of ours: this question stays without an answer, which
            # the asking process takes for a refusal; all others go on.
            log(f"pid {connection.speaker.pid}: no answer\n{traceback.format_exc()}")
            self._drop(connection)
        finally:
            for fd in fds:
                os.close(fd)

    def _sender(self, connection: Connection) -> Callable[[bytes], None]:
        """Sends an answer, now or later; nothing where nobody waits any more."""

        def send(reply: bytes) -> None:
            if connection in self._connections:
                try:
                    self._send(connection, reply)
                except OSError:
                    self._drop(connection)

        return send

    def _catch_up(self, connection: Connection) -> None:
        """A pump sends what it holds when it falls silent; here it is asked to at
        once. One that is stopped is waited for in vain no second time."""
        speaker = connection.speaker
        if speaker.behind or connection not in self._connections:
            return
        speaker.behind = True
        try:
            self._send(connection, _TELL)
        except OSError:
            self._drop(connection)
        readable = select.poll()
        readable.register(connection.fd, select.POLLIN)
        until = time.monotonic() + CATCH_UP
        while speaker.behind and connection in self._connections:
            left = until - time.monotonic()
            if left <= 0 or not readable.poll(left * 1000):
                return
            self._drain(connection)

    def _send(self, connection: Connection, data: bytes) -> None:
        try:
            sent = connection.socket.send(data, _QUIET)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            connection.socket.settimeout(SEND_TIMEOUT)
            connection.socket.sendall(data[sent:], _QUIET)
            connection.socket.setblocking(False)

    def _drop(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._supervisors.discard(connection)
            self._unsettled.discard(connection)
            self._selector.unregister(connection.socket)
            connection.socket.close()
            for fd in connection.descriptors:
                os.close(fd)


def _peer(end: socket.socket) -> tuple[int, int]:
    """The pid and uid at the other end, by the kernel's word."""
    raw = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid
