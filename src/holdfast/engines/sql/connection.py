"""A connection to an SQL server, as the store needs it, and how a statement can fail.

SqlError
 ├── BrokenError    the connection is unusable; the outcome of the statement is unknown
 ├── RefusedError   the server refused the statement; nothing was done
 ├── ConflictError  another transaction was in the way; nothing was done, worth another try
 └── MissingError   a table does not exist; nothing was done
"""

import select
from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Any, Protocol, TypeAlias

from holdfast.core.ports import Clock
from holdfast.engines.sql.dialect import Row, Statement

SILENT = "did not answer in time"
CLOSED = "the client was closed"


class SqlError(Exception):
    """A statement was not carried out, or its outcome is unknown; the text is the reason."""

    heals_in: float | None = None
    """As in `Failed`: None if another try may help, infinite if waiting will not."""


class BrokenError(SqlError):
    """The connection is gone, or did not answer in time."""


class RefusedError(SqlError):
    """The server refused the statement, or the login."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        """`is_final`: waiting will not help, as with a wrong password or a missing right."""
        super().__init__(why)
        self.heals_in = inf if is_final else None


class ConflictError(SqlError):
    """The statement met another one, and was undone."""


class MissingError(SqlError):
    """A table has yet to be made."""


class Connection(Protocol):
    """A blocking connection; used by one thread at a time."""

    def prepare_session(self, until: float) -> int:
        """Make the session ours; gives the server's clock in microseconds."""
        ...

    def create(self, statements: Any, until: float) -> None:
        """Make the tables. `statements`: those of the dialect."""
        ...

    def is_usable(self, until: float) -> bool:
        """Whether the server has not closed it, as far as is found out by that instant."""
        ...

    def run(self, statements: Sequence[Statement], until: float) -> list[list[Row]]:
        """Run one statement, or several as one transaction; the rows of each. Raises `SqlError`.
        After any other exception the connection must be closed."""
        ...

    def close(self) -> None:
        """Close it."""
        ...

    def forget(self) -> None:
        """In a forked child: close it here, and leave the parent's connection open."""
        ...


Connect: TypeAlias = Callable[[Clock, float], Connection]
"""Opens a connection by that instant of this clock; raises `SqlError`."""


def wait_for(
    readable: Sequence[int], writable: Sequence[int] = (), seconds: float | None = None
) -> bool:
    """Wait until one of these descriptors is ready; False if none was in time (None: forever). By
    functions of `select` that gevent and eventlet replace; eventlet has no `poll`."""
    seconds = None if seconds is None else max(0.0, seconds)
    if not hasattr(select, "poll"):
        return any(select.select(readable, writable, [], seconds))
    poller = select.poll()
    for fd in {*readable, *writable}:
        poller.register(
            fd,
            (select.POLLIN if fd in readable else 0) | (select.POLLOUT if fd in writable else 0),
        )
    return bool(poller.poll(None if seconds is None else ceil(seconds * 1000)))
