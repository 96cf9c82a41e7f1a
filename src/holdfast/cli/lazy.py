"""A group of commands, each imported on use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from holdfast.cli import exits
from holdfast.cli.output import Output


class Commands(click.Group):
    """Imports a command's module only for that command, or for the help. A command whose libraries
    are not installed has a help text that says so; `extra` is what to install."""

    def __init__(
        self, *args: Any, home: Mapping[str, str], extra: str = "all", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._home = home
        self._extra = extra

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
        why = f"needs {library}, which is not installed: pip install 'holdfast[{self._extra}]'"

        def fail() -> None:
            Output().error(f"{name} {why}")
            raise click.exceptions.Exit(exits.UNAVAILABLE)

        return click.Command(
            name,
            callback=fail,
            help=f"Not available: {why}.",
            short_help=f"(not available: pip install 'holdfast[{self._extra}]')",
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
