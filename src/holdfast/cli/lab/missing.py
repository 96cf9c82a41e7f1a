"""A program or a library that the lab needs and that is not here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from holdfast.cli import exits
from holdfast.cli.output import Output

EXTRAS = {
    "grpc": "etcd",
    "google": "etcd",
    "google.protobuf": "etcd",
    "kazoo": "zookeeper",
    "psycopg": "postgres",
}
"""What only `simulate --engine` needs, and the extra that has it."""


@contextmanager
def missing_programs_are_told() -> Iterator[None]:
    """Exit with 69, and say what is missing and how to install it."""
    from holdfast.lab.servers.process import ServerFailed
    from holdfast.lab.servers.programs import ProgramMissing

    try:
        yield
    except (ProgramMissing, ServerFailed) as error:
        Output().error(str(error))
        raise click.exceptions.Exit(exits.UNAVAILABLE) from error
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("holdfast"):
            raise
        extra = EXTRAS.get(error.name or "")
        extras = f"lab,{extra}" if extra else "lab"
        Output().error(
            f"this needs {error.name}, which is not installed: pip install 'holdfast[{extras}]'"
        )
        raise click.exceptions.Exit(exits.UNAVAILABLE) from error
