"""The databases in which a lock and a user's own tables can be side by side, and how to look at
what goes on there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pymysql
import sqlalchemy
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tests.engines.sql.users import sqlalchemy_url
from tests.equipment.servers.mariadb import MariaDbServer
from tests.equipment.servers.postgres import PostgresServer

CONFLICTS = (psycopg.errors.SerializationFailure, pymysql.MySQLError, DBAPIError)
"""What libraries raise if a transaction has to be begun again."""


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
    sessions: str
    """Gives the numbers of all other sessions of clients."""
    kill: str
    """Ends a session."""

    def __init__(self, server: PostgresServer | MariaDbServer) -> None:
        self.server = server
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

    def other_sessions(self) -> set[int]:
        return {number for (number,) in self.query(self.sessions)}

    @contextmanager
    def locker(self, table: str) -> Iterator[Callable[[], object]]:
        """Locks all rows of a table when it is called, in a transaction of somebody's."""
        engine = sqlalchemy.create_engine(sqlalchemy_url(self.url, "sync"), poolclass=NullPool)
        with engine.connect() as connection:
            statement = sqlalchemy.text(f"SELECT * FROM {table} FOR UPDATE")
            yield lambda: connection.execute(statement)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Meanwhile it answers nothing."""
        self.server.freeze()
        try:
            yield
        finally:
            self.server.thaw()

    def kill_session(self, number: int) -> None:
        self.query(self.kill.format(number))

    def units(self) -> int:
        [(found,)] = self.query("SELECT units FROM stock")
        return int(found)


class Postgres(Database):
    name = "PostgreSQL"
    remaining = """
        SELECT (expires / 1e6 - extract(epoch FROM clock_timestamp()))::float8 FROM holdfast_leases
    """
    ends = "SELECT (expires / 1e6)::float8 FROM holdfast_leases"
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
    elsewhere = "template1"
    sessions = """
        SELECT pid FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
    """
    kill = "SELECT pg_terminate_backend({})"


class MariaDb(Database):
    name = "MariaDB"
    remaining = """
        SELECT (expires - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) / 1e6
        FROM holdfast_leases
    """
    ends = "SELECT expires / 1e6 FROM holdfast_leases"
    # Not by innodb_trx: who looks at it more often than every 0.1 s is shown the past.
    waiting = """
        SELECT 1 FROM information_schema.global_status
        WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS' AND variable_value > 0
    """
    elsewhere = "elsewhere"
    sessions = """
        SELECT id FROM information_schema.processlist
        WHERE user = 'holdfast' AND id <> CONNECTION_ID()
    """
    kill = "KILL {}"

    def __init__(self, server: PostgresServer | MariaDbServer) -> None:
        super().__init__(server)
        if not self.query("SHOW DATABASES LIKE 'elsewhere'"):
            self.query("CREATE DATABASE elsewhere")
            self.query("GRANT ALL ON elsewhere.* TO holdfast@'127.0.0.1'")
