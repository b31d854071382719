"""noclobber-exec and noclobber-bash as a harness sees them: as the command."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conftest import BIN, LIMIT, Guard

from noclobber.wire import C

LAUNCHER = str(BIN / "noclobber-exec")
OURS = {"ASAN_OPTIONS", "LD_PRELOAD", "NOCLOBBER_COMMAND", "NOCLOBBER_ROOTS"} | {
    "NOCLOBBER_SESSION",
    "NOCLOBBER_SKIP",
    "NOCLOBBER_SOCKET",
}
PRINT_ENVIRONMENT = "import os, sys; sys.stdout.buffer.write(open('/proc/self/environ', 'rb').read())"

pytestmark = pytest.mark.usefixtures("listener")


def environment_of(output: bytes) -> dict[str, str]:
    return dict(line.decode().split("=", 1) for line in output.split(b"\0") if line)


def start(guard: Guard, *command: str, **options: Any) -> subprocess.Popen[Any]:
    defaults: dict[str, Any] = {"cwd": guard.tree, "env": guard.env, "stdout": subprocess.PIPE}
    return subprocess.Popen(guard.command(*command), **(defaults | options))


def wait_for(condition: Any, what: str) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


# ---- status ---------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 7, 125, 126, 127, 255])
def test_the_status_is_the_commands(guard: Guard, status: int) -> None:
    assert guard.shell(f"exit {status}").returncode == status


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT", "SEGV", "USR1", "PIPE", "ABRT"])
@pytest.mark.parametrize("output", [subprocess.PIPE, subprocess.DEVNULL])
def test_a_death_by_signal_is_the_launchers_too(guard: Guard, name: str, output: int) -> None:
    done = guard.shell(f"kill -{name} $$", capture_output=False, stdout=output, stderr=output)
    assert done.returncode == -getattr(signal, f"SIG{name}")


def test_a_death_by_signal_leaves_no_second_core(guard: Guard) -> None:
    text = 'ulimit -c unlimited 2>/dev/null; "$@"; ls core* 2>/dev/null | wc -l'
    command = guard.command("bash", "-c", "ulimit -c 0; kill -SEGV $$")
    done = guard.bare("bash", "-c", text, "bash", *command, stderr=subprocess.DEVNULL,
                      stdout=subprocess.PIPE, capture_output=False)  # fmt: skip
    assert done.stdout.split() == ["0"]


def test_the_status_is_there_where_the_caller_ignores_sigchld(guard: Guard) -> None:
    text = "import os, signal, sys; signal.signal(17, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    command = guard.command("bash", "-c", "exit 9")
    assert guard.bare(sys.executable, "-c", text, *command).returncode == 9


def test_a_command_that_is_not_there(guard: Guard) -> None:
    done = guard.run("no-such-program")
    assert done.returncode == 127
    assert done.stderr == "noclobber-exec: no-such-program: No such file or directory\n"


def test_a_file_that_cannot_be_executed(guard: Guard) -> None:
    (guard.tree / "plain").write_text("x\n")
    done = guard.run("./plain")
    assert done.returncode == 126
    assert done.stderr == "noclobber-exec: ./plain: Permission denied\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--nonsense", "--", "true"], "unknown option --nonsense"),
        (["-x", "true"], "unknown option -x"),
        ([], "no command given"),
        (["--"], "no command given"),
        (["--session"], "option --session needs a value"),
        (["--session", "", "true"], "a session's name has 1 to 128 bytes"),
        (["--session", "s" * 129, "true"], "a session's name has 1 to 128 bytes"),
        (["--root", "/no/such/place", "true"], "--root /no/such/place: No such file"),
        (["--root", "/etc/passwd", "true"], "--root /etc/passwd: Not a directory"),
        (["--tier", "free", "true"], "--tier: workspace-write or read-only, not free"),
        (["--shown-limit", "many", "true"], "--shown-limit: not a number"),
        (["--shown-limit=0", "true"], "--shown-limit: not a number"),
        (["--shown-limit=-4", "true"], "--shown-limit: not a number"),
    ],
)
def test_our_own_failures_are_125_and_one_line(guard: Guard, args: list[str], said: str) -> None:
    done = guard.bare(LAUNCHER, *args)
    assert done.returncode == 125
    assert done.stderr.startswith(f"noclobber-exec: {said}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_help_and_version_go_to_stdout(guard: Guard) -> None:
    for option, word in (("--help", "Usage: noclobber-exec"), ("--version", "noclobber 0.")):
        done = guard.bare(LAUNCHER, option)
        assert done.returncode == 0
        assert done.stdout.startswith(word)
        assert done.stderr == ""


def test_options_end_at_the_command(guard: Guard) -> None:
    done = guard.bare(LAUNCHER, "--session=s", "echo", "--session", "x", "--", "-n")
    assert done.stdout == "--session x -- -n\n"


# ---- surroundings ---------------------------------------------------------


def test_the_environment_is_the_callers_and_ours(guard: Guard) -> None:
    env = {**guard.env, "ODD": "a=b\nc", "EMPTY": ""}
    command = ("python3", "-c", PRINT_ENVIRONMENT)
    bare = environment_of(guard.bare(*command, env=env, text=False).stdout)
    ours = environment_of(guard.run(*command, env=env, text=False).stdout)
    assert {k: v for k, v in ours.items() if k not in OURS} == {
        k: v for k, v in bare.items() if k not in OURS
    }
    assert set(ours) >= OURS
    assert ours["NOCLOBBER_SESSION"] == "s"
    assert ours["NOCLOBBER_ROOTS"] == str(guard.tree)
    assert ours["NOCLOBBER_SOCKET"] == str(guard.home / "run/noclobber/daemon.sock")
    assert ours["LD_PRELOAD"].endswith("/lib/noclobber/libnoclobber.so")
    assert "/tmp" in ours["NOCLOBBER_SKIP"].split(":")
    assert str(guard.home / "run") in ours["NOCLOBBER_SKIP"].split(":")


def test_what_is_preloaded_stays_first_and_ours_comes_once(guard: Guard) -> None:
    other = "/lib/x86_64-linux-gnu/libm.so.6"
    if not Path(other).exists():
        pytest.skip("no library to preload")
    env = {**guard.env, "LD_PRELOAD": other, "ASAN_OPTIONS": "detect_leaks=0"}
    text = f"{LAUNCHER} --session s -- python3 -c {PRINT_ENVIRONMENT!r}"
    found = environment_of(guard.shell(text, env=env, text=False).stdout)
    first, second = found["LD_PRELOAD"].split(":")
    assert first == other
    assert second.endswith("libnoclobber.so")
    assert found["ASAN_OPTIONS"] == "detect_leaks=0:verify_asan_link_order=0"


def test_odd_directory_names_are_escaped(guard: Guard) -> None:
    odd = guard.tree / "a:b\\c"
    odd.mkdir()
    done = guard.run("printenv", "NOCLOBBER_ROOTS", args=("--root", str(odd)))
    assert done.stdout == f"{guard.tree}:{guard.tree}/a\\:b\\\\c\n"


@pytest.mark.parametrize("output", [subprocess.PIPE, subprocess.DEVNULL])
def test_signals_masks_limits_and_places_are_inherited(guard: Guard, output: int) -> None:
    text = """
