"""`holdfast lab`: try to break a lock, on virtual time and on real servers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import click

from holdfast.cli import Commands, Lazy, console
from holdfast.cli.console import Output
from holdfast.lab.pictures.text import Terminal
from holdfast.lab.servers.process import ProgramMissing, ServerFailed

_TABLE = [
    Lazy("demo", "lab.scenarios.demo", "Processes compete for one lock; no server."),
    Lazy("list", "lab.scenarios.list_", "List the failures that can be run."),
    Lazy("run", "lab.scenarios.run", "Run one, and show what happened and why."),
    Lazy(
        "simulate", "lab.simulate.simulate", "Play thousands of runs on virtual time.", extra="lab"
    ),
    Lazy("model", "lab.simulate.model", "Check a quorum exhaustively.", extra="lab"),
]


@click.group(cls=Commands, commands=_TABLE)
def lab() -> None:
    """Try to break a lock, and see what happens.

    \b
    holdfast lab demo        processes compete for one lock, and one is killed; needs no server
    holdfast lab list        the classic failures that can be run here
    holdfast lab run pause   one of them, on real servers, with a picture and the reasons

    The others need no server: `simulate` tries to break holdfast on virtual time, and `model` goes
    through every order in which a few steps can happen.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack the characters of pictures


NARROWEST, WIDEST = 60, 110


def terminal() -> Terminal:
    """Where pictures are shown."""
    columns = shutil.get_terminal_size((WIDEST, 24)).columns
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return Terminal(max(NARROWEST, min(columns - 1, WIDEST)), colour)


EXTRAS = {"grpc": "etcd", "google": "etcd", "kazoo": "zookeeper", "psycopg": "postgres"}
"""What only `simulate --engine` needs, and the extra that has it."""


@contextmanager
def missing_programs_are_told() -> Iterator[None]:
    """Exit with 69, and say what is missing and how to install it."""
    try:
        yield
    except (ProgramMissing, ServerFailed) as error:
        Output().error(str(error))
        raise click.exceptions.Exit(console.UNAVAILABLE) from error
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library == "holdfast":
            raise
        extras = ",".join(filter(None, ("lab", EXTRAS.get(library))))
        Output().error(
            f"this needs {library}, which is not installed: pip install 'holdfast[{extras}]'"
        )
        raise click.exceptions.Exit(console.UNAVAILABLE) from error
