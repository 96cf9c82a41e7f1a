"""A connection that is lent by a user's own pool: PyMySQL's. Our wire is laid over its socket
between two statements of the user's, and the session is left as it was found.
"""

from collections.abc import Callable
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from holdfast.engines.inherited import detach
from holdfast.engines.sql.adapters import mysql_in_transaction as in_transaction
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.links import BrokenError, RefusedError, Row
from holdfast.engines.sql.mysql.packets import closing
from holdfast.engines.sql.mysql.statements import (
    LENT_MARIADB,
    LENT_MYSQL,
    SETTLE,
    Lent,
    Statement,
    Text,
)
from holdfast.engines.sql.mysql.wire import Wire, insist_on_mariadb
from holdfast.engines.sql.pools.lenders import IN_TRANSACTION
from holdfast.engines.sql.wired import exchange

NO_FOUND_ROWS = (
    "the pool's connections do not count the rows that an UPDATE finds, but those that it changes; "
    "let them be made with client_flag=FOUND_ROWS, as SQLAlchemy does unless it is given a creator"
)


class LentWire(Wire):
    """A wire whose end is not to be closed, but given back."""

    def __init__(self, connection: pymysql.Connection, clock: ServerClock) -> None:
        super().__init__(connection)
        self._clock = clock
        self._words = words_for(connection)
        self._was_set: Row = ()
        self._in_doubt = False
        self.give_back: Callable[[], None] = self.hang_up

    def greet(self, until: float) -> None:
        """Learn the server's clock, and set the session to what we need."""
        asked_at = self._clock.ours()
        [(now, is_in_transaction, *was_set)] = self._exchange(self._words.greeting(1), until)
        self._clock.learn(asked_at, now / 1_000_000)
        if is_in_transaction:
            raise RefusedError(IN_TRANSACTION)
        for sql in SETTLE:
            self._exchange(Text(sql.encode(), ())(), until)
        self._was_set = tuple(was_set)

    @property
    def is_sound(self) -> bool:
        """Whether it owes nothing, and nothing about it is in doubt."""
        return not self._in_doubt and not self.owes

    def hear(self) -> list[Row] | None:
        """Send what is left to send, and read what has arrived: the rows, once all are there."""
        try:
            return super().hear()
        except BrokenError:
            self._in_doubt = True  # also if it is well, but leads to a server that is of no use
            raise

    def take_leave(self, until: float) -> None:
        """Undo all that we have done to the session."""
        self._exchange(self._words.resettle(*self._was_set), until)
        self._outgoing = b"".join(closing(statement) for statement in self._prepared.values())
        self._flush()
        if self.unsent:
            raise BrokenError("the server did not take our goodbye")
        self._socket.settimeout(self._patience)

    def close(self) -> None:
        """Give it back."""
        self.give_back()

    def hang_up(self) -> None:
        """Close it: there is nobody any more to whom it could be given back."""
        super().close()

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        detach(self.fd)

    def _exchange(self, statement: Statement, until: float) -> list[Row]:
        return exchange(self, statement, until, self._clock.ours)


def greet(connection: Any, clock: ServerClock, until: float, *, returns: bool) -> LentWire:
    """Begin a conversation on a connection of PyMySQL's."""
    check(connection, returns=returns)
    wire = LentWire(connection, clock)
    wire.greet(until)
    return wire


def check(connection: Any, *, returns: bool) -> None:
    """Raise unless we can speak on a connection, of PyMySQL's or of a library like it."""
    if in_transaction(connection):
        raise RefusedError(IN_TRANSACTION)
    flags = getattr(connection, "client_flag", None) or getattr(connection, "_client_flag", 0)
    if not flags & CLIENT.FOUND_ROWS:
        raise RefusedError(NO_FOUND_ROWS)
    if returns:
        insist_on_mariadb(connection.get_server_info())


def words_for(connection: Any) -> Lent:
    """What to say to its server."""
    return LENT_MARIADB if "MariaDB" in connection.get_server_info() else LENT_MYSQL
