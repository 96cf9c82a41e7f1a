"""Users with pools of their own, of every library and colour, small enough to be exhausted."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

import holdfast
from holdfast.core.ports import Store, StoreHost
from holdfast.engines.sql.pools import of_clients
from tests.engines.redis.party import Colour, Party
from tests.patience import wait_for

KINDS: dict[str, tuple[str, Colour]] = {
    "psycopg": ("postgres", "sync"),
    "async psycopg": ("postgres", "async"),
    "SQLAlchemy psycopg": ("postgres", "sync"),
    "async SQLAlchemy psycopg": ("postgres", "async"),
    "SQLAlchemy pymysql": ("mariadb", "sync"),
    "async SQLAlchemy asyncmy": ("mariadb", "async"),
    "async SQLAlchemy aiomysql": ("mariadb", "async"),
}
"""Pools by name: the database that they lead to, and their colour."""

OF_EACH_WAY = pytest.mark.parametrize(
    "lender",
    [
        "psycopg",
        "async SQLAlchemy psycopg",
        "SQLAlchemy pymysql",
        "async SQLAlchemy asyncmy",
    ],
)
"""One of each way in which connections are borrowed and spoken on."""

OF_EACH_WAY_TO_POSTGRES = pytest.mark.parametrize("lender", ["psycopg", "async SQLAlchemy psycopg"])

TO_POSTGRES = pytest.mark.parametrize(
    "lender", [kind for kind, (database, _) in KINDS.items() if database == "postgres"]
)

OF_THREADS = pytest.mark.parametrize(
    "lender", [kind for kind, (_, colour) in KINDS.items() if colour == "sync"]
)

PATIENCE = 20.0
"""How long a user waits for a connection: against hanging, and no more."""

_SESSION = {
    "postgres": """
        SELECT current_setting('default_transaction_isolation'),
               current_setting('statement_timeout'), current_setting('client_encoding'),
               current_setting('bytea_output'), current_setting('plan_cache_mode'),
               current_setting('enable_seqscan'),
               (SELECT count(*) FROM pg_prepared_statements),
               (SELECT count(*) FROM pg_listening_channels())
    """,
    "mariadb": """
        SELECT @@autocommit, @@tx_isolation, @@sql_mode, @@innodb_lock_wait_timeout,
               @@lock_wait_timeout,
               sum(if(variable_name = 'COM_STMT_PREPARE', variable_value, -variable_value))
        FROM information_schema.session_status
        WHERE variable_name IN ('COM_STMT_PREPARE', 'COM_STMT_CLOSE')
    """,
}

_SESSION_ID = {"postgres": "SELECT pg_backend_pid()", "mariadb": "SELECT CONNECTION_ID()"}


class UserPool:
    """A pool, and the client over it. The user takes connections out of it, too."""

    def __init__(self, kind: str, url: str, size: int, **options: Any) -> None:
        self.database, self.colour = KINDS[kind]
        self.is_psycopg = "SQLAlchemy" not in kind
        if self.is_psycopg:
            self.pool = _pool_of_psycopg(self.colour, url, size, **options)
        else:
            self.pool = _engine(self.colour, url, size, kind.rpartition(" ")[2], **options)
        self.party = Party(self.colour, self.pool)
        self.client = self.party.client
        self._taken: list[Any] = []
        if self.is_psycopg:
            self.party(self.pool.open)

    def take(self) -> Any:
        """Take a connection, as its user does."""
        return self.has_taken(self.begin_taking())

    def begin_taking(self) -> "Future[Any]":
        """Wait for a connection, as its user does."""
        if self.is_psycopg:
            return self.party.begin(self.pool.getconn, timeout=PATIENCE)
        return self.party.begin(
            self.pool.connect if self.colour == "sync" else self.pool.connect().start
        )

    def has_taken(self, taking: "Future[Any]") -> Any:
        """The connection, once it has come."""
        self._taken.append(taking.result(PATIENCE))
        return self._taken[-1]

    def put(self, taken: Any) -> None:
        """Give it back."""
        self._taken.remove(taken)
        if self.is_psycopg:
            self.party(self.pool.putconn, taken)
        else:
            self.party(taken.close)

    def say(self, taken: Any, sql: str) -> list[tuple[Any, ...]]:
        """Say something on a connection of the user's."""
        if self.is_psycopg:
            cursor = self.party(taken.execute, sql)
            return self.party(cursor.fetchall)  # type: ignore[no-any-return]
        return [tuple(row) for row in self.party(taken.execute, sqlalchemy.text(sql))]

    def session(self) -> tuple[Any, ...]:
        """How the user finds the session of a connection, with our things in it, if any."""
        taken = self.take()
        [found] = self.say(taken, _SESSION[self.database])
        self.put(taken)
        return found

    def session_id(self) -> Any:
        """Which session a connection of the pool is."""
        taken = self.take()
        [(found,)] = self.say(taken, _SESSION_ID[self.database])
        self.put(taken)
        return found

    def out(self) -> int:
        """How many connections are checked out."""
        if self.is_psycopg:
            stats = self.pool.get_stats()
            return int(stats["pool_size"] - stats["pool_available"])
        return int(self.pool.pool.checkedout())

    def settles_at(self, count: int) -> None:
        """Wait until so many are checked out."""
        wait_for(lambda: self.out() == count)

    def dispose(self) -> None:
        """The user is done with the pool."""
        self.party(self.pool.close if self.is_psycopg else self.pool.dispose)

    def another_client(self) -> Any:
        """Another one over the same pool."""
        make = holdfast.Client if self.colour == "sync" else holdfast.AsyncClient
        return make(self.pool)

    def store(self) -> Store:
        """What a client asks, over the same pool."""
        around = StoreHost(time.monotonic, lambda holder: None, lambda event: None)
        _, opening = of_clients([self.pool], awaits=False)
        return opening({}).connect(around)

    def leave(self, client: Any = None) -> None:
        """Close the client."""
        client = client or self.client
        self.party(client.close if self.colour == "sync" else client.aclose)

    def close(self) -> None:
        """The client goes first, then the user."""
        self.leave()
        for taken in list(self._taken):
            self.put(taken)
        self.dispose()
        self.party.close()


Lend = Callable[..., UserPool]


def _pool_of_psycopg(colour: Colour, url: str, size: int, **options: Any) -> Any:
    kind = psycopg_pool.ConnectionPool if colour == "sync" else psycopg_pool.AsyncConnectionPool
    return kind(url, min_size=size, max_size=size, open=False, **options)


def _engine(colour: Colour, url: str, size: int, driver: str, **options: Any) -> Any:
    scheme, place = url.split("://")
    make = sqlalchemy.create_engine if colour == "sync" else create_async_engine
    options = {"pool_size": size, "max_overflow": 0, "pool_timeout": PATIENCE, **options}
    return make(f"{scheme}+{driver}://{place}", **options)
