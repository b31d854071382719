"""At a terminal a command has a terminal, and the person there notices nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from noclobber.wire import C

pytestmark = pytest.mark.usefixtures("listener")

WAIT = 20.0  # seconds
CHECK_MODES = "stty -a | tr -s ' \\n' ' '"


class Terminal:
    """A terminal with a program in it, and the person in front."""

    def __init__(self, command: list[str], cwd: str, env: dict[str, str]) -> None:
        self.output = b""
        self.read_up_to = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
                os.chdir(cwd)
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)

    def _more(self, end: float) -> bool:
        if not select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            part = os.read(self.fd, 1 << 16)
        except OSError:  # EIO: nobody has it open any more
            part = b""
        self.output += part
        return bool(part)

    def expect(self, pattern: bytes) -> re.Match[bytes]:
        """What comes next that matches. Raises AssertionError after WAIT s."""
        end = time.monotonic() + WAIT
        while not (found := re.compile(pattern).search(self.output, self.read_up_to)):
            assert self._more(end), f"no {pattern!r} in {self.output[self.read_up_to :]!r}"
        self.read_up_to = found.end()
        return found

    def type(self, text: bytes) -> None:
        os.write(self.fd, text)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.fd)

    def end(self) -> int:
        """Read to the end; the exit status as subprocess gives it."""
        end = time.monotonic() + WAIT
        while self._more(end):
            pass
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        raise AssertionError(f"it does not end after {self.output!r}")

    def close(self) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        os.close(self.fd)


Open = Callable[..., Terminal]


@pytest.fixture
def at(guard: Any) -> Iterator[Open]:
    """`at(WORD..., guarded=True)` runs a command in a terminal of its own."""
    made = []

    def run(*command: str, guarded: bool = True) -> Terminal:
        words = guard.command(*command) if guarded else list(command)
        env = {**guard.env, "TERM": "xterm-256color", "PS1": "> "}
        made.append(Terminal(words, str(guard.tree), env))
        return made[-1]

    run.guard = guard  # type: ignore[attr-defined]
    yield run
    for terminal in made:
        terminal.close()


def both(at: Open, *command: str, typed: tuple[tuple[bytes, bytes], ...] = ()) -> list[bytes]:
    """What a terminal shows of a command, bare and guarded. `typed`: (what is
    waited for, what is typed then)."""
    texts = []
    for guarded in (False, True):
        terminal = at(*command, guarded=guarded)
        for pattern, keys in typed:
            terminal.expect(pattern)
            terminal.type(keys)
        texts.append(terminal.output + b"" if terminal.end() is None else terminal.output)
    return texts


@pytest.mark.parametrize(
    "text",
    [
        "for i in 0 1 2; do [ -t $i ] && echo terminal; done",
        "stty size",
        CHECK_MODES,
        "mkdir d; touch f; ln -s f l; ls -F --color=auto",
        "printf 'no end'; printf 'err' >&2; printf '\\r\\n\\t\\a\\033[31mred\\033[0m\\n'",
        "tput cols; tput lines; echo $TERM $COLUMNS",
        "seq 3000",
        "[ -t 1 ]; echo $? > /dev/tty; test -r /dev/tty && echo reads",
        "exec 2> /dev/null; ls /nonexistent; echo $?",
        "ls /nonexistent 2>&1 | cat",
    ],
)
def test_it_shows_what_it_showed_bare(at: Open, guard: Any, text: str) -> None:
    bare, guarded = both(at, "bash", "-c", f"cd $(mktemp -d); {text}")
    assert guarded == bare


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("echo up; cat", ((b"up", b"hello\n"), (b"hello\r\nhello", b"\x04"))),
        ("echo up; read a; echo \"<$a>\"", ((b"up", b"a typo\x7f\x7fXY\n"),)),
        ("read -sp 'password: ' a; echo; echo \"<$a>\"", ((b"password: ", b"secret\n"),)),
        (
            "stty raw -echo; echo go; head -c 4 | od -c; stty sane",
            ((b"go", b"a\x03\x1a\r"),),
        ),
        ("python3 -c \"print(input('name: ')[::-1])\"", ((b"name: ", b"enola\n"),)),
    ],
)  # fmt: skip
def test_what_is_typed_arrives_and_is_echoed_as_bare(
    at: Open, text: str, typed: tuple[tuple[bytes, bytes], ...]
) -> None:
    bare, guarded = both(at, "bash", "-c", text, typed=typed)
    assert guarded == bare


@pytest.mark.parametrize("status", [0, 7, 130])
def test_the_status_is_the_commands(at: Open, status: int) -> None:
    assert at("bash", "-c", f"exit {status}").end() == status


@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_keys_send_signals(at: Open, key: bytes, number: int) -> None:
    terminal = at("bash", "-c", "ulimit -c 0; echo up; exec sleep 30")
    terminal.expect(b"up")
    time.sleep(0.3)  # bash itself ignores SIGQUIT
    terminal.type(key)
    assert terminal.end() == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_to_the_launcher_reach_the_command(at: Open, number: int) -> None:
    terminal = at("bash", "-c", "echo up $$; exec sleep 30")
    command = int(terminal.expect(rb"up (\d+)")[1])
    before = psutil.Process(command)
    os.kill(terminal.pid, number)
    assert terminal.end() == -number
    with contextlib.suppress(psutil.NoSuchProcess):
        before.wait(WAIT)


def test_a_key_reaches_a_command_in_a_pipeline_once(at: Open) -> None:
    text = """
