"""The `holdfast` program. Its commands are imported on use."""

from __future__ import annotations

import signal
from typing import NoReturn

import click

from holdfast._version import __version__
from holdfast.cli import exits
from holdfast.cli.lazy import Commands

_HOME = {
    "run": "holdfast.cli.run",
    "ls": "holdfast.cli.operate",
    "show": "holdfast.cli.operate",
    "break": "holdfast.cli.operate",
    "ddl": "holdfast.cli.ddl",
    "lab": "holdfast.cli.lab",
}


@click.group(cls=Commands, home=_HOME, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def holdfast() -> None:
    """Hold a distributed lock while a command runs, and see who holds what.

    The engine is --url, else $HOLDFAST_URL, else an SQLite file in your state folder.
    """


def main() -> NoReturn:
    """Run the program and exit. A usage error is 64, as in sysexits.h, not click's 2."""
    try:
        code = holdfast.main(prog_name="holdfast", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        code = exits.USAGE
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort as error:  # Ctrl-C; or the end of the input instead of an answer
        code = exits.FREE if isinstance(error.__context__, EOFError) else -signal.SIGINT
    exits.leave(code or 0)
