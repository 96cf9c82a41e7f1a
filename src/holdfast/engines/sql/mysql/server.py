"""One MariaDB or MySQL server, as one client knows it."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.messages import Answer, Extend
from holdfast.core.ports import StoreHost
from holdfast.engines.sql.dialect import MICROSECONDS, Steps
from holdfast.engines.sql.mysql.commands import LOCK_TABLES, UNLOCK_TABLES, Statements
from holdfast.engines.sql.mysql.connection import MySqlConnection
from holdfast.engines.sql.server import Server
from holdfast.engines.sql.waiters import Waiters

AT_ONCE = 100
"""How many leases one statement extends."""


class MySqlServer(Server):
    """How it is reached, and what is in it."""

    def __init__(
        self, connect: Callable[[float], Any], node: str, statements: Statements, host: StoreHost
    ) -> None:
        self._statements = statements
        super().__init__(connect, node, statements, host, Waiters(host.clock, host.notify))

    def _settle(self, connection: MySqlConnection, until: float) -> int:
        return connection.settle(until, needs_mariadb=self._statements.returns)

    def create(self, connection: MySqlConnection, until: float) -> None:
        """Make the tables, or bring those of earlier versions up to date. The version comes last:
        what was interrupted is done again."""
        connection.run_text(LOCK_TABLES, until)
        try:
            for is_needed, upgrade in self._statements.upgrades:
                [rows] = connection.run((is_needed(),), until)
                if rows:
                    connection.run((upgrade(),), until)
            for text in self._statements.create:
                connection.run((text(),), until)
        finally:
            connection.run_text(UNLOCK_TABLES, until)

    def extend_all(self, requests: Sequence[Extend]) -> Steps[list[Answer]]:
        """Many extensions in few statements."""
        answers: list[Answer] = []
        for first in range(0, len(requests), AT_ONCE):
            answers += yield from self._extend_some(requests[first : first + AT_ONCE])
        return answers

    def _extend_some(self, requests: Sequence[Extend]) -> Steps[list[Answer]]:
        """All in one statement; if it did not find them all, one by one, to know which."""
        done: set[str] = set()
        alone = [each for each in requests if self.waiters.row_holder(each.holder)]
        ttls = {round(request.ttl * MICROSECONDS) for request in alone}
        if len(ttls) == 1:
            keys = [request.key for request in alone]
            holders = [self.waiters.row_holder(request.holder) for request in alone]
            [rows] = yield (self._statements.extend_many(ttls.pop(), keys, holders),)
            if rows and rows[0][0] == len(alone):
                done = {request.holder for request in alone}
        return (yield from self.commands.extend_rest(requests, done))
