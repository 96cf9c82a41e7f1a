"""What PostgreSQL's errors mean for a lock."""

from holdfast.engines.sql.links import (
    BrokenError,
    ConflictError,
    MissingError,
    RefusedError,
    SqlError,
)

_KINDS: dict[str, type[SqlError]] = {
    "08": BrokenError,  # connection exceptions
    "57P": BrokenError,  # the server, or somebody on it, has ended the connection
    "25006": BrokenError,  # read only: another connection may lead to another server
    "26000": BrokenError,  # somebody has deallocated our prepared statements
    "0A000": BrokenError,  # the table was altered under a prepared statement
    "40001": ConflictError,  # could not serialise
    "40P01": ConflictError,  # deadlock
    "23505": ConflictError,  # two made the same row, or the same table, at once
    "42P01": MissingError,
    "3F000": RefusedError,
}
"""By the beginning of the code."""

_MEANINGS = {
    "25006": (
        "this server cannot be written: it is a standby, or default_transaction_read_only is on; "
        "name the primary, or several hosts with target_session_attrs=read-write"
    ),
    "53300": "the server has no connection left for us; see max_connections",
    "57014": "the server has cancelled the statement; see statement_timeout",
    "28P01": "the password was refused",
    "28000": "the login was refused",
    "3D000": "there is no such database",
    "3F000": "there is no such schema, or this role may not use it",
}


def read_error(state: str, message: str) -> SqlError:
    """The error for an SQLSTATE; without one the connection is gone."""
    if not state:
        return BrokenError(plain(message) or "the connection is gone")
    kind = next((_KINDS[state[:n]] for n in (5, 3, 2) if state[:n] in _KINDS), RefusedError)
    meaning = _MEANINGS.get(state)
    text = plain(message)
    return kind(f"{meaning} ({text})" if meaning else text)


def plain(message: str) -> str:
    """The first line of what libpq says."""
    lines = message.strip().splitlines()
    return lines[0].strip() if lines else ""
