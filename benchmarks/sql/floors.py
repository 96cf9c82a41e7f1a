"""The floors: statements through a driver, with nothing around them but a new holder id each time.

PostgreSQL is asked by psycopg, in statements that are prepared, as holdfast's are. MariaDB is asked
by PyMySQL, and under asyncio by asyncmy: both put the values into the text.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from benchmarks.contenders import AsyncPair, Pair
from benchmarks.sql.statements import Statements
from holdfast.drivers.common import new_holder
from holdfast.lab.servers.process import HOST
from tests.equipment.servers.mariadb import DATABASE, USER

PLANNED_ONCE = "-c plan_cache_mode=force_generic_plan"


def through_psycopg(url: str, statements: Callable[[], Statements], stack: ExitStack) -> Pair:
    import psycopg

    connection = stack.enter_context(
        psycopg.connect(
            url, autocommit=True, cursor_factory=psycopg.RawCursor, options=PLANNED_ONCE
        )
    )
    connection.prepare_threshold = 0
    return _pair(connection.cursor(), statements())


def through_pymysql(port: int, statements: Callable[[], Statements], stack: ExitStack) -> Pair:
    import pymysql

    connection = stack.enter_context(pymysql.connect(**_address(port)))
    return _pair(connection.cursor(), statements())


async def through_async_psycopg(
    url: str, statements: Callable[[], Statements], stack: AsyncExitStack
) -> Sequence[AsyncPair]:
    import psycopg

    connection = await stack.enter_async_context(
        await psycopg.AsyncConnection.connect(
            url, autocommit=True, cursor_factory=psycopg.AsyncRawCursor, options=PLANNED_ONCE
        )
    )
    connection.prepare_threshold = 0
    return [_async_pair(connection.cursor(), statements())]


async def through_asyncmy(
    port: int, statements: Callable[[], Statements], stack: AsyncExitStack
) -> Sequence[AsyncPair]:
    import asyncmy

    connection = await stack.enter_async_context(asyncmy.connect(**_address(port)))
    return [_async_pair(connection.cursor(), statements())]


def _address(port: int) -> dict[str, Any]:
    place = {"host": HOST, "port": port, "user": USER, "database": DATABASE}
    return {**place, "autocommit": True}


def _pair(cursor: Any, statements: Statements) -> Pair:
    def acquire_and_release() -> None:
        holder = new_holder()
        cursor.execute(*statements.acquire(holder))
        [(granted, *_)] = cursor.fetchall()
        assert granted
        cursor.execute(*statements.release(holder))
        assert cursor.rowcount == 1

    return acquire_and_release


def _async_pair(cursor: Any, statements: Statements) -> AsyncPair:
    async def acquire_and_release() -> None:
        holder = new_holder()
        await cursor.execute(*statements.acquire(holder))
        [(granted, *_)] = await cursor.fetchall()
        assert granted
        await cursor.execute(*statements.release(holder))
        assert cursor.rowcount == 1

    return acquire_and_release
