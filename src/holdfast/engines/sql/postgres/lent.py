"""A connection that is lent by a user's own pool: psycopg's, with libpq inside. Our wire is laid
over it between two statements of the user's, and the session is left as it was found.
"""

from collections.abc import Callable
from typing import Any

from psycopg import pq

from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.links import BrokenError, RefusedError, Row
from holdfast.engines.sql.pools.lenders import IN_TRANSACTION
from holdfast.engines.sql.postgres.statements import (
    LEFTOVERS,
    LENT_GREETING,
    OURS,
    SETTLE_LENT,
    Statement,
    Text,
)
from holdfast.engines.sql.postgres.wire import Wire
from holdfast.engines.sql.wired import exchange

_IN_TRANSACTION = (
    pq.TransactionStatus.ACTIVE,
    pq.TransactionStatus.INTRANS,
    pq.TransactionStatus.INERROR,
)


class LentWire(Wire):
    """A wire whose end is not to be closed, but given back."""

    def __init__(self, connection: pq.abc.PGconn, clock: ServerClock) -> None:
        was_nonblocking = connection.nonblocking
        super().__init__(connection)
        self._clock = clock
        self._was_nonblocking = was_nonblocking
        self._was_set: tuple[str, ...] = ()
        self._in_doubt = False
        self.give_back: Callable[[], None] = self.hang_up

    def greet(self, until: float) -> None:
        """Learn the server's clock, and set the session to what we need."""
        asked_at = self._clock.ours()
        [(pid, now, *was_set)] = self._say(LENT_GREETING(), until)
        self._clock.learn(asked_at, now)
        if pid == self.pid:
            self._say(SETTLE_LENT(*OURS), until)
            self._was_set = tuple(was_set)
            self.direct = True

    @property
    def is_sound(self) -> bool:
        """Whether it owes nothing, and nothing about it is in doubt."""
        status = self._connection.transaction_status
        return not self._in_doubt and status == pq.TransactionStatus.IDLE

    def hear(self) -> list[Row] | None:
        """Read what has arrived: the rows, once the answer is complete."""
        try:
            return super().hear()
        except BrokenError:
            self._in_doubt = True  # also if it is well, but leads to a server that is of no use
            raise

    def take_leave(self, until: float) -> None:
        """Undo all that we have done to the session."""
        if self.direct:
            undoing = "; ".join(undo for (undo,) in self._say(LEFTOVERS(), until))
            if undoing:
                self._say(Text(undoing.encode())(), until)
            self.direct = False  # nothing is to be prepared any more
            self._say(SETTLE_LENT(*self._was_set), until)
            self.notifications()  # they were for us
        self._connection.nonblocking = self._was_nonblocking

    def close(self) -> None:
        """Give it back."""
        self.give_back()

    def hang_up(self) -> None:
        """Close it: there is nobody any more to whom it could be given back."""
        self._connection.finish()

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        if self._connection.status != pq.ConnStatus.BAD:
            super().forget()

    def _say(self, statement: Statement, until: float) -> list[Row]:
        return exchange(self, statement, until, self._clock.ours)


def greet(connection: Any, clock: ServerClock, until: float) -> LentWire:
    """Begin a conversation on a connection of psycopg's, of either colour."""
    if connection.pgconn.transaction_status in _IN_TRANSACTION:
        raise RefusedError(IN_TRANSACTION)
    wire = LentWire(connection.pgconn, clock)
    wire.greet(until)
    return wire