import os, resource, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGRTMIN + 3])
for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.umask(0o027)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
os.nice(3)
os.execv(sys.argv[1], sys.argv[1:])
"""
    show = (
        "out=$1; { grep -E '^(SigBlk|SigIgn|SigCgt|Umask)' /proc/self/status; pwd; umask; ulimit -n;"
        " ulimit -Hn; nice; } > $out"
    )
    texts = []
    for name, guarded in (("bare", False), ("guarded", True)):
        out = guard.home / name
        command = ["bash", "-c", show, "bash", str(out)]
        if guarded:
            command = guard.command(*command)
        shell = shutil.which(command[0], path=guard.env["PATH"])
        assert shell
        guard.bare(sys.executable, "-c", text, shell, *command[1:], capture_output=False,
                   stdout=output, stderr=output)  # fmt: skip
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert "SigIgn" in texts[0]


@pytest.mark.parametrize("output", [subprocess.PIPE, subprocess.DEVNULL])
def test_descriptors_are_inherited_and_none_is_added(guard: Guard, output: int) -> None:
    text = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    seen = []
    reading, writing = os.pipe()
    for command in (["python3", "-c", text], guard.command("python3", "-c", text)):
        out = guard.home / "fds"
        with out.open("w") as file:
            where = file if output == subprocess.DEVNULL else subprocess.PIPE
            done = guard.bare(*command, pass_fds=[reading, writing], capture_output=False,
                              stdout=where)  # fmt: skip
        seen.append(done.stdout or out.read_text())
    os.close(reading)
    os.close(writing)
    assert seen[0] == seen[1]
    assert str(writing) in seen[0]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_descriptors_stay_closed(guard: Guard, closed: str) -> None:
    show = "ls /proc/self/fd | tr '\\n' ' ' > $1; [ -e /proc/$$/fd/0 ]; echo $? >> $1; [ -e /proc/$$/fd/1 ]; echo $? >> $1; [ -e /proc/$$/fd/2 ]; echo $? >> $1"
    texts = []
    for name in ("bare", "guarded"):
        out = guard.home / name
        command = ["bash", "-c", show, "bash", str(out)]
        if name == "guarded":
            command = guard.command(*command)
        guard.bare("bash", "-c", f'"$@" {closed}', "bash", *command)
        texts.append(out.read_text())
    assert texts[0] == texts[1]


def test_standard_input_is_the_commands(guard: Guard) -> None:
    done = guard.shell("read a; read b; echo $b; cat", input="1\n2\n3\n4")
    assert done.stdout == "2\n3\n4"


def test_an_alarm_that_the_caller_set_finds_the_command(guard: Guard) -> None:
    text = "import os, signal, sys; signal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])"
    began = time.monotonic()
    done = guard.bare(sys.executable, "-c", text, *guard.command("sleep", "30"))
    assert done.returncode == -signal.SIGALRM
    assert time.monotonic() - began < 20


def test_only_the_command_bears_its_words(guard: Guard) -> None:
    word = f"word{os.getpid()}"
    text = f"sleep 0.3; pgrep -fc [w]ord{os.getpid()}; : {word}"
    if not shutil.which("pgrep"):
        pytest.skip("no pgrep")
    assert guard.shell(text).stdout == guard.bare("bash", "-c", text).stdout == "1\n"


# ---- signals that are sent to us ------------------------------------------

COUNT = """
import os, signal, sys, time
got = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH):
    signal.signal(number, lambda n, frame: got.append(n))
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.02)
print(len(got), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_reaches_the_command_once(guard: Guard, number: int, group: bool) -> None:
    with start(guard, "python3", "-c", COUNT, "1", start_new_session=True, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        (os.killpg if group else os.kill)(process.pid, number)
        assert process.stdout.readline() == "1\n"
        assert process.wait(LIMIT) == 0


def test_a_signal_of_the_command_to_its_parent_goes_to_the_harness(guard: Guard) -> None:
    text = f"""
import signal, subprocess, sys
got = []
signal.signal(signal.SIGUSR2, lambda n, frame: got.append(n))
subprocess.run({guard.command("bash", "-c", "kill -USR2 $PPID; sleep 0.3")!r}, stdout=subprocess.PIPE)
print(len(got))
"""
    assert guard.bare(sys.executable, "-c", text).stdout == "1\n"


def test_killing_the_launcher_kills_the_command_and_not_its_children(guard: Guard) -> None:
    text = 'sleep 30 & echo $$ $!; wait'
    with start(guard, "bash", "-c", text, text=True) as process:
        assert process.stdout
        command, child = map(int, process.stdout.readline().split())
        process.kill()
        process.wait(LIMIT)
        wait_for(lambda: not psutil.pid_exists(command), "the command lives on")
        assert psutil.Process(child).is_running()
        os.kill(child, signal.SIGKILL)
        assert process.stdout.read() == ""


def test_the_launcher_stops_and_goes_on_with_the_command(guard: Guard) -> None:
    text = "echo $$; kill -STOP $$; echo on"
    with start(guard, "bash", "-c", text, text=True) as process:
        assert process.stdout
        command = int(process.stdout.readline())
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == signal.SIGSTOP
        assert psutil.Process(command).status() == psutil.STATUS_STOPPED
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "on\n"
        assert process.wait(LIMIT) == 0


def test_a_group_that_is_killed_leaves_nothing_of_ours(guard: Guard) -> None:
    with start(guard, "sleep", "77", start_new_session=True) as process:
        wait_for(
            lambda: any(p.name() == "sleep" for p in psutil.Process(process.pid).children()),
            "it never began",
        )
        below = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(LIMIT) == -signal.SIGKILL
        _, alive = psutil.wait_procs(below, timeout=20)
        assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


# ---- session, roots, records ----------------------------------------------


def told(listener: Any) -> Any:
    listener.until(lambda: listener.commands())
    return listener.commands()[-1]


def test_the_daemon_is_told_of_a_command_and_of_its_end(guard: Guard, listener: Any) -> None:
    done = guard.run("echo", "a b", "", args=("--tier", "read-only", "--shown-limit", "5000"))
    assert done.returncode == 0
    listener.until(lambda: listener.ended())
    (command,) = listener.commands()
    assert command.session == "s"
    assert command.argv == ("echo", "a b", "")
    assert command.cwd == str(guard.tree)
    assert command.roots == (str(guard.tree),)
    assert command.tier == C.NC_READ_ONLY
    assert command.limit == 5000
    assert command.flags == C.NC_ATTESTED
    assert listener.ended() == [command.command]


def test_the_pid_is_the_commands(guard: Guard, listener: Any) -> None:
    done = guard.shell("echo $$")
    assert told(listener).pid == int(done.stdout)


@pytest.mark.parametrize(
    ("args", "flags"),
    [(("--no-pump",), 0), (("--agent",), C.NC_AGENT), ((), C.NC_ATTESTED)],
)
def test_what_the_daemon_is_told_of_the_pump(
    guard: Guard, listener: Any, args: tuple[str, ...], flags: int
) -> None:
    guard.run("echo", "x", args=args)
    assert told(listener).flags == flags


def test_nothing_printed_is_attested_too(guard: Guard, listener: Any) -> None:
    null = subprocess.DEVNULL
    guard.run("echo", "x", capture_output=False, stdout=null, stderr=null)
    assert told(listener).flags == C.NC_ATTESTED
    assert listener.shown() == []


def test_one_session_for_one_harness_and_root(guard: Guard, listener: Any) -> None:
    (guard.tree / "other").mkdir()
    run = f"""
import subprocess
for command in (["{LAUNCHER}", "true"], ["bash", "-c", "env {LAUNCHER} true; true"],
                ["{LAUNCHER}", "--root", "other", "true"]):
    subprocess.run(command, stdout=subprocess.PIPE, check=True)
"""
    (guard.tree / ".git").mkdir()
    for _ in range(2):
        assert guard.bare("python3", "-c", run).returncode == 0
    listener.until(lambda: len(listener.commands()) == 6)
    sessions = [c.session for c in listener.commands()]
    assert sessions[0] == sessions[1] != sessions[2]
    assert sessions[3] == sessions[4] != sessions[5]
    assert sessions[0] != sessions[3]
    assert all(name.startswith("python3") for name in sessions)


def test_the_session_of_the_environment(guard: Guard, listener: Any) -> None:
    guard.bare(LAUNCHER, "true", env={**guard.env, "NOCLOBBER_SESSION": "mine"})
    assert told(listener).session == "mine"


@pytest.mark.parametrize("kind", ["directory", "file", "none"])
def test_the_root_is_the_git_top_level_or_here(guard: Guard, listener: Any, kind: str) -> None:
    below = guard.tree / "a" / "b"
    below.mkdir(parents=True)
    if kind == "directory":
        (guard.tree / ".git").mkdir()
    if kind == "file":
        (guard.tree / ".git").write_text("gitdir: elsewhere\n")
    guard.bare(LAUNCHER, "true", cwd=below)
    wanted = below if kind == "none" else guard.tree
    assert told(listener).roots == (str(wanted),)


def test_roots_are_canonical_and_named_once(guard: Guard, listener: Any) -> None:
    (guard.tree / "d").mkdir()
    (guard.tree / "link").symlink_to("d")
    guard.bare(LAUNCHER, "--root", "link", "--root=d/.", "--root", ".", "true")
    assert told(listener).roots == (str(guard.tree / "d"), str(guard.tree))


def test_a_working_directory_that_is_gone(guard: Guard) -> None:
    text = f"mkdir x; cd x; rmdir ../x; {LAUNCHER} --session s -- echo here"
    assert guard.bare("bash", "-c", text).stdout == "here\n"


def test_a_working_directory_deeper_than_a_path_may_be(guard: Guard, listener: Any) -> None:
    text = (
        "git init -q . 2>/dev/null || mkdir .git; for i in $(seq 25); do"
        " d=$(printf 'x%.0s' {1..200}); mkdir $d; cd $d; done; "
        f"{LAUNCHER} --session s -- echo here"
    )
    done = guard.bare("bash", "-c", text)
    assert done.stdout == "here\n", done.stderr
    assert told(listener).roots == (str(guard.tree),)


def test_a_command_inside_of_a_command_is_part_of_it(guard: Guard, listener: Any) -> None:
    text = f"{LAUNCHER} --session s -- cat f | wc -l; {LAUNCHER} -- printenv NOCLOBBER_COMMAND"
    (guard.tree / "f").write_text("never printed\n" * 10)
    done = guard.shell(text)
    listener.until(lambda: listener.ended())
    (command,) = listener.commands()
    assert done.stdout == f"10\n{command.command}\n"
    assert listener.text() == done.stdout.encode()


def test_a_command_of_the_agent_is_one_of_its_own(guard: Guard, listener: Any) -> None:
    done = guard.run(LAUNCHER, "--", "echo", "seen", args=("--agent",))
    assert done.stdout == "seen\n"
    listener.until(lambda: listener.ended())
    agent, command = listener.commands()
    assert agent.flags == C.NC_AGENT
    assert command.flags == C.NC_ATTESTED
    assert agent.session == command.session == "s"
    assert command.roots == (str(guard.tree),)
    assert listener.text() == b"seen\n"


def test_another_session_inside_of_one_is_told(guard: Guard, listener: Any) -> None:
    guard.shell(f"{LAUNCHER} --session t -- echo x")
    listener.until(lambda: len(listener.ended()) == 2)
    assert [c.session for c in listener.commands()] == ["s", "t"]


# ---- noclobber-bash -------------------------------------------------------


def test_noclobber_bash_is_bash(guard: Guard, listener: Any) -> None:
    bash = str(BIN / "noclobber-bash")
    text = 'echo "$0" "$@"; shopt -q login_shell || echo plain; echo $BASH_VERSION'
    for args in (["-c", text, "a", "b c"], ["--norc", "-c", text], ["-l", "-c", text]):
        ours, theirs = guard.bare(bash, *args), guard.bare("bash", *args)
        assert (ours.stdout, ours.returncode) == (theirs.stdout, theirs.returncode)
    assert told(listener).argv[0] == "bash"
    done = guard.bare(bash, "--nonsense")
    assert done.returncode == guard.bare("bash", "--nonsense").returncode
    assert guard.bare(bash, "--version").stdout.startswith("GNU bash")
    assert guard.bare(bash, input="echo from stdin\n").stdout == "from stdin\n"


def test_noclobber_bash_as_the_first_bash_on_path(guard: Guard) -> None:
    names = guard.home / "names"
    names.mkdir()
    (names / "bash").symlink_to(BIN / "noclobber-bash")
    env = {**guard.env, "PATH": f"{names}:{guard.env['PATH']}"}
    done = guard.bare(str(BIN / "noclobber-bash"), "-c", "echo here", env=env, timeout=LIMIT)
    assert done.stdout == "here\n"


# ---- the daemon -----------------------------------------------------------


def test_a_daemon_that_takes_nothing_is_no_daemon(guard: Guard, listener: Any) -> None:
    listener.close()
    listener.path.unlink()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(listener.path))
        deaf.listen(0)
        held = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for end in held:
            end.setblocking(False)
            end.connect_ex(str(listener.path))
        began = time.monotonic()
        done = guard.run("echo", "x")
        assert time.monotonic() - began < 10
        for end in held:
            end.close()
    assert done.returncode == 125
    assert "daemon" in done.stderr
