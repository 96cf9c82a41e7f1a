"""Connections of sqlite3, and of aiosqlite, which is sqlite3 in a thread."""

import sqlite3
from typing import Any

from holdfast.engines.sql.borrowed import SQLITE, Values
from holdfast.engines.sql.links import Row


def borrow(connection: object) -> "Sqlite | None":
    """One that blocks; None if it is something else."""
    return Sqlite(connection) if isinstance(connection, sqlite3.Connection) else None


async def borrow_async(connection: object) -> "AsyncSqlite | None":
    """One of asyncio; None if it is something else."""
    has_all = all(hasattr(connection, name) for name in ("cursor", "commit", "in_transaction"))
    is_known = has_all and not isinstance(connection, sqlite3.Connection)
    return AsyncSqlite(connection) if is_known else None


def autocommits(connection: Any) -> bool:
    """Whether a statement would be a transaction of its own."""
    if connection.in_transaction:
        return False
    mode = getattr(connection, "autocommit", None)  # it is there from Python 3.12 on
    return mode if isinstance(mode, bool) else connection.isolation_level is None


class Sqlite:
    """One that blocks. Its own cursors may give anything for a row; ours give tuples."""

    database = SQLITE

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return autocommits(self._connection)

    def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        cursor = self._connection.cursor()
        try:
            cursor.row_factory = None
            return cursor.execute(sql, values).fetchall()
        finally:
            cursor.close()


class AsyncSqlite:
    """One of asyncio."""

    database = SQLITE

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return autocommits(self._connection)

    async def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        async with self._connection.cursor() as cursor:
            cursor.row_factory = None
            await cursor.execute(sql, values)
            return list(await cursor.fetchall())
