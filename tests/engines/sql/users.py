"""A user's own connection and transaction, in each library that holdfast knows."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiomysql
import aiosqlite
import asyncmy
import asyncpg
import psycopg
import psycopg2
import pymysql
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from tests.engines.redis.party import Mode

READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = LEVELS = (
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
)

AUTOCOMMIT = "AUTOCOMMIT"


class Transaction:
    """A connection with a transaction open, or one that opens with the next statement."""

    def __init__(self, party: Any, connection: Any, close: Callable[[], Any]) -> None:
        self.party, self.connection, self._close = party, connection, close

    def say(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows, if it has any."""
        return self.party(self._say, sql)  # type: ignore[no-any-return]

    def guard(self, lease: Any) -> None:
        self.party(lease.guard, self.connection)

    def commit(self) -> None:
        self.party(self.connection.commit)

    def rollback(self) -> None:
        self.party(self.connection.rollback)

    def close(self) -> None:
        self.party(self._close)

    def _say(self, sql: str) -> Any:
        if isinstance(self.connection, sqlalchemy.Connection):
            result = self.connection.execute(sqlalchemy.text(sql))
            return [tuple(row) for row in result] if result.returns_rows else []
        cursor = self.connection.cursor()
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


class AsyncTransaction(Transaction):
    """The same for asyncio."""

    async def _say(self, sql: str) -> Any:
        if isinstance(self.connection, AsyncConnection):
            result = await self.connection.execute(sqlalchemy.text(sql))
            return [tuple(row) for row in result] if result.returns_rows else []
        async with self.connection.cursor() as cursor:
            await cursor.execute(sql)
            return list(await cursor.fetchall()) if cursor.description else []


class AsyncpgTransaction(AsyncTransaction):
    """asyncpg's, which never begins a transaction by itself."""

    def __init__(self, party: Any, connection: Any, close: Callable[[], Any], level: str) -> None:
        super().__init__(party, connection, close)
        self._level = level
        self._begin()

    def guard(self, lease: Any) -> None:
        self._begin()
        super().guard(lease)

    def commit(self) -> None:
        self.party(self.connection.execute, "COMMIT")
        self._begin()

    def rollback(self) -> None:
        self.party(self.connection.execute, "ROLLBACK")
        self._begin()

    def _begin(self) -> None:
        if self._level != AUTOCOMMIT and not self.connection.is_in_transaction():
            self.party(self.connection.execute, f"BEGIN ISOLATION LEVEL {self._level}")

    async def _say(self, sql: str) -> Any:
        return [tuple(record) for record in await self.connection.fetch(sql)]


@dataclass(frozen=True, slots=True)
class Way:
    """A library, and whether it is for threads or asyncio. `SQLAlchemy/x`: over driver x."""

    library: str
    mode: Mode

    def begin(self, party: Any, url: str, level: str = READ_COMMITTED) -> Transaction:
        """Connect, so that transactions are of this isolation level."""
        name, _, driver = self.library.partition("/")
        opening = _OPENINGS[name, self.mode]
        connection, close = party(opening, url, level, *([driver] if driver else []))
        if self.library == "asyncpg":
            return AsyncpgTransaction(party, connection, close, level)
        kind = Transaction if self.mode == "sync" else AsyncTransaction
        return kind(party, connection, close)

    def __str__(self) -> str:
        return f"{self.library}-{self.mode}"


def _psycopg(url: str, level: str) -> tuple[Any, Any]:
    connection = psycopg.connect(url, autocommit=level == AUTOCOMMIT)
    if level != AUTOCOMMIT:
        connection.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_")]
    return connection, connection.close


async def _psycopg_async(url: str, level: str) -> tuple[Any, Any]:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=level == AUTOCOMMIT)
    if level != AUTOCOMMIT:
        await connection.set_isolation_level(psycopg.IsolationLevel[level.replace(" ", "_")])
    return connection, connection.close


def _psycopg2(url: str, level: str) -> tuple[Any, Any]:
    connection = psycopg2.connect(url)
    if level == AUTOCOMMIT:
        connection.autocommit = True
    else:
        connection.set_session(isolation_level=level)
    return connection, connection.close


async def _asyncpg(url: str, level: str) -> tuple[Any, Any]:
    connection = await asyncpg.connect(url)
    return connection, connection.close


def _mysqlclient(url: str, level: str) -> tuple[Any, Any]:
    import MySQLdb  # built by `make servers`

    connection = MySQLdb.connect(**_address(url, "database"), autocommit=level == AUTOCOMMIT)
    if level != AUTOCOMMIT:
        connection.cursor().execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    return connection, connection.close


def _django(url: str, level: str) -> tuple[Any, Any]:
    connection = django_connection(url, level)
    connection.ensure_connection()
    connection.set_autocommit(level == AUTOCOMMIT)
    return connection, connection.close


def django_connection(url: str, level: str = READ_COMMITTED, alias: str = "default") -> Any:
    """One of Django's connections, which are made known under an alias."""
    from django.db import connections

    from tests.equipment.django import configure_django

    configure_django()
    parts = urlsplit(url)
    engine = "postgresql" if parts.scheme == "postgresql" else "mysql"
    isolation: Any = None
    if level != AUTOCOMMIT:
        isolation = psycopg.IsolationLevel[level.replace(" ", "_")]
        isolation = isolation if engine == "postgresql" else level.lower()
    place = {
        "ENGINE": f"django.db.backends.{engine}",
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": parts.username,
        "NAME": parts.path.strip("/"),
        "OPTIONS": {"isolation_level": isolation} if isolation else {},
    }
    known = connections.configure_settings({"default": {}} | {alias: place})
    connections.databases[alias] = known[alias]
    return connections.create_connection(alias)


