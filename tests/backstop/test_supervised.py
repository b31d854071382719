"""Programs that no library gets into, under their supervisor: what they may
not do, what they may, and that they notice nothing else of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

TEXT = b"".join(b"line %d of what is there\n" % n for n in range(3000))
WAIT = 30.0  # s

WORKER = r"""
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char text[1 << 20];
static long take(const char *path, long most) {
    int fd = open(path, O_RDONLY);
    long size = 0, got;
    while (fd >= 0 && size < most && (got = read(fd, text + size, most - size)) > 0) size += got;
    return close(fd) ? -1 : size;
}
static int put(const char *path, long size) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0644);
    if (fd < 0) { perror(path); return 1; }
    return write(fd, text, size) != size || close(fd);
}
int main(int count, char **words) {
    if (!strcmp(words[1], "blind")) return put(words[2], 0);
    if (!strcmp(words[1], "part")) return put(words[2], take(words[2], 500));
    if (!strcmp(words[1], "whole")) {
        long size = take(words[2], sizeof text);
        for (long i = 0; i < size; i++) if (text[i] == 'l') text[i] = 'L';
        return put(words[2], size);
    }
    if (!strcmp(words[1], "status")) return atoi(words[2]);
    if (!strcmp(words[1], "signal")) return raise(atoi(words[2]));
    if (!strcmp(words[1], "many")) {
        for (int i = 0; i < atoi(words[2]); i++) {
            char name[64];
            snprintf(name, sizeof name, "m%d-%d", getpid(), i);
            if (put(name, 100) || put(name, 50) || unlink(name)) return 1;
        }
        return 0;
    }
    if (!strcmp(words[1], "wait")) {
        puts("here");
        fflush(stdout);
        getchar();
        return put(words[2], 0);
    }
    return 9;
}
"""

# sandbox (listens | forbids) COMMAND...: has a filter of its own, then starts it
SANDBOX = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter forbids[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    int listens = !strcmp(words[1], "listens");
    struct sock_fprog all = {listens ? 1 : 4, listens ? forbids + 3 : forbids};
    int fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                     listens ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &all);
    if (fd < 0) return 77;
    if (listens) dup(fd);
    execvp(words[2], words + 2);
    return 8;
}
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """A static program."""
    source, made = tmp_path / "worker.c", tmp_path / "worker"
    source.write_text(WORKER)
    subprocess.run(["cc", "-O1", "-static", str(source), "-o", str(made)], check=True)
    return made


@pytest.fixture
def file(guard: Any) -> Path:
    path: Path = guard.tree / "f"
    path.write_bytes(TEXT)
    return path


def supervisors(guard: Any) -> list[psutil.Process]:
    """Those of this guard's sessions."""
    found = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"].startswith("noclobber-super"):
            try:
                if process.environ().get("NOCLOBBER_SOCKET", "").startswith(str(guard.home)):
                    found.append(process)
            except psutil.Error:
                continue
    return found


def is_true(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_who_read_a_part_may_not_replace_it(guard, worker, file):
    done = guard.run(str(worker), "part", "f")
    assert done.returncode == 1 and "was not replaced" in done.stderr
    assert file.read_bytes() == TEXT and guard.denied() == [str(file)]


def test_what_the_agent_saw_a_part_of_it_may_not_replace(guard, worker, file):
    guard.shell("head -n 100 f")
    assert guard.run(str(worker), "blind", "f").returncode == 1
    assert file.read_bytes() == TEXT


def test_who_read_all_of_it_may_change_it(guard, worker, file):
    guard.shell("head -n 100 f")
    done = guard.run(str(worker), "whole", "f")
    assert (done.returncode, done.stderr, guard.denied()) == (0, "", [])
    assert file.read_bytes() == TEXT.replace(b"l", b"L")


@pytest.mark.parametrize("command", ["{} whole f", "sh -c '{} whole f'", "env -i {} whole f",
                                     "env -u LD_PRELOAD sh -c '{} part f; :'"])  # fmt: skip
def test_it_is_found_wherever_it_is_started(guard, worker, file, command):
    guard.shell("head -n 100 f")
    assert guard.shell(command.format(worker)).returncode == 0
    assert file.read_bytes() in (TEXT, TEXT.replace(b"l", b"L"))


@pytest.mark.parametrize("status", [0, 1, 77, 255])
def test_its_status_is_its_own(guard, worker, status):
    assert guard.run(str(worker), "status", str(status)).returncode == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGABRT])
