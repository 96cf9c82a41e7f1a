"""The `holdfast` program. Its commands are imported on use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

import click

from holdfast._version import __version__
from holdfast.cli import exits
from holdfast.cli.output import Output


class Commands(click.Group):
    """Imports a command's module only for that command, or for the help. `needs`: the extra of a
    command and its libraries; if they are not installed, its help text says so."""

    def __init__(
        self,
        *args: Any,
        home: Mapping[str, str],
        needs: Mapping[str, tuple[str, ...]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._home = home
        self._needs = needs or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the table."""
        return list(self._home)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, from the table `COMMANDS` of its module."""
        if cmd_name not in self._home:
            return None
        extra, *libraries = self._needs.get(cmd_name, ("",))
        for library in libraries:
            if find_spec(library) is None:
                return _not_installed(cmd_name, library, f"pip install 'holdfast[{extra}]'")
        command: click.Command = import_module(self._home[cmd_name]).COMMANDS[cmd_name]
        return command


def _not_installed(name: str, library: str, mend: str) -> click.Command:
    why = f"needs {library}, which is not installed: {mend}"

    def fail() -> None:
        Output().error(f"{name} {why}")
        raise click.exceptions.Exit(exits.UNAVAILABLE)

    return click.Command(
        name,
        callback=fail,
        help=f"Not available: {why}.",
        short_help=f"(not available: {mend})",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


_NEEDS = {"ui": ("ui", "starlette", "uvicorn"), "watch": ("watch", "textual")}
_HOME = {
    "run": "holdfast.cli.run",
    "elect": "holdfast.cli.elect",
    "ls": "holdfast.cli.operate",
    "show": "holdfast.cli.operate",
    "break": "holdfast.cli.operate",
    "ddl": "holdfast.cli.operate",
    "doctor": "holdfast.cli.doctor",
    "ui": "holdfast.cli.ui",
    "watch": "holdfast.cli.watch",
    "lab": "holdfast.cli.lab",
}


@click.group(
    cls=Commands,
    home=_HOME,
    needs=_NEEDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def holdfast() -> None:
    """Hold a distributed lock while a command runs, and see who holds what.

    The engine is --url, else $HOLDFAST_URL, else an SQLite file in your state folder.
    """


def main() -> NoReturn:
    """Run the program and exit."""
    exits.leave(exits.code_of(lambda: holdfast.main(prog_name="holdfast", standalone_mode=False)))
