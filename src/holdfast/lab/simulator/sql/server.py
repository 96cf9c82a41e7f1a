"""A virtual PostgreSQL server: an SQLite database in memory runs the engine's own statements.

What only PostgreSQL has is a function here (the clock, notifications, processes), or is written as
SQLite has it (`RULES`). Statements and transactions are run one at a time, so locks of rows are
left out. The server keeps its rows over a restart; its clock can be set."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

from holdfast.engines.sql.dialect import LEASES, MICROSECONDS, Results, Row, Statement
from holdfast.engines.sql.postgres.commands import NOW, Statements
from holdfast.engines.sql.postgres.connection import read_error
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.server import BaseServer, Place, Receive

STATEMENTS = Statements(LEASES)

RULES = (
    (re.escape(NOW), "micros()"),
    (r"EXISTS \(SELECT 1 FROM pg_stat_get_activity\(pid\)\)", "is_running(pid)"),
    (r" FOR (NO KEY )?UPDATE( SKIP LOCKED)?", ""),
    (r"CAST\((\$\d+) AS (?!text)[\w\[\]]+\)", r"\1"),
    (r"= ANY\((\$\d+)\)", r"IN (SELECT CAST(value AS blob) FROM json_each(\1))"),
    (r'"public"\.', ""),
    (r" WITH \(fillfactor = 70\)", ""),
)
"""What is written differently in SQLite."""

HELD = """
CREATE TEMP VIEW held AS
SELECT name, fence, expires, offered, holder
FROM holdfast_leases WHERE holder <> CAST('(shared)' AS blob)
UNION ALL
SELECT m.name, l.fence, m.expires, m.offered, m.holder
FROM holdfast_leases_members AS m JOIN holdfast_leases AS l ON l.name = m.name
WHERE l.holder = CAST('(shared)' AS blob)
"""
"""For an observer: the leases, and the shares of a lock, held alone or together."""

TWO_CHANGES = re.compile(
    r"WITH taken AS \( ?(UPDATE .*) ?\), made AS \( ?(INSERT .* RETURNING fence) ?\) (SELECT .*)"
)
"""A query over two changes. Here, each is a statement, and its rows are a table."""


class Database:
    """Tables of the engine. Each statement, or transaction, is done wholly or not at all."""

    def __init__(
        self,
        micros: Callable[[], int],
        notify: Callable[[str, str], None],
        is_running: Callable[[int], bool],
    ) -> None:
        """`notify`: a channel, and the holder that a notification there is for."""
        self._notify = notify
        self._notifications: list[tuple[str, str]] = []
        self._pid = 0
        self._sqlite = sqlite3.connect(":memory:", isolation_level=None)
        for name, function in (
            ("micros", micros),
            ("is_running", is_running),
            ("pg_backend_pid", lambda: self._pid),
            ("pg_notify", lambda channel, text: self._notifications.append((channel, text))),
            ("encode", lambda value, kind: value.hex() if kind == "hex" else value.decode()),
            ("greatest", lambda *values: max(each for each in values if each is not None)),
            ("least", lambda *values: min(each for each in values if each is not None)),
        ):
            self._sqlite.create_function(name, -1, function)
        self._sqlite.executescript(
            f"{translated(STATEMENTS.ddl)}"
            f"CREATE TEMP TABLE taken (fence); CREATE TEMP TABLE made (fence); {HELD}"
        )

    def close(self) -> None:
        self._sqlite.close()

    def run(self, statements: Sequence[Statement], pid: int) -> Results:
        """Run them as one transaction, in that process; then send its notifications."""
        self._pid = pid
        self._notifications.clear()
        self._sqlite.execute("BEGIN")
        try:
            results = [self._run(translated(text.sql), values) for text, values in statements]
        except BaseException:
            self._sqlite.execute("ROLLBACK")
            raise
        self._sqlite.execute("COMMIT")
        for channel, text in self._notifications:
            self._notify(channel, bytes.fromhex(text).decode())
        return results

    def read(self, sql: str, *values: Any) -> list[Row]:
        """Read rows, for an observer."""
        return self._sqlite.execute(sql, values).fetchall()

    def _run(self, sql: str, values: Sequence[Any]) -> list[Row]:
        named = {str(number): _dumped(value) for number, value in enumerate(values, 1)}
        changes = TWO_CHANGES.fullmatch(sql)
        if changes is None:
            return self._sqlite.execute(sql, named).fetchall()
        *both, query = changes.groups()
        for table, change in zip(("taken", "made"), both, strict=True):
            rows = self._sqlite.execute(change, named).fetchall()
            self._sqlite.execute(f"DELETE FROM {table}")  # noqa: S608 - one of the two
            self._sqlite.executemany(f"INSERT INTO {table} VALUES (?)", rows)  # noqa: S608
        return self._sqlite.execute(query, named).fetchall()


@cache
def translated(sql: str) -> str:
    """As SQLite has it."""
    for pattern, replacement in RULES:
        sql = re.sub(pattern, replacement, sql)
    return sql


def _dumped(value: Any) -> Any:
    """Text is sent as bytes, and a list as JSON."""
    if isinstance(value, list):
        return json.dumps(value)
    return value.encode() if isinstance(value, str) else value


TOO_MANY = "53300"
"""The SQLSTATE of a login that is refused, since there are too many connections."""


LOGIN = "login"
"""A client that has connected wants a process; gives its number."""


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
        self.data.close()

    def hang_up(self, connection: Connection) -> None:
        """It learns that a client has closed its connection."""
        self.connections.pop(connection, None)

    def answer(self, connection: Connection, data: Any, reply: Receive) -> None:
        state = self.refusal()
        if state is not None and (state == TOO_MANY) == (data is LOGIN):
            return connection.to_client(lambda: reply(read_error(state, "refused")))
        if data is LOGIN:
            pid = next(self._pids)
            self._processes[pid] = connection
            return connection.to_client(lambda: reply(pid))
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
        sql, now = STATEMENTS.dialect, self._leases(ended=False)
        extensions = (sql.extend, sql.extend_many, sql.prolong)
        for text, values in statements:
            if text in extensions and expired & now:
                self._internal_error(f"{self.name} extended an expired lease")
            if text in (sql.acquire, sql.confirm) and now - before:
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
        # What would last longer than its ttl is from before the clock was set back: the next client
        # counts it anew.
        leases = (
            "SELECT holder FROM holdfast_leases"
            " WHERE holder IS NOT NULL AND expires - ? BETWEEN 1 AND ttl"
        )
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
