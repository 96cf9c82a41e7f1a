"""A virtual PostgreSQL server. It keeps its rows over a restart; its clock can be set."""

import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from holdfast.engines.sql.connection import BrokenError, SqlError
from holdfast.engines.sql.dialect import MICROSECONDS, Row, Statement
from holdfast.engines.sql.postgres.connection import read_error
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.server import BaseServer, Place, Receive
from holdfast.lab.simulator.sql.database import STATEMENTS, Database

TOO_MANY = "53300"
"""The SQLSTATE of a login that is refused, since there are too many connections."""


class Listen(NamedTuple):
    """A client wants what is notified on a channel."""

    channel: str
    receive: Receive


class SqlServer(BaseServer):
    """One server. It never loses what it has confirmed."""

    ERRORS = ("40001", "40P01", "25006", "57014", TOO_MANY)

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.data = Database(self._micros, self._notify, self._is_running)
        self._processes: dict[int, Connection] = {}
        self._pids = count(1)
        self._listeners: dict[tuple[str, Connection], Receive] = {}

    def close(self) -> None:
        """The run is over."""
        self.data.close()

    def login(self, connection: Connection) -> int | SqlError:
        """Start a process for a client that has connected; an error if that is refused."""
        if not self.accept(connection):
            return BrokenError("refused")
        if (state := self.refusal()) == TOO_MANY:
            return read_error(state, "sorry, too many clients already")
        pid = next(self._pids)
        self._processes[pid] = connection
        return pid

    def hang_up(self, connection: Connection) -> None:
        """It learns that a client has closed its connection."""
        self.connections.pop(connection, None)

    def answer(self, connection: Connection, data: Any, reply: Receive) -> None:
        """Run statements, or begin to listen."""
        if (state := self.refusal()) not in (None, TOO_MANY):
            return connection.to_client(lambda: reply(read_error(state, "refused")))
        if isinstance(data, Listen):
            self._listeners[data.channel, connection] = data.receive
            return connection.to_client(lambda: reply([]))
        pid = next(pid for pid, each in self._processes.items() if each is connection)
        expired, before = self._leases(ended=True), self._leases(ended=False)
        try:
            results = self.data.run(data, pid)
        except sqlite3.Error as error:
            self._internal_error(f"{self.name} got an invalid statement: {error}")
            return None
        self._check(data, expired, before)
        return connection.to_client(lambda: reply(results))

    def _check(self, statements: Sequence[Statement], expired: set[Row], before: set[Row]) -> None:
        """Late requests do nothing: an expired lease is not extended, and nothing is granted to a
        client that has given up."""
        sql, shared, now = STATEMENTS.dialect, STATEMENTS.dialect.shared, self._leases(ended=False)
        extensions = (sql.extend, sql.extend_many, shared.prolong)
        for text, values in statements:
            if text in extensions and expired & now:
                self._internal_error(f"{self.name} extended an expired lease")
            if text in (sql.acquire, shared.confirm) and now - before:
                deadline = values[text.names.index("deadline")]
                if self._micros() >= deadline:
                    self._internal_error(f"{self.name} granted a lock after the deadline")

    def places(self, key: str) -> Iterator[Place]:
        """Those that have a lock, and those that wait for it. One to which it is offered has no
        fence yet."""
        held = "SELECT holder, fence, expires, offered FROM held WHERE name = ?"
        for holder, fence, expires, offered in self.data.read(held, key.encode()):
            if expires > self._micros():
                ends_at = self.clock.true(expires / MICROSECONDS)
                yield Place(holder.decode(), True, None if offered else fence, ends_at)
        waiters = "SELECT holder FROM holdfast_leases_waiters WHERE name = ?"
        for (holder,) in self.data.read(waiters, key.encode()):
            yield Place(holder.decode(), False)

    def leftovers(self) -> list[str]:
        """What must not be there when every lock was released."""
        leases = "SELECT holder FROM holdfast_leases WHERE holder IS NOT NULL AND expires > ?"
        held = self.data.read(leases, self._micros())
        waiters = self.data.read("SELECT holder FROM holdfast_leases_waiters")
        return [
            *(holder.decode() for (holder,) in held),
            *(f"a place in the queue of {holder.decode()}" for (holder,) in waiters),
        ]

    def _leases(self, *, ended: bool) -> set[Row]:
        """The name and holder of each lease that has ended, or of each that has not."""
        leases = "SELECT name, holder FROM held WHERE NOT offered AND (expires <= ?) = ?"
        return set(self.data.read(leases, self._micros(), ended))

    def _micros(self) -> int:
        return round(self.clock() * MICROSECONDS)

    def _is_running(self, pid: int) -> bool:
        return self._processes.get(pid) in self.connections

    def _notify(self, channel: str, holder: str) -> None:
        for (listened, connection), receive in self._listeners.items():
            if listened == channel:
                connection.to_client(partial(receive, holder))
