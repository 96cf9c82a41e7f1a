"""One SQL server, as one client knows it: what PostgreSQL and MariaDB have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.messages import Answer, Extend
from holdfast.core.ports import StoreHost
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.commands import Commands
from holdfast.engines.sql.dialect import Statements, Steps
from holdfast.engines.sql.waiters import Waiters


class Server(ABC):
    """How it is reached, and what is in it."""

    def __init__(
        self,
        connect: Callable[[float], Any],
        node: str,
        statements: Statements,
        host: StoreHost,
        waiters: Waiters,
    ) -> None:
        """`connect` opens a connection by that instant; it raises `SqlError`."""
        self._connect, self.clock, self.waiters = connect, host.clock, waiters
        self.server_clock = ServerClock(host.clock)
        self.commands = Commands(node, statements.dialect, self.server_clock, waiters)
        self.ddl, self.version = statements.ddl, statements.version()

    def connect(self, until: float) -> Any:
        """Open a connection, and learn the server's clock; raises `SqlError`."""
        connection = self._connect(until)
        try:
            asked_at = self.clock()
            self.server_clock.learn(asked_at, self._settle(connection, until))
        except BaseException:
            connection.close()
            raise
        return connection

    @abstractmethod
    def _settle(self, connection: Any, until: float) -> int:
        """Make the session ours; gives the server's clock in microseconds."""

    @abstractmethod
    def create(self, connection: Any, until: float) -> None:
        """Make the tables, or bring them up to date; raises `SqlError`."""

    @abstractmethod
    def extend_all(self, requests: Sequence[Extend]) -> Steps[list[Answer]]:
        """The command for many extensions at once."""
