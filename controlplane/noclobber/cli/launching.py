"""`run`, `exec` and `hook`: hand over to the programs beside this script."""

from __future__ import annotations

import os
import sys

import click

from noclobber.cli.common import Failed
from noclobber.harness import ADAPTERS
from noclobber.launcher import HOOK, LAUNCHER, beside


def _launch(
    command: tuple[str, ...],
    session: str | None,
    roots: tuple[str, ...],
    tier: str,
    task: str | None,
    role: list[str],
) -> None:
    launcher = _program(LAUNCHER)
    words = [launcher, f"--tier={tier}"]
    words += [f"--session={session}"] if session else []
    words += [f"--root={root}" for root in roots]
    words += [f"--task={task}"] if task else []
    words += role
    _become([*words, "--", *command])


def _program(name: str) -> str:
    found = beside(name)
    if found is None:
        raise Failed(f"{name} was not found beside this script or on PATH; reinstall noclobber")
    return str(found)


def _become(words: list[str]) -> None:
    sys.stdout.flush()
    os.execv(words[0], words)


def _options(function: click.decorators.FC) -> click.decorators.FC:
    for option in (
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
        click.option("--tier", type=click.Choice(["workspace-write", "read-only"]),
                     default="workspace-write", show_default=True,
                     help="What the session may change under its roots."),
        click.option("--root", "roots", multiple=True, metavar="DIR",
                     help="Protect DIR; may be repeated (default: the git top level)."),
        click.option("--session", metavar="S", help="The session's name."),
        click.option("--task", metavar="NAME",
                     help="What it is for, as NOCLOBBER_DIRTY_OVERRIDE may name it."),
    ):  # fmt: skip
        function = option(function)
    return function


_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command("run", context_settings=_SETTINGS)
@_options
@click.option(
    "--agent-exe",
    metavar="NAME",
    help="The agent's program, where COMMAND only starts it (default: found out).",
)
def run(
    command: tuple[str, ...],
    session: str | None,
    roots: tuple[str, ...],
    tier: str,
    task: str | None,
    agent_exe: str | None,
) -> None:
    """Run an agent: everything that it starts belongs to one session.

    What its own process reads from its children counts as shown to it; what it
    writes back of a file that it read whole must not be a part of it. The agent
    is COMMAND, or what env, npx, uv, poetry, sh -c and their like start.

    The exit status is the agent's."""
    role = [f"--agent-exe={agent_exe}"] if agent_exe else ["--agent"]
    _launch(command, session, roots, tier, task, role)


@click.command("exec", context_settings=_SETTINGS)
@_options
def execute(
    command: tuple[str, ...],
    session: str | None,
    roots: tuple[str, ...],
    tier: str,
    task: str | None,
) -> None:
    """Run one command of a session, as a harness does.

    The exit status is the command's."""
    _launch(command, session, roots, tier, task, [])


@click.command()
@click.argument("harness", type=click.Choice(sorted(ADAPTERS)))
def hook(harness: str) -> None:
    """Answer one event of a harness, read from stdin, as its hook.

    The same as noclobber-hook, which starts faster."""
    _become([_program(HOOK), harness])
