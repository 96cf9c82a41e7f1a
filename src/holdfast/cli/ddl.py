"""`holdfast ddl`: what makes the tables, for those who do it by migrations."""

from __future__ import annotations

import click

from holdfast.cli.options import bad_arguments_are_usage_errors, url_option


@click.command("ddl", short_help="Print what makes holdfast's tables in a database.")
@url_option
def print_ddl(url: str | None) -> None:
    """Print what makes holdfast's tables in a database: PostgreSQL, MariaDB, MySQL or SQLite.

    Clients make them when they first need them, if their role may. This connects to nothing.
    """
    from holdfast import schema

    with bad_arguments_are_usage_errors():
        click.echo(schema.ddl(url))


COMMANDS = {"ddl": print_ddl}
