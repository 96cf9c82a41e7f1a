"""A connection to an SQL server, as the two stores need it, and how it may fail.

A link says one statement at a time. Whatever it raises is one of these:

    SqlError
     ├── BrokenError    the connection is of no use any more; nobody knows what became of it
     ├── RefusedError   the server said no; nothing was done, and asking again is of no use
     ├── ConflictError  somebody else was in the way; nothing was done, so it may be said again
     └── MissingError   there is no such table; nothing was done
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]

CLOSED = "the client was closed"


class SqlError(Exception):
    """A statement was not carried out, or nobody knows; the text says why."""


class BrokenError(SqlError):
    """The connection is gone, or owes an answer that did not come in time."""


class RefusedError(SqlError):
    """The server has refused the statement."""


class ConflictError(SqlError):
    """The statement met another one, and was undone."""


class MissingError(SqlError):
    """The table has yet to be made."""


class Link(Protocol):
    """A blocking connection; used by one thread at a time."""

    def is_well(self) -> bool:
        """Whether it can be used, as far as that can be told without asking."""
        ...

    def exchange(self, statement: Any, until: float) -> list[Row]:
        """Say a statement and give its rows. If anything but an `SqlError` interrupts it, the link
        still owes the answer: see `drain`."""
        ...

    def drain(self, until: float) -> None:
        """Wait for the answer that it still owes, and drop it."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        ...


class AsyncLink(Protocol):
    """The same for asyncio."""

    @property
    def owes(self) -> bool:
        """Whether an answer is to come, for which nobody may be waiting any more."""
        ...

    def is_well(self) -> bool:
        """Whether it can be used, as far as that can be told without asking."""
        ...

    async def exchange(self, statement: Any, until: float) -> list[Row]:
        """Say a statement and give its rows. If it is cancelled, the answer still comes, or fails
        to come by `until`: see `when_answered`."""
        ...

    def when_answered(self, then: Callable[[], None]) -> None:
        """Call `then` when it owes nothing any more, well or not."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        ...
