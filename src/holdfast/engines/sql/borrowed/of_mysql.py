"""Connections of PyMySQL, asyncmy and aiomysql, which are much alike."""

from importlib import import_module
from typing import Any

from holdfast.engines.sql.borrowed import MYSQL, Values
from holdfast.engines.sql.borrowed.words import percent
from holdfast.engines.sql.links import Row

_IN_TRANSACTION = 1
"""The flag in what the server says with each answer."""


def borrow(connection: object) -> "PyMySql | None":
    """One that blocks; None if it is something else."""
    return PyMySql(connection) if _is_connection(connection, "pymysql") else None


async def borrow_async(connection: object) -> "AsyncMySql | None":
    """One of asyncio; None if it is something else."""
    is_known = _is_connection(connection, "asyncmy", "aiomysql")
    return AsyncMySql(connection) if is_known else None


def autocommits(connection: Any) -> bool:
    """Whether a statement would be a transaction of its own. After a BEGIN it is not."""
    return bool(connection.get_autocommit()) and not in_transaction(connection)


class PyMySql:
    """One that blocks. Its own cursors may give anything for a row; ours give tuples."""

    database = MYSQL

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return autocommits(self._connection)

    def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        with self._connection.cursor(_plain_cursor(self._connection)) as cursor:
            cursor.execute(percent(sql), values)
            return list(cursor.fetchall())


class AsyncMySql:
    """One of asyncio."""

    database = MYSQL

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        return autocommits(self._connection)

    async def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        async with self._connection.cursor(_plain_cursor(self._connection)) as cursor:
            await cursor.execute(percent(sql), values)
            return list(await cursor.fetchall())


def _is_connection(connection: object, *libraries: str) -> bool:
    """Whether it is one of theirs: they all have the same name."""
    return any(
        kind.__name__ == "Connection" and kind.__module__.partition(".")[0] in libraries
        for kind in type(connection).__mro__
    )


def in_transaction(connection: Any) -> bool:
    """Whether a transaction is open."""
    if hasattr(connection, "get_transaction_status"):
        return bool(connection.get_transaction_status())
    return bool(connection.server_status & _IN_TRANSACTION)


def _plain_cursor(connection: Any) -> Any:
    """The library's cursor that gives tuples."""
    library = next(
        kind.__module__.partition(".")[0]
        for kind in type(connection).__mro__
        if kind.__name__ == "Connection"
    )
    return import_module(f"{library}.cursors").Cursor
