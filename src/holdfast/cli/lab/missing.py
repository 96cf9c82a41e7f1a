"""A program or a library that the lab needs and that is not here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from holdfast.cli import exits
from holdfast.cli.say import Say
from holdfast.lab.servers.process import ServerFailed
from holdfast.lab.servers.programs import ProgramMissing


@contextmanager
def missing_programs_are_told() -> Iterator[None]:
    """Say what is missing and how to get it, with an exit code of its own."""
    try:
        yield
    except (ProgramMissing, ServerFailed) as error:
        Say().error(str(error))
        raise click.exceptions.Exit(exits.UNAVAILABLE) from error
