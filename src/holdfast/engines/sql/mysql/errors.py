"""What the errors of MariaDB and MySQL mean for a lock."""

from holdfast.engines.sql.links import (
    BrokenError,
    ConflictError,
    MissingError,
    RefusedError,
    SqlError,
)


class LockedError(ConflictError):
    """Somebody has had a lock on the row, or on the table, for longer than we wait for it."""


_KINDS: dict[int, type[SqlError]] = {
    1205: LockedError,
    1020: ConflictError,  # the row has changed since it was read
    1213: ConflictError,  # deadlock; and a node of a cluster that was not the first to commit
    1062: ConflictError,  # two made the same row at once
    1317: ConflictError,  # somebody has ended the statement
    1146: MissingError,
    1047: BrokenError,  # a node of a cluster that is not ready
    1053: BrokenError,  # the server shuts down
    1927: BrokenError,  # somebody has killed the connection
    1243: BrokenError,  # somebody has forgotten our prepared statements
    1615: BrokenError,  # the table was altered under a prepared statement
    1036: BrokenError,  # read only: another connection may lead to another server
    1290: BrokenError,
    1792: BrokenError,
    1836: BrokenError,
}

_READ_ONLY = "this server cannot be written: it is a replica, or read_only is on; name the primary"

_MEANINGS = {
    1036: _READ_ONLY,
    1290: _READ_ONLY,
    1792: _READ_ONLY,
    1836: _READ_ONLY,
    1040: "the server has no connection left for us; see max_connections",
    1203: "this user has no connection left; see max_user_connections",
    1461: "the server prepares no more statements; see max_prepared_stmt_count",
    1665: "binlog_format is STATEMENT, which does not know READ COMMITTED; let it be MIXED",
    1969: "the statement took too long, and was ended",
    1045: "the login was refused",
    1044: "this user may not use the database",
    1049: "there is no such database",
    1406: "the name is too long, with its prefix",
}


def read_error(number: int, message: str) -> SqlError:
    """The error for a number of the server's."""
    meaning = _MEANINGS.get(number)
    return _KINDS.get(number, RefusedError)(f"{meaning} ({message})" if meaning else message)