def _pymysql(url: str, level: str) -> tuple[Any, Any]:
    connection = pymysql.connect(
        **_address(url, "database"), ssl_disabled=True, autocommit=level == AUTOCOMMIT
    )
    if level != AUTOCOMMIT:
        connection.cursor().execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    return connection, connection.close


async def _asyncmy(url: str, level: str) -> tuple[Any, Any]:
    return await _settled(await asyncmy.connect(**_address(url, "database")), level)


async def _aiomysql(url: str, level: str) -> tuple[Any, Any]:
    return await _settled(await aiomysql.connect(**_address(url, "db")), level)


async def _settled(connection: Any, level: str) -> tuple[Any, Any]:
    await connection.autocommit(level == AUTOCOMMIT)
    if level != AUTOCOMMIT:
        async with connection.cursor() as cursor:
            await cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    return connection, connection.ensure_closed


def _sqlite3(url: str, level: str) -> tuple[Any, Any]:
    isolation = None if level == AUTOCOMMIT else "DEFERRED"
    connection = sqlite3.connect(urlsplit(url).path, isolation_level=isolation)  # type: ignore[arg-type]
    return connection, connection.close


async def _aiosqlite(url: str, level: str) -> tuple[Any, Any]:
    isolation = None if level == AUTOCOMMIT else "DEFERRED"
    connection = await aiosqlite.connect(urlsplit(url).path, isolation_level=isolation)
    return connection, connection.close


def _sqlalchemy(url: str, level: str, driver: str = "") -> tuple[Any, Any]:
    engine = sqlalchemy.create_engine(
        sqlalchemy_url(url, "sync", driver), poolclass=NullPool, **_option(level, url)
    )
    connection = engine.connect()
    return connection, connection.close


async def _sqlalchemy_async(url: str, level: str, driver: str = "") -> tuple[Any, Any]:
    engine = create_async_engine(
        sqlalchemy_url(url, "async", driver), poolclass=NullPool, **_option(level, url)
    )
    connection = await engine.connect()
    return connection, connection.close


_OPENINGS: dict[tuple[str, str], Any] = {
    ("psycopg", "sync"): _psycopg,
    ("psycopg", "async"): _psycopg_async,
    ("psycopg2", "sync"): _psycopg2,
    ("asyncpg", "async"): _asyncpg,
    ("Django", "sync"): _django,
    ("PyMySQL", "sync"): _pymysql,
    ("mysqlclient", "sync"): _mysqlclient,
    ("asyncmy", "async"): _asyncmy,
    ("aiomysql", "async"): _aiomysql,
    ("sqlite3", "sync"): _sqlite3,
    ("aiosqlite", "async"): _aiosqlite,
    ("SQLAlchemy", "sync"): _sqlalchemy,
    ("SQLAlchemy", "async"): _sqlalchemy_async,
}

_DIALECTS = {
    ("postgresql", "sync"): "postgresql+psycopg",
    ("postgresql", "async"): "postgresql+psycopg",
    ("mariadb", "sync"): "mariadb+pymysql",
    ("mariadb", "async"): "mariadb+asyncmy",
    ("sqlite", "sync"): "sqlite",
    ("sqlite", "async"): "sqlite+aiosqlite",
}


def sqlalchemy_url(url: str, mode: Mode, driver: str = "") -> str:
    scheme, place = url.split("://")
    place = f"/{place}" if scheme == "sqlite" else place
    dialect = f"{scheme}+{driver}" if driver else _DIALECTS[scheme, mode]
    return f"{dialect}://{place}"


def _option(level: str, url: str) -> dict[str, Any]:
    knows = level == AUTOCOMMIT or not url.startswith("sqlite:")
    return {"isolation_level": level} if knows else {}


def _address(url: str, database: str) -> dict[str, Any]:
    """What to connect with; libraries call the database differently."""
    parts = urlsplit(url)
    place = {"host": parts.hostname, "port": parts.port, "user": parts.username}
    return place | {database: parts.path.strip("/")}


WAYS = {
    "postgres": (
        Way("psycopg", "sync"),
        Way("psycopg", "async"),
        Way("psycopg2", "sync"),
        Way("asyncpg", "async"),
        Way("Django", "sync"),
        Way("SQLAlchemy/psycopg2", "sync"),
        Way("SQLAlchemy/asyncpg", "async"),
        Way("SQLAlchemy", "sync"),
        Way("SQLAlchemy", "async"),
    ),
    "mariadb": (
        Way("PyMySQL", "sync"),
        Way("asyncmy", "async"),
        Way("aiomysql", "async"),
        Way("mysqlclient", "sync"),
        Way("Django", "sync"),
        Way("SQLAlchemy/mysqldb", "sync"),
        Way("SQLAlchemy", "sync"),
        Way("SQLAlchemy", "async"),
    ),
}
"""All ways to each kind of database; first one for threads, then one for asyncio."""

EACH_KIND = pytest.mark.parametrize(
    ("kind", "way"), [(kind, ways[0]) for kind, ways in WAYS.items()], ids=list(WAYS)
)
"""By one library."""
