"""One connection to PostgreSQL, by libpq, without any waiting: whoever has it waits.

psycopg's own connections cannot be given up in time: a blocking one waits for its answer for ever,
and one of asyncio that is cancelled first waits for the server to hear of it.
"""

import select
from collections.abc import Callable
from itertools import count

import psycopg
from psycopg import pq

from holdfast.engines.inherited import detach
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.links import BrokenError, RefusedError, Row, SqlError
from holdfast.engines.sql.postgres.errors import plain, read_error
from holdfast.engines.sql.postgres.statements import GREETING, SETTLE, Statement, Text
from holdfast.engines.sql.wired import exchange, wait

_GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY)

_LOADERS: dict[int, Callable[[bytes], object]] = {
    16: lambda value: value == b"t",  # boolean
    17: pq.Escaping().unescape_bytea,  # bytea, whatever bytea_output is
    20: int,  # bigint
    23: int,  # integer
    701: float,  # double precision
}
"""By type; everything else is text."""


class Wire:
    """A connection that is made."""

    def __init__(self, connection: pq.abc.PGconn) -> None:
        self._connection = connection
        connection.nonblocking = 1
        self.fd: int = connection.socket
        self.direct = False
        """Whether the session is ours alone: then statements are prepared, and it can listen."""
        self._prepared: dict[Text, bytes] = {}
        self._numbers = count()
        self._then: tuple[Statement, bytes] | None = None
        self._rows: list[Row] = []
        self._error: SqlError | None = None
        self.unsent = False
        """Whether more is to be sent when it can be."""

    @property
    def pid(self) -> int:
        """The server process, as the server told it when it was connected to."""
        return self._connection.backend_pid

    @property
    def owes(self) -> bool:
        """Whether an answer is to come."""
        return self._connection.transaction_status == pq.TransactionStatus.ACTIVE

    def say(self, statement: Statement) -> None:
        """Send a statement, or as much as goes out now."""
        text, values = statement
        connection = self._connection
        self._rows, self._error, self._then = [], None, None
        try:
            if not values:
                connection.send_query(text.sql)
            elif not self.direct:
                connection.send_query_params(text.sql, [_dumped(value) for value in values])
            elif text in self._prepared:
                connection.send_query_prepared(
                    self._prepared[text], [_dumped(value) for value in values]
                )
            else:
                # A name is used once: nobody knows what became of one if we are interrupted here.
                name = b"holdfast_%d" % next(self._numbers)
                self._then = (statement, name)
                connection.send_prepare(name, text.sql)
            self.flush()
        except psycopg.Error as error:
            raise BrokenError(plain(str(error))) from error

    def flush(self) -> None:
        """Send what is left to send."""
        self.unsent = self._connection.flush() == 1

    def hear(self) -> list[Row] | None:
        """Read what has arrived: the rows, once the answer is complete."""
        connection = self._connection
        try:
            if self.unsent:
                self.flush()
            connection.consume_input()
            while not connection.is_busy():
                result = connection.get_result()
                if result is None:
                    return self._conclude()
                self._take(result)
        except psycopg.Error as error:
            raise BrokenError(plain(str(error))) from error
        return None

    def notifications(self) -> list[str]:
        """Read what has arrived without having been asked for: the payloads of notifications."""
        try:
            self._connection.consume_input()
            found = []
            while (notification := self._connection.notifies()) is not None:
                found.append(notification.extra.decode())
        except psycopg.Error as error:
            raise BrokenError(plain(str(error))) from error
        return found

    def is_whole(self) -> bool:
        """Whether the other end is still there, as far as we know."""
        try:
            self._connection.consume_input()
        except psycopg.Error:
            return False
        return self._connection.status == pq.ConnStatus.OK

    def close(self) -> None:
        """Close it. What it still owes may be carried out all the same."""
        self._connection.finish()

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        detach(self.fd)
        self._connection.finish()

    def _take(self, result: pq.abc.PGresult) -> None:
        if result.status in _GOOD:
            columns = [_LOADERS.get(result.ftype(n), bytes.decode) for n in range(result.nfields)]
            self._rows = [
                tuple(
                    None if (value := result.get_value(row, n)) is None else load(value)
                    for n, load in enumerate(columns)
                )
                for row in range(result.ntuples)
            ]
        elif self._error is None:
            state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
            message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
            self._error = read_error(
                state.decode(), (message or result.error_message).decode(errors="replace")
            )

    def _conclude(self) -> list[Row] | None:
        """All of an answer is there: give it, or say what was prepared."""
        then, self._then = self._then, None
        if self._error is not None:
            raise self._error
        if then is None:
            return self._rows
        statement, name = then
        self._prepared[statement[0]] = name
        self.say(statement)
        return None


def dial(conninfo: str, clock: ServerClock, until: float) -> Wire:
    """Connect, by blocking, and learn the server's clock."""
    connection = pq.PGconn.connect_start(conninfo.encode())
    try:
        while True:
            if connection.status == pq.ConnStatus.BAD:
                raise BrokenError(plain(connection.error_message.decode(errors="replace")))
            state = connection.connect_poll()
            if state == pq.PollingStatus.OK:
                break
            if state == pq.PollingStatus.READING:
                wait(connection.socket, select.POLLIN, until, clock.ours)
            elif state == pq.PollingStatus.WRITING:
                wait(connection.socket, select.POLLOUT, until, clock.ours)
        wire = Wire(connection)
        asked_at = clock.ours()
        [(pid, now)] = exchange(wire, GREETING(), until, clock.ours)
        clock.learn(asked_at, now)
        wire.direct = pid == wire.pid
        if wire.direct:
            exchange(wire, SETTLE(), until, clock.ours)
    except psycopg.Error as error:
        connection.finish()
        raise BrokenError(plain(str(error))) from error
    except RefusedError as error:
        connection.finish()
        raise BrokenError(str(error)) from error
    except BaseException:
        connection.finish()
        raise
    return wire


def _dumped(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    return str(value).encode()
