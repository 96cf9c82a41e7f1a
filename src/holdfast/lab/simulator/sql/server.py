"""A virtual PostgreSQL server. It keeps its rows over a restart; its clock can be set."""

import sqlite3
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from holdfast.core.lease_state import LeaseState
from holdfast.engines.sql.dialect import MICROSECONDS, Row, Statement
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.server import PRECISION, BaseServer, Receive
from holdfast.lab.simulator.sql.database import STATEMENTS, Database


class Listen(NamedTuple):
    """A client wants what is notified on a channel."""

    channel: str
    receive: Receive


class SqlServer(BaseServer):
    """One server. It never loses what it has confirmed."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.data = Database(self._micros, self._notify, self._is_running)
        self._processes: dict[int, Connection] = {}
        self._pids = count(1)
        self._listeners: dict[tuple[str, Connection], Receive] = {}

    def login(self, connection: Connection) -> int:
        """Start a process for a client that has connected; 0 if the server is down."""
        if not self.accept(connection):
            return 0
        pid = next(self._pids)
        self._processes[pid] = connection
        return pid

    def hang_up(self, connection: Connection) -> None:
        """It learns that a client has closed its connection."""
        self.connections.pop(connection, None)

    def answer(self, connection: Connection, data: Any, reply: Receive) -> None:
        """Run statements, or begin to listen."""
        if isinstance(data, Listen):
            self._listeners[data.channel, connection] = data.receive
            return connection.to_client(lambda: reply([]))
        pid = next(pid for pid, each in self._processes.items() if each is connection)
        expired = self._expired()
        try:
            results = self.data.run(data, pid)
        except sqlite3.Error as error:
            self._internal_error(f"{self.name} got an invalid statement: {error}")
            return None
        self._check(data[0], results[0], expired)
        return connection.to_client(lambda: reply(results))

    def _check(self, statement: Statement, rows: list[Row], expired: set[Row]) -> None:
        """Late requests do nothing: an expired lease is not extended, and nothing is granted to a
        client that has given up."""
        text, values = statement
        if text in (STATEMENTS.dialect.extend, STATEMENTS.extend_all) and expired - self._expired():
            self._internal_error(f"{self.name} extended an expired lease")
        if text is STATEMENTS.dialect.acquire and rows[0][0] is not None:
            deadline = values[text.names.index("deadline")]
            if self._micros() >= deadline:
                self._internal_error(f"{self.name} granted a lock after the deadline")

    def knows(self, lease: LeaseState) -> bool:
        """Whether it has the lease, with its fence."""
        row = self._row(lease.spec.key, lease.holder)
        return row is not None and row[0] == lease.fence

    def backs(self, lease: LeaseState, until: float) -> bool:
        """Whether it keeps the lease until that instant, unless it is released."""
        row = self._row(lease.spec.key, lease.holder)
        return row is not None and self.clock.true(row[1] / MICROSECONDS) >= until - PRECISION

    def remains(self, key: str, holder: str) -> list[str]:
        """What it has of a holder that has released the lock."""
        mine = holder.encode()
        lease = "SELECT 1 FROM holdfast_leases WHERE name = ? AND holder = ? AND expires > ?"
        held = self.data.read(lease, key.encode(), mine, self._micros())
        queued = self.data.read("SELECT 1 FROM holdfast_leases_waiters WHERE holder = ?", mine)
        return [holder] * bool(held) + ["a place in the queue"] * bool(queued)

    def leftovers(self) -> list[str]:
        """What must not be there when every lock was released."""
        leases = "SELECT holder FROM holdfast_leases WHERE holder IS NOT NULL AND expires > ?"
        held = self.data.read(leases, self._micros())
        waiters = self.data.read("SELECT holder FROM holdfast_leases_waiters")
        return [
            *(holder.decode() for (holder,) in held),
            *(f"a place in the queue of {holder.decode()}" for (holder,) in waiters),
        ]

    def _expired(self) -> set[Row]:
        leases = "SELECT name, holder, expires FROM holdfast_leases WHERE holder IS NOT NULL"
        return set(self.data.read(f"{leases} AND expires <= ?", self._micros()))

    def _row(self, key: str, holder: str) -> tuple[int, int] | None:
        """The fence and the expiry of a lease."""
        lease = "SELECT fence, expires FROM holdfast_leases WHERE name = ? AND holder = ?"
        rows = self.data.read(f"{lease} AND NOT offered", key.encode(), holder.encode())
        return (rows[0][0], rows[0][1]) if rows else None

    def _micros(self) -> int:
        return round(self.clock() * MICROSECONDS)

    def _is_running(self, pid: int) -> bool:
        return self._processes.get(pid) in self.connections

    def _notify(self, channel: str, holder: str) -> None:
        for (listened, connection), receive in self._listeners.items():
            if listened == channel:
                connection.to_client(partial(receive, holder))
