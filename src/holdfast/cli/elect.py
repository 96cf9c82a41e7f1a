"""`holdfast elect`: run a command while this candidate leads, and campaign again afterwards."""

from __future__ import annotations

import click

from holdfast.cli.options import OnLost
from holdfast.cli.run import (
    RunCommand,
    argv_of,
    command_argument,
    name_argument,
    program_of,
    supervision,
)

_EXIT_CODES = """\b
It goes on until it gets INT, TERM or QUIT, which the command gets, too: it
ends when the command has ended. Else it ends only if it cannot go on:
  64   usage: an invalid option, name, URL, address or time
  69   the engine is unreachable, or the HTTP server has ended
  126  the command cannot be executed
  127  the command was not found
If signal n ended the command, or the wait, holdfast ends by the same signal.

\b
The command finds in its environment:
  HOLDFAST_NAME    the election's name
  HOLDFAST_HOLDER  the holder id of this lease
  HOLDFAST_FENCE   the term: pass it on with every write
"""


@click.command(
    cls=RunCommand,
    short_help="Run a command while leading.",
    options_metavar="[OPTIONS]",
    epilog=_EXIT_CODES,
)
@name_argument
@command_argument
@click.option(
    "--value", default="", metavar="TEXT", help="What to publish while leading: an address."
)
@click.option(
    "--http",
    metavar="[HOST]:PORT",
    help="Answer who leads: GET / as JSON, GET /events as server-sent events. It is open to all"
    " that can reach it: 127.0.0.1:PORT is this host alone.",
)
@supervision
def elect(
    name: str,
    command: tuple[str, ...],
    shell_line: str | None,
    value: str,
    http: str | None,
    url: str | None,
    ttl: float | None,
    max_hold: float | None,
    label: str | None,
    on_lost: OnLost,
    kill_after: float | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Campaign for NAME, and run COMMAND while leading.

    When the command has ended, or was stopped because the lease was lost, it campaigns again.
    """
    from holdfast.cli.hold import Request  # here, so that help is quick
    from holdfast.cli.output import Output
    from holdfast.cli.terms import lead_forever

    if quiet and verbose:
        raise click.UsageError("-q and -v exclude each other: give only one of them.")
    argv = argv_of(command, shell_line)
    request = Request(
        name=name,
        argv=argv,
        url=url,
        ttl=ttl,
        max_hold=max_hold,
        label=program_of(shell_line or argv[0]) if label is None else label,
        on_lost=on_lost,
        kill_after=kill_after,
        value=value,
    )
    code = lead_forever(request, http, Output(quiet=quiet, verbose=verbose))
    click.get_current_context().exit(code)


COMMANDS = {"elect": elect}
