"""The databases in which a lock and a user's own tables can be side by side, and how to look at
what goes on there."""

from typing import Any, Protocol

import psycopg
import pymysql
from sqlalchemy.exc import DBAPIError

CONFLICTS = (psycopg.errors.SerializationFailure, pymysql.MySQLError, DBAPIError)
"""What libraries raise if a transaction has to be begun again."""


class Server(Protocol):
    """A server of the lab's."""

    @property
    def url(self) -> str: ...

    def query(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]: ...


class Database:
    """A server without leases, and with a table `stock` of a user's, in which there is one row."""

    name: str
    remaining: str
    """Gives how many seconds the only lease is from its end."""
    ends: str
    """Gives when that is."""
    waiting: str
    """Gives a row if a statement waits for a lock."""
    elsewhere: str
    """Another database on the same server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.query, self.url = server.query, server.url
        self.query("DROP TABLE IF EXISTS holdfast_fences")
        self.query("CREATE TABLE IF NOT EXISTS stock (units int)")
        self.query("DELETE FROM stock")
        self.query("INSERT INTO stock VALUES (10)")

    @property
    def url_elsewhere(self) -> str:
        return f"{self.url.rpartition('/')[0]}/{self.elsewhere}"

    def left(self) -> float:
        """How many seconds the only lease is from its end."""
        [(seconds,)] = self.query(self.remaining)
        return float(seconds)

    def end(self) -> float:
        """When it ends."""
        [(instant,)] = self.query(self.ends)
        return float(instant)

    def has_ended(self) -> bool:
        return self.left() <= 0

    def is_blocking(self) -> bool:
        """Whether somebody waits for a lock."""
        return bool(self.query(self.waiting))

    def units(self) -> int:
        [(found,)] = self.query("SELECT units FROM stock")
        return int(found)


class Postgres(Database):
    name = "PostgreSQL"
    remaining = "SELECT extract(epoch FROM ends - clock_timestamp())::float8 FROM holdfast_leases"
    ends = "SELECT extract(epoch FROM ends)::float8 FROM holdfast_leases"
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
    elsewhere = "template1"


class MariaDb(Database):
    name = "MariaDB"
    remaining = """
        SELECT (ends - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) / 1e6
        FROM holdfast_leases
    """
    ends = "SELECT ends / 1e6 FROM holdfast_leases"
    # Not by innodb_trx: who looks at it more often than every 0.1 s is shown the past.
    waiting = """
        SELECT 1 FROM information_schema.global_status
        WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS' AND variable_value > 0
    """
    elsewhere = "elsewhere"

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        if not self.query("SHOW DATABASES LIKE 'elsewhere'"):
            self.query("CREATE DATABASE elsewhere")
            self.query("GRANT ALL ON elsewhere.* TO holdfast@'127.0.0.1'")
