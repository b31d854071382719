"""The commands, gathered. Each module adds its own."""

from __future__ import annotations

import click

from noclobber import __version__
from noclobber.cli import doctor, journal, keeping, launching, restore, showing, state

HELP = """A file may be replaced only by someone who has seen what the replacement
destroys.

\b
Run an agent under the guard:   noclobber run -- AGENT [ARG]...
See what was refused, and why:  noclobber log; noclobber explain
See what is known of a file:    noclobber show FILE
Let one replacement through:    noclobber allow FILE --reason TEXT
Bring old content back:         noclobber restore FILE

\b
Exit status: 0 done; 1 it failed, the message says why and what to do next;
2 wrong usage; 3 no daemon runs. `run` and `exec` have their command's status,
and noclobber-exec's own 125, 126 and 127.
"""


@click.group(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="noclobber")
def app() -> None:
    pass


for command in (
    launching.run,
    launching.execute,
    launching.hook,
    journal.log,
    journal.explain,
    showing.show,
    keeping.allow,
    restore.restore,
    state.status,
    state.daemon,
    doctor.doctor,
):
    app.add_command(command)
