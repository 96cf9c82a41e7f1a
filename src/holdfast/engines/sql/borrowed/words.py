"""What libraries differ in: how a value's place is marked, and how an error is told."""

import re


def percent(sql: str) -> str:
    """Named values (`:name`) as the libraries of PostgreSQL and MySQL want them.

    >>> percent("SELECT :fence")
    'SELECT %(fence)s'
    """
    return re.sub(r":([a-z]+)", r"%(\1)s", sql)


def is_missing_table(error: Exception) -> bool:
    """Whether it says that there is no such table."""
    cause = _cause(error)
    return (
        getattr(cause, "sqlstate", None) == "42P01"
        or cause.args[:1] == (1146,)
        or str(cause).startswith("no such table")
    )


def is_overtaken(error: Exception) -> bool:
    """Whether it says that a row, or a table, has changed since the transaction took its snapshot.
    PostgreSQL gives the same code, but a reason with it, when it cannot serialise transactions."""
    cause = _cause(error)
    if cause.args[:1] in ((1020,), (1412,)):  # MariaDB; the first with innodb_snapshot_isolation
        return True
    reason = getattr(getattr(cause, "diag", None), "message_detail", None)
    return getattr(cause, "sqlstate", None) == "40001" and reason is None


def _cause(error: Exception) -> Exception:
    """SQLAlchemy wraps what the library below it has raised."""
    return getattr(error, "orig", None) or error
