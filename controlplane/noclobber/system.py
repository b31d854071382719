"""What is asked of the running system about processes that report."""

from __future__ import annotations

from pathlib import Path

from noclobber import processes
from noclobber.ledger import Image
from noclobber.session import Session
from noclobber.walks import Ancestors, Chain


class System:
    """session.Live, from /proc."""

    def __init__(self) -> None:
        self._ancestors = Ancestors()

    def find_pid(self, peer: int, said: int) -> int:
        """The true pid of a process that calls itself `said` and whose
        connection `peer` made: itself, a child made for that alone, or the
        same seen from another pid namespace."""
        if peer == said:
            return peer
        for pid in (peer, _status(peer, "PPid")):
            if pid and _status(pid, "NSpid") == said:
                return pid
        return peer

    def find_other(self, peer: int, said: int) -> int:
        """The true pid of a process that `peer`, its supervisor, calls `said`:
        that very one, unless they live in a pid namespace of their own."""
        if _status(peer, "NSpid") == peer:
            return said
        for path in Path("/proc").glob("[0-9]*"):
            if _status(int(path.name), "NSpid") == said and _lives_with(path, peer):
                return int(path.name)
        return said

    def above(self, image: Image, session: Session) -> Chain:
        """The programs above a process that says hello."""
        return self._ancestors.of(image, session)

    def started(self, pid: int) -> float | None:
        """When a process began, as processes.started has it."""
        return processes.started(pid)


def _lives_with(path: Path, peer: int) -> bool:
    try:
        return (path / "ns/pid").readlink() == Path(f"/proc/{peer}/ns/pid").readlink()
    except OSError:
        return False


def _status(pid: int, field: str) -> int:
    """The last number of a line of /proc/PID/status, 0 where there is none."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[-1])
    except (OSError, ValueError, IndexError):
        pass
    return 0