import os, signal, time
count = 0
def on_signal(number, frame):
    global count
    count += 1
    print("got", count, flush=True)
signal.signal(signal.SIGINT, on_signal)
print("up", os.getppid(), flush=True)
while count < 3:
    time.sleep(0.02)
"""
    Path(guard_of(at).tree, "count.py").write_text(text)
    words = " ".join(at_command(at, "python3", "count.py"))
    terminal = at("bash", "-c", f"trap '' INT; {words} | cat", guarded=False)
    launcher = int(terminal.expect(rb"up (\d+)")[1])
    time.sleep(0.2)
    terminal.type(b"\x03")
    terminal.expect(b"got 1")
    time.sleep(0.2)
    os.kill(launcher, signal.SIGINT)
    terminal.expect(b"got 2")
    time.sleep(0.2)
    assert b"got 3" not in terminal.output
    terminal.type(b"\x03")
    terminal.expect(b"got 3")
    assert terminal.end() == 0


def test_the_commands_window_is_resized_with_ours(at: Open) -> None:
    text = "trap 'stty size' WINCH; echo up; for i in {1..200}; do sleep 0.05; done"
    terminal = at("bash", "-c", text)
    terminal.expect(b"up")
    terminal.resize(12, 34)
    terminal.expect(b"12 34")


@pytest.mark.parametrize("ending", ["exit", "SIGTERM", "SIGKILL"])
def test_the_modes_are_as_before_in_the_end(at: Open, ending: str) -> None:
    terminal = at("sleep", "0", guarded=False)
    wanted = terminal.modes()
    terminal.end()
    terminal = at("bash", "-c", "stty -echo raw; echo up; read")
    terminal.expect(b"up")
    assert terminal.modes() != wanted
    if ending == "exit":
        terminal.type(b"\n")
    else:
        os.kill(terminal.pid, getattr(signal, ending))
    end = time.monotonic() + WAIT
    while terminal.modes() != wanted:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_shell_stops_it_and_brings_it_back(at: Open) -> None:
    shell = at("bash", "--norc", "-i", guarded=False)
    shell.expect(b"> ")
    return_to = shell.modes()[3]
    shell.type(f"{' '.join(at_command(at, 'cat'))}\n".encode())
    shell.expect(rb"cat\r\n")
    time.sleep(0.5)
    shell.type(b"one\n")
    shell.expect(b"one\r\none\r\n")
    shell.type(b"\x1a")
    shell.expect(b"Stopped")
    shell.expect(b"> ")
    assert shell.modes()[3] == return_to
    shell.type(b"fg\n")
    shell.expect(b"cat\r\n")
    shell.type(b"two\n")
    shell.expect(b"two\r\ntwo\r\n")
    shell.type(b"\x04")
    shell.expect(b"> ")
    shell.type(b"echo status $?\n")
    shell.expect(b"status 0\r\n")
    shell.type(b"exit 3\n")
    assert shell.end() == 3


def guard_of(at: Open) -> Any:
    return at.guard  # type: ignore[attr-defined]


def at_command(at: Open, *command: str) -> list[str]:
    """The words of a guarded command, to be typed."""
    return list(guard_of(at).command(*command))


def test_in_the_background_it_prints_and_does_not_read(at: Open) -> None:
    shell = at("bash", "--norc", "-i", guarded=False)
    shell.expect(b"> ")
    text = "sleep 0.3; echo printed; read a; echo got $a"
    words = at_command(at, "bash", "-c", f"'{text}'")
    shell.type(f"{' '.join(words)} &\n".encode())
    shell.expect(b"printed\r\n")
    shell.type(b"echo mine\n")
    shell.expect(b"\rmine\r\n")
    time.sleep(0.5)
    shell.type(b"jobs\n")
    shell.expect(b"Stopped")
    shell.type(b"fg\n")
    shell.expect(b"got \\$a'?\r\n")
    shell.type(b"yours\n")
    shell.expect(b"got yours\r\n")
    shell.type(b"exit\n")
    shell.end()


def test_an_interactive_shell_has_job_control(at: Open) -> None:
    shell = at("bash", "--norc", "-i")
    shell.expect(b"> ")
    shell.type(b"sleep 30\n")
    shell.expect(b"sleep 30\r\n")
    time.sleep(0.5)
    shell.type(b"\x1a")
    shell.expect(b"Stopped +sleep 30")
    shell.type(b"kill -9 %1; fg\n")
    shell.expect(b"Killed")
    shell.type(b"sleep 30\n")
    shell.expect(b"sleep 30\r\n")
    time.sleep(0.5)
    shell.type(b"\x03")
    shell.expect(rb"\^C")
    shell.type(b"exit 9\n")
    assert shell.end() == 9


def test_a_command_that_stops_itself(at: Open) -> None:
    shell = at("bash", "--norc", "-i", guarded=False)
    shell.expect(b"> ")
    words = at_command(at, "bash", "-c", "'kill -TSTP $$; echo back'")
    shell.type(f"{' '.join(words)}\n".encode())
    shell.expect(b"Stopped")
    shell.type(b"fg\n")
    shell.expect(b"\nback\r\n")
    shell.type(b"exit\n")
    shell.end()


def test_what_is_typed_ahead_is_for_who_comes_after(at: Open) -> None:
    if os.geteuid() != 0:
        pytest.skip("not every system lets a user put back what was typed")
    shell = at("bash", "--norc", "-i", guarded=False)
    shell.expect(b"> ")
    shell.type(f"{' '.join(at_command(at, 'sleep', '1'))}\n".encode())
    shell.expect(b"sleep 1\r\n")
    time.sleep(0.3)
    shell.type(b"echo after it\n")
    shell.expect(b"\rafter it\r\n")
    shell.type(b"exit\n")
    shell.end()


def test_in_a_pipeline_what_is_typed_is_the_neighbours(at: Open) -> None:
    words = " ".join(at_command(at, "cat"))
    terminal = at("bash", "-c", f"head -n 1 | {words}", guarded=False)
    time.sleep(0.5)
    terminal.type(b"hello\n")
    terminal.expect(b"hello\r\nhello\r\n")
    assert terminal.end() == 0


def test_in_a_pipeline_a_pager_takes_the_terminal(at: Open) -> None:
    text = "cat > got; echo go > /dev/tty; stty raw -echo < /dev/tty; head -c 3 < /dev/tty >> got"
    words = " ".join(at_command(at, "bash", "-c", f"'{text}'"))
    terminal = at("bash", "-c", f"seq 3 | {words}; cat got", guarded=False)
    terminal.expect(b"go")
    time.sleep(0.5)
    terminal.type(b"xyz")
    terminal.expect(b"1\r\n2\r\n3\r\nxyz")
    assert terminal.end() == 0


def test_a_background_child_of_the_command_still_prints(at: Open) -> None:
    terminal = at("bash", "-c", "trap '' HUP; (sleep 0.5; echo late) & echo now")
    terminal.expect(b"now\r\n")
    terminal.expect(b"late")


def test_a_terminal_that_is_not_the_callers_own(guard: Any) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 22, 44, 0, 0))
    command = guard.command("bash", "-c", "stty size; [ -t 1 ] && echo yes; kill -TERM $$")
    process = subprocess.Popen(
        command, cwd=guard.tree, env=guard.env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    got = b""
    with contextlib.suppress(OSError):
        while part := os.read(ours, 4096):
            got += part
    os.close(ours)
    assert got == b"22 44\r\nyes\r\n"
    assert process.wait(WAIT) == -signal.SIGTERM


def test_the_terminal_goes_and_the_command_is_hung_up(at: Open) -> None:
    terminal = at(
        "bash", "-c", "trap 'echo hup > hup; exit' HUP; echo up $$; while :; do sleep 0.05; done"
    )
    command = psutil.Process(int(terminal.expect(rb"up (\d+)")[1]))
    said = Path(command.cwd()) / "hup"
    os.close(terminal.fd)
    terminal.fd = os.open(os.devnull, os.O_RDONLY)
    with contextlib.suppress(psutil.NoSuchProcess):
        command.wait(WAIT)
    assert said.read_text() == "hup\n"


def test_what_a_terminal_showed_is_recorded(at: Open, listener: Any) -> None:
    terminal = at("bash", "-c", "echo out; echo err >&2")
    assert terminal.end() == 0
    listener.until(listener.ended)
    assert listener.text() == b"out\r\nerr\r\n"
    assert all(r.flags & C.NC_TTY for r in listener.shown())
    assert listener.first().flags == C.NC_ATTESTED


def test_each_line_that_is_typed_begins_a_head(at: Open, listener: Any) -> None:
    shell = at("bash", "--norc", "-i")
    shell.expect(b"> ")
    for _ in range(3):
        shell.type(b"seq 4000; echo 'do''ne'\n")
        shell.expect(b"\ndone\r\n")
    listener.until(
        lambda: listener.text().endswith(b"\ndone\r\n> ") or b"> " in listener.text()[-20:]
    )
    # Each 19 kB is within a head and a tail; all of it together is not.
    text = listener.text().replace(b"\r", b"")
    assert b"[...]" not in text
    assert text.count(b"\n3999\n") == 3
    shell.type(b"exit\n")
    shell.end()