def test_its_death_is_its_own(guard, worker, number):
    assert guard.run(str(worker), "signal", str(int(number))).returncode == -number


def test_busybox_writes_under_guard(guard, file):
    busybox = shutil.which("busybox")
    if not busybox or b"ld-linux" in Path(busybox).read_bytes()[:8192]:
        pytest.skip("needs a static busybox")
    guard.shell("head -n 100 f")
    assert guard.run(busybox, "sh", "-c", "echo new > f").returncode != 0
    assert file.read_bytes() == TEXT
    assert guard.run(busybox, "sed", "-i", "s/line/LINE/", "f").returncode == 0
    assert file.read_bytes() == TEXT.replace(b"line", b"LINE")


def test_many_at_once(guard, worker):
    command = f"for n in $(seq 60); do {worker} many 5 & done; wait; echo done"
    done = guard.shell(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert list(guard.tree.iterdir()) == []


def test_no_supervisor_outlives_its_programs(guard, worker):
    assert guard.run(str(worker), "status", "0").returncode == 0
    assert is_true(lambda: not supervisors(guard))


def test_where_the_supervisor_is_killed_nothing_hangs_and_nothing_is_lost(guard, worker, file):
    guard.shell("head -n 100 f")
    command = guard.command(str(worker), "wait", "f")
    with subprocess.Popen(
        command, cwd=guard.tree, env=guard.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as program:  # fmt: skip
        assert program.stdout and program.stdout.readline() == "here\n"
        found = supervisors(guard)
        assert found
        for process in found:
            os.kill(process.pid, signal.SIGKILL)
        program.communicate("\n", timeout=WAIT)
    assert program.returncode != 0 and file.read_bytes() == TEXT


def test_where_the_daemon_is_gone_it_is_refused(guard, worker, file):
    guard.shell("head -n 100 f")
    command = guard.command(str(worker), "wait", "f")
    with subprocess.Popen(
        command, cwd=guard.tree, env=guard.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as program:  # fmt: skip
        assert program.stdout and program.stdout.readline() == "here\n"
        guard.cli("daemon", "stop")
        _, said = program.communicate("\n", timeout=WAIT)
    assert program.returncode == 1 and "noclobber daemon start" in said
    assert file.read_bytes() == TEXT


def test_it_can_be_switched_off(guard, worker, file):
    guard.env["NOCLOBBER_SUPERVISOR"] = "never"
    guard.shell("head -n 100 f")
    assert guard.run(str(worker), "blind", "f").returncode == 0
    assert file.read_bytes() == b""


@pytest.mark.parametrize(
    ("kind", "why"), [("listens", "another supervisor"), ("forbids", "a sandbox forbids it")]
)
def test_where_none_can_be_the_preload_goes_on_and_it_is_said_once(
    guard, worker, file, tmp_path, kind, why
):
    source, sandbox = tmp_path / "sandbox.c", tmp_path / "sandbox"
    source.write_text(SANDBOX)
    subprocess.run(["cc", "-w", str(source), "-o", str(sandbox)], check=True)
    guard.run("true")  # the daemon starts outside
    text = f"{worker} blind a; {worker} blind b; head -n 100 f; echo > f"
    done = guard.bare(str(sandbox), kind, *guard.command("bash", "-c", text))
    if done.returncode == 77:
        pytest.skip("may have no filter here")
    assert done.stderr.count(why) == 1
    assert (guard.tree / "a").exists() and (guard.tree / "b").exists()
    assert guard.denied() == [str(file)]
    assert file.read_bytes() == TEXT
