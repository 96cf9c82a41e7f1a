"""A group of commands each of which is imported when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class Commands(click.Group):
    """Imports a command's module only when that command, or the help, is asked for."""

    def __init__(self, *args: Any, home: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._home = home

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the table."""
        return list(self._home)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, from the table `COMMANDS` of its module."""
        if cmd_name not in self._home:
            return None
        module = importlib.import_module(self._home[cmd_name])
        command: click.Command = module.COMMANDS[cmd_name]
        return command
