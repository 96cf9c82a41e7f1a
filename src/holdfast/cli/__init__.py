"""The command line. Thin: parse, call, show. A command's module is imported when the command is
used."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from holdfast._version import __version__
from holdfast.cli import console
from holdfast.cli.console import Output


class Lazy(click.Command):
    """A command that is a `function` of a module, which is not imported for the help of all
    commands. `extra` has the libraries that it needs; default: that of its name."""

    def __init__(self, name: str, function: str, help_text: str, extra: str = "") -> None:
        super().__init__(name, short_help=help_text)
        self._function, self._extra = function, extra or name

    def make_context(self, info_name: str | None, *args: Any, **kwargs: Any) -> click.Context:
        return self.load().make_context(info_name, *args, **kwargs)

    def load(self) -> click.Command:
        """The command itself."""
        module, _, function = self._function.rpartition(".")
        try:
            command: click.Command = getattr(import_module(f"holdfast.cli.{module}"), function)
        except ModuleNotFoundError as error:
            mend = f"pip install 'holdfast[{self._extra}]'"
            Output().error(f"{self.name} needs {error.name}, which is not installed: {mend}")
            raise click.exceptions.Exit(console.UNAVAILABLE) from error
        return command


class Commands(click.Group):
    """Commands in the order of a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


_TABLE = [
    Lazy("run", "run.run", "Run a command while holding a lock."),
    Lazy("elect", "elect.elect", "Run a command while leading."),
    Lazy("ls", "operate.list_locks", "List the locks that are held."),
    Lazy("show", "operate.show_lock", "Show who holds a lock."),
    Lazy("break", "operate.break_lock", "Take a lock away from its holder."),
    Lazy("ddl", "operate.print_ddl", "Print the DDL of holdfast's tables."),
    Lazy("doctor", "operate.doctor", "Examine the servers."),
    Lazy("ui", "ui.serve", "Serve a page that shows all locks, live."),
    Lazy("watch", "watch.watch", "Watch the locks, live."),
    Lazy("lab", "lab.lab", "Try to break a lock, and see what happens."),
]


@click.group(
    cls=Commands, commands=_TABLE, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def holdfast() -> None:
    """Hold a distributed lock while a command runs, and see who holds what.

    The engine is --url, else $HOLDFAST_URL, else an SQLite file in your state folder.
    """


def main() -> NoReturn:
    """Run the program and exit."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it is closed, and no other file may take its number
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the end
    console.leave(
        console.code_of(lambda: holdfast.main(prog_name="holdfast", standalone_mode=False))
    )
