"""The store of an SQL server, for threads. A thread takes a free connection, or opens another."""

import random
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from holdfast.core.effects import Sleep, perform
from holdfast.core.messages import Answer, Request
from holdfast.core.ports import StoreHost
from holdfast.engines.sql.connection import Connect, Connection, SqlError
from holdfast.engines.sql.dialect import Statements
from holdfast.engines.sql.exchanges import Create, Effect, Enter, Exchanges, Open, Run
from holdfast.engines.sql.waiters import Waiters


class ServerStore:
    """One server, over at most `connections` connections."""

    def __init__(
        self,
        host: StoreHost,
        node: str,
        connect: Connect,
        statements: Statements,
        waiters: Callable[[StoreHost, Callable[[float], Any]], Waiters],
        connections: int,
    ) -> None:
        """`waiters`: makes them, given a way to open a connection by an instant."""
        self._connect, self._clock, self._connections = connect, host.clock, connections
        own = waiters(host, self._open)
        self._exchanges = Exchanges(node, statements, host.clock, random.uniform, own, connections)
        self._begin()

    def _begin(self) -> None:
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._connections):
            self._permits.put(None)

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        permits: list[None] = []

        def do(effect: Effect) -> Any:
            match effect:
                case Run(connection, statements, until):
                    return connection.run(statements, until)
                case Enter(until):
                    return self._enter(until, permits)
                case Open(until):
                    return self._open(until)
                case Create(connection, until):
                    return connection.create(self._exchanges.statements, until)
                case Sleep(until):
                    return time.sleep(max(0.0, until - self._clock()))

        try:
            return perform(self._exchanges.ask(requests, until), do, SqlError)
        finally:
            if permits:
                self._permits.put(None)

    def close(self) -> None:
        """Close every connection."""
        self._exchanges.close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for connection in self._exchanges.connections:
            connection.forget()
        self._exchanges.waiters.forget()
        self._exchanges.begin()
        self._begin()

    def _open(self, until: float) -> Connection:
        """Open a connection, and learn the server's clock; raises `SqlError`."""
        connection = self._connect(self._clock, until)
        try:
            asked_at = self._clock()
            self._exchanges.server_clock.learn(asked_at, connection.prepare_session(until))
        except BaseException:
            connection.close()
            raise
        return connection

    def _enter(self, until: float, permits: list[None]) -> bool:
        """Get a permit into the list. A Ctrl-C between taking it and noting it would lose it for
        good, so both are one call, in which no signal handler runs."""
        timeout = max(0.0, until - self._clock())
        try:
            permits.extend(map(self._permits.get, [True], [timeout]))
        except Empty:
            return False
        return True
