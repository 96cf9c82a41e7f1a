"""The `holdfast` program. Its commands are imported on use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from holdfast._version import __version__
from holdfast.cli import exits
from holdfast.cli.output import Output


class Commands(click.Group):
    """Imports a command's module only for that command, or for the help. A command whose libraries
    are not installed has a help text that says so; `extra` is what to install, and `extras` for
    single commands."""

    def __init__(
        self,
        *args: Any,
        home: Mapping[str, str],
        extra: str = "all",
        extras: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._home = home
        self._extra = extra
        self._extras = extras or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the table."""
        return list(self._home)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, from the table `COMMANDS` of its module."""
        if cmd_name not in self._home:
            return None
        try:
            module = importlib.import_module(self._home[cmd_name])
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("holdfast"):
                raise
            return self._not_installed(cmd_name, error.name or "a library")
        command: click.Command = module.COMMANDS[cmd_name]
        return command

    def _not_installed(self, name: str, library: str) -> click.Command:
        extra = self._extras.get(name, self._extra)
        why = f"needs {library}, which is not installed: pip install 'holdfast[{extra}]'"

        def fail() -> None:
            Output().error(f"{name} {why}")
            raise click.exceptions.Exit(exits.UNAVAILABLE)

        return click.Command(
            name,
            callback=fail,
            help=f"Not available: {why}.",
            short_help=f"(not available: pip install 'holdfast[{extra}]')",
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )


_EXTRAS = {"ui": "ui"}
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
    extras=_EXTRAS,
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
