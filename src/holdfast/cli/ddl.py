"""`holdfast ddl`: the DDL of the tables, for migrations."""

from __future__ import annotations

import click

from holdfast.cli.options import bad_arguments_are_usage_errors, url_option


@click.command("ddl", short_help="Print the DDL of holdfast's tables.")
@url_option
def print_ddl(url: str | None) -> None:
    """Print the DDL of holdfast's tables for a database: PostgreSQL, MariaDB, MySQL or SQLite.

    Clients create the tables on first use, if their role may. This command makes no connection.
    """
    from holdfast import schema

    with bad_arguments_are_usage_errors():
        click.echo(schema.ddl(url))


COMMANDS = {"ddl": print_ddl}
