"""`holdfast lab`: try to break a lock, on virtual time and on real servers."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click

from holdfast.cli.app import Commands

_HOME = {
    "demo": "holdfast.cli.lab.commands",
    "list": "holdfast.cli.lab.commands",
    "run": "holdfast.cli.lab.commands",
    "simulate": "holdfast.cli.lab.simulate",
    "model": "holdfast.cli.lab.model",
}


@click.group(cls=Commands, home=_HOME, extra="lab")
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


COMMANDS: dict[str, click.Command] = {"lab": lab}
