"""One PostgreSQL server, as one client knows it."""

from collections.abc import Callable, Sequence

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Extend
from holdfast.core.ports import StoreHost
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.commands import Commands
from holdfast.engines.sql.connection import RefusedError
from holdfast.engines.sql.dialect import MICROSECONDS, VERSION, Statement, Steps
from holdfast.engines.sql.postgres.commands import SETTLE, Statements
from holdfast.engines.sql.postgres.connection import PostgresConnection, handshake
from holdfast.engines.sql.postgres.waiters import ThreadWaiters

Connect = Callable[[float], PostgresConnection]
"""Opens a connection by that instant."""


class PostgresServer:
    """How it is reached, and what is in it."""

    def __init__(
        self, connect: Connect, node: str, statements: Statements, host: StoreHost
    ) -> None:
        self._connect, self._statements = connect, statements
        self.clock = host.clock
        self.server_clock = ServerClock(host.clock)
        self.waiters = ThreadWaiters(host.clock, host.notify, self.connect)
        self.commands = Commands(node, statements.dialect, self.server_clock, self.waiters)
        self.ddl = statements.ddl
        self.version: tuple[Statement, int] = statements.version(), VERSION

    def connect(self, until: float) -> PostgresConnection:
        """Open a connection, and learn the server's clock."""
        connection = self._connect(until)
        try:
            asked_at = self.clock()
            self.server_clock.learn(asked_at, handshake(connection, until))
        except BaseException:
            connection.close()
            raise
        return connection

    def create(self, connection: PostgresConnection, until: float) -> None:
        """Make the tables, or bring those of the first release up to date."""
        connection.run_text("RESET search_path", until)  # to see where it led in the first release
        [strays] = connection.run((self._statements.strays(),), until)
        if connection.is_direct:
            connection.run_text(SETTLE.sql, until)
        if strays:
            raise RefusedError(
                f"there is a lease table in the schema {strays[0][0]}, where search_path leads; "
                f"to go on with it, give table={strays[0][0]}.{self._statements.names['plain']}",
                is_final=True,
            )
        connection.run_text(self._statements.create.sql, until)

    def extend_all(self, requests: Sequence[Extend]) -> Steps[list[Answer]]:
        """Many extensions in one statement."""
        [rows] = yield (
            self._statements.extend_all(
                keys=[request.key for request in requests],
                holders=[request.holder for request in requests],
                ttls=[round(request.ttl * MICROSECONDS) for request in requests],
            ),
        )
        done = {bytes(holder).decode() for (holder,) in rows}
        return [DONE if request.holder in done else NOT_YOURS for request in requests]
