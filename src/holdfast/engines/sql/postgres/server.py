"""One PostgreSQL server, as one client knows it."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.messages import Answer, Extend
from holdfast.core.ports import StoreHost
from holdfast.engines.sql.connection import RefusedError
from holdfast.engines.sql.dialect import MICROSECONDS, Steps
from holdfast.engines.sql.postgres.commands import SETTLE, Statements
from holdfast.engines.sql.postgres.connection import PostgresConnection
from holdfast.engines.sql.postgres.waiters import ListeningWaiters
from holdfast.engines.sql.server import Server
from holdfast.engines.sql.shares import read_holder


class PostgresServer(Server):
    """How it is reached, and what is in it."""

    def __init__(
        self, connect: Callable[[float], Any], node: str, statements: Statements, host: StoreHost
    ) -> None:
        self._statements = statements
        self.waiters: ListeningWaiters = ListeningWaiters(host.clock, host.notify, self.connect)
        super().__init__(connect, node, statements, host, self.waiters)

    def _settle(self, connection: PostgresConnection, until: float) -> int:
        return connection.settle(until)

    def create(self, connection: PostgresConnection, until: float) -> None:
        """Make the tables, or bring those of the first release up to date."""
        connection.run_text("RESET search_path", until)  # to see where it led in the first release
        [strays] = connection.run((self._statements.strays(),), until)
        if connection.is_direct:
            connection.run_text(SETTLE, until)
        if strays:
            raise RefusedError(
                f"there is a lease table in the schema {strays[0][0]}, where search_path leads; "
                f"to go on with it, give table={strays[0][0]}.{self._statements.names['plain']}",
                is_final=True,
            )
        connection.run_text(self._statements.create, until)

    def extend_all(self, requests: Sequence[Extend]) -> Steps[list[Answer]]:
        """Many extensions in one statement."""
        [rows] = yield (
            self._statements.extend_all(
                keys=[request.key for request in requests],
                holders=[self.waiters.row_holder(request.holder) for request in requests],
                ttls=[round(request.ttl * MICROSECONDS) for request in requests],
            ),
        )
        done = {read_holder(bytes(holder).decode())[0] for (holder,) in rows}
        return (yield from self.commands.extend_rest(requests, done))
