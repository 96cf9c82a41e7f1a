"""Connections of psycopg 3."""

from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.engines.sql.borrowed import POSTGRESQL, Values
from holdfast.engines.sql.borrowed.words import percent
from holdfast.engines.sql.links import Row


def borrow(connection: object) -> "Psycopg | None":
    """One that blocks; None if it is something else."""
    return Psycopg(connection) if isinstance(connection, Connection) else None


async def borrow_async(connection: object) -> "AsyncPsycopg | None":
    """One of asyncio; None if it is something else."""
    return AsyncPsycopg(connection) if isinstance(connection, AsyncConnection) else None


def autocommits(connection: Any) -> bool:
    """Whether a statement would be a transaction of its own. In a `transaction()` it is not."""
    is_idle = connection.info.transaction_status == TransactionStatus.IDLE
    return bool(connection.autocommit) and is_idle


class Psycopg:
    """One that blocks. Its own cursors may give anything for a row; ours give tuples."""

    database = POSTGRESQL

    def __init__(self, connection: "Connection[Any]") -> None:
        self._connection = connection

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return autocommits(self._connection)

    def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(percent(sql).encode(), values)
            return cursor.fetchall() if cursor.description else []


class AsyncPsycopg:
    """One of asyncio."""

    database = POSTGRESQL

    def __init__(self, connection: "AsyncConnection[Any]") -> None:
        self._connection = connection

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return autocommits(self._connection)

    async def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(percent(sql).encode(), values)
            return await cursor.fetchall() if cursor.description else []
