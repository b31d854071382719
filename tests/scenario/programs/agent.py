"""A small agent harness: tools in its own process, as real ones have them.

    agent.py CALLS

CALLS is a JSON list of calls, `[tool, argument...]`. Prints a JSON list with
the result of each: its text, or `{"errno": ...}` where it failed. "$N" as an
argument is the result of call N.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

LINES = 1000


def read(path: str) -> str:
    lines = Path(path).read_text().splitlines()
    text = "".join(f"{n:6}\t{line}\n" for n, line in enumerate(lines[:LINES], 1))
    if len(lines) > LINES:
        text += f"\n(File has more lines: showing 1-{LINES} of {len(lines)}.)\n"
    return text


def read_plain(path: str) -> str:
    with Path(path).open() as file:
        return "".join(file.read().splitlines(keepends=True)[:LINES])


def write(path: str, text: str) -> str:
    Path(path).write_text(text)
    return "written"


def write_in_pieces(path: str, text: str) -> str:
    with Path(path).open("w", buffering=1) as file:
        for line in text.splitlines(keepends=True):
            file.write(line)
    return "written"


def write_by_fd(path: str, text: str) -> str:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    other = os.dup(fd)
    os.close(fd)
    os.write(other, text.encode())
    os.close(other)
    return "written"


def write_then_shrink(path: str, text: str) -> str:
    with Path(path).open("r+") as file:
        file.write(text)
        file.truncate()
    return "written"


def empty_then_write(path: str, text: str) -> str:
    with Path(path).open("r+") as file:
        file.truncate(0)
        file.write(text)
    return "written"


def write_atomically(path: str, text: str) -> str:
    temporary = Path(path + ".tmp")
    temporary.write_text(text)
    try:
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return "written"


def copy_over(path: str, text: str) -> str:
    temporary = Path(path + ".tmp")
    temporary.write_text(text)
    try:
        shutil.copyfile(temporary, path)
    finally:
        temporary.unlink()
    return "written"


def delete_then_write(path: str, text: str) -> str:
    Path(path).unlink()
    Path(path).write_text(text)
    return "written"


def leave_open(path: str, text: str) -> str:
    os.write(os.open(path, os.O_WRONLY | os.O_TRUNC), text.encode())
    return "written"


def write_amid(path: str, text: str, command: str) -> str:
    """Something else happens while the file is open."""
    with Path(path).open("w") as file:
        file.write(text)
        file.flush()
        os.system(command)
    return "written"


def write_and_die(path: str, text: str) -> str:
    with Path(path).open("w") as file:
        file.write(text)
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def edit(path: str, old: str, new: str) -> str:
    text = Path(path).read_text()
    assert text.count(old) == 1
    Path(path).write_text(text.replace(old, new))
    return "edited"


def bash(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    return done.stdout + done.stderr


def bash_into(path: str, command: str) -> str:
    """The shell's own descriptor of the file outlives ours."""
    with Path(path).open("w") as file:
        process = subprocess.Popen(["bash", "-c", command], stdout=file)
    process.wait()
    return "done"


def bash_by_event_loop(command: str) -> str:
    async def run() -> bytes:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(command, stdin=pipe, stdout=pipe)
        return (await process.communicate())[0]

    return asyncio.run(run()).decode()


def bash_by_sockets(command: str) -> str:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(["bash", "-c", command], stdout=theirs)
    with ours:
        text = b""
        while piece := ours.recv(65536):
            text += piece
    process.wait()
    return text.decode()


def bash_by_terminal(command: str) -> str:
    master, slave = pty.openpty()
    process = subprocess.Popen(["bash", "-c", command], stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        text += piece
    os.close(master)
    process.wait()
    return text.decode()


def bash_by_fork(command: str) -> str:
    reading, writing = os.pipe()
    if not os.fork():
        os.dup2(writing, 1)
        os.execvp("bash", ["bash", "-c", command])
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.wait()
    return text


def bash_by_spawn(command: str) -> str:
    reading, writing = os.pipe()
    words = ["bash", "-c", command]
    actions = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    os.posix_spawnp("bash", words, os.environ, file_actions=actions)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.wait()
    return text


SHELL: list[subprocess.Popen[str]] = []


def shell(command: str) -> str:
    """One shell for all calls."""
    if not SHELL:
        pipe = subprocess.PIPE
        SHELL.append(subprocess.Popen(["bash"], stdin=pipe, stdout=pipe, text=True, bufsize=1))
    stdin, stdout = SHELL[0].stdin, SHELL[0].stdout
    assert stdin and stdout
    stdin.write(f"{command}\necho\necho '<end>'\n")
    stdin.flush()
    lines = []
    while (line := stdout.readline()) and line != "<end>\n":
        lines.append(line)
    return "".join(lines)


def in_worker(tool: str, *words: str) -> str:
    """The tool in a forked worker."""
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, json.dumps(call([tool, *words], [])).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found: Any = json.loads(pipe.read())
    os.wait()
    if isinstance(found, dict):
        raise OSError(found["errno"], "in the worker")
    return str(found)


def call(words: list[str], results: list[Any]) -> Any:
    tool, *given = words
    ready = [str(results[int(word[1:])]) if word[:1] == "$" else word for word in given]
    try:
        return TOOLS[tool](*ready)
    except OSError as error:
        return {"errno": error.errno}


TOOLS = {name: value for name, value in globals().items() if callable(value)}


def main() -> None:
    results: list[Any] = []
    for words in json.loads(sys.argv[1]):
        results.append(call(words, results))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
