"""What a user of a database does, in each of the ways that there are: open a transaction on a
connection of their own, say something in it, commit."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiomysql
import aiosqlite
import asyncmy
import psycopg
import pymysql
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from tests.engines.redis.party import Colour

READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = LEVELS = (
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
)

AUTOCOMMIT = "AUTOCOMMIT"


class Transaction:
    """A connection of a user's own, with a transaction open, or about to be."""

    def __init__(self, party: Any, connection: Any, close: Callable[[], Any]) -> None:
        self.party, self.connection, self._close = party, connection, close

    def say(self, sql: str) -> list[tuple[Any, ...]]:
        """Say a statement, and give its rows if it has any."""
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


@dataclass(frozen=True, slots=True)
class Way:
    """A library, and a colour."""

    library: str
    colour: Colour

    def begin(self, party: Any, url: str, level: str = READ_COMMITTED) -> Transaction:
        """Connect, so that transactions are of this isolation level."""
        opening = _OPENINGS[self.library, self.colour]
        connection, close = party(opening, url, level)
        kind = Transaction if self.colour == "sync" else AsyncTransaction
        return kind(party, connection, close)

    def __str__(self) -> str:
        return f"{self.library}-{self.colour}"


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
    mode = None if level == AUTOCOMMIT else "DEFERRED"
    connection = sqlite3.connect(urlsplit(url).path, isolation_level=mode)  # type: ignore[arg-type]
    return connection, connection.close


async def _aiosqlite(url: str, level: str) -> tuple[Any, Any]:
    mode = None if level == AUTOCOMMIT else "DEFERRED"
    connection = await aiosqlite.connect(urlsplit(url).path, isolation_level=mode)
    return connection, connection.close


def _sqlalchemy(url: str, level: str) -> tuple[Any, Any]:
    engine = sqlalchemy.create_engine(
        sqlalchemy_url(url, "sync"), poolclass=NullPool, **_option(level, url)
    )
    connection = engine.connect()
    return connection, connection.close


async def _sqlalchemy_async(url: str, level: str) -> tuple[Any, Any]:
    engine = create_async_engine(
        sqlalchemy_url(url, "async"), poolclass=NullPool, **_option(level, url)
    )
    connection = await engine.connect()
    return connection, connection.close


_OPENINGS: dict[tuple[str, str], Any] = {
    ("psycopg", "sync"): _psycopg,
    ("psycopg", "async"): _psycopg_async,
    ("PyMySQL", "sync"): _pymysql,
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


def sqlalchemy_url(url: str, colour: Colour) -> str:
    scheme, place = url.split("://")
    place = f"/{place}" if scheme == "sqlite" else place
    return f"{_DIALECTS[scheme, colour]}://{place}"


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
        Way("SQLAlchemy", "sync"),
        Way("SQLAlchemy", "async"),
    ),
    "mariadb": (
        Way("PyMySQL", "sync"),
        Way("asyncmy", "async"),
        Way("aiomysql", "async"),
        Way("SQLAlchemy", "sync"),
        Way("SQLAlchemy", "async"),
    ),
}
"""All ways to each kind of database; first one for threads, then one for asyncio."""

EACH_KIND = pytest.mark.parametrize(
    ("kind", "way"), [(kind, ways[0]) for kind, ways in WAYS.items()], ids=list(WAYS)
)
"""By one library."""
