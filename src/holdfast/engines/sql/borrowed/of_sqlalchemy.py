"""Connections and sessions of SQLAlchemy, over whatever library they use."""

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from holdfast.engines.sql.borrowed import MYSQL, POSTGRESQL, SQLITE, Values, home_of
from holdfast.engines.sql.links import Row

_DATABASES = {"postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL, "sqlite": SQLITE}


def borrow(connection: object) -> "SqlAlchemy | None":
    """A connection or session that blocks; None if it is something else."""
    if isinstance(connection, (Session, scoped_session)):
        connection = connection.connection()
    return SqlAlchemy(connection) if isinstance(connection, Connection) else None


async def borrow_async(connection: object) -> "AsyncSqlAlchemy | None":
    """A connection or session for asyncio; None if it is something else."""
    if isinstance(connection, (AsyncSession, async_scoped_session)):
        connection = await connection.connection()
    if not isinstance(connection, AsyncConnection):
        return None
    await connection.get_raw_connection()  # tells if it has not been started yet
    return AsyncSqlAlchemy(connection)


class SqlAlchemy:
    """One that blocks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.database = _database(connection)

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return _autocommits(self._connection)

    def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        result = self._connection.execute(text(sql), dict(values))
        return [tuple(row) for row in result] if result.returns_rows else []


class AsyncSqlAlchemy:
    """One of asyncio."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.database = _database(connection)

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return _autocommits(self._connection.sync_connection)

    async def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        result = await self._connection.execute(text(sql), dict(values))
        return [tuple(row) for row in result] if result.returns_rows else []


def _database(connection: Connection | AsyncConnection) -> str:
    name = connection.dialect.name
    if name not in _DATABASES:
        raise TypeError(f"connection: must lead to {', '.join(_DATABASES)}; got one to {name}")
    return _DATABASES[name]


def _autocommits(connection: Any) -> bool:
    """As the connection below says. Of a library that we do not know, as SQLAlchemy has it."""
    pooled = connection.connection
    home = home_of(pooled.driver_connection)
    if home is not None:
        return bool(home.autocommits(pooled.driver_connection))
    return bool(getattr(pooled.dbapi_connection, "autocommit", False))
