"""The floors: words through a driver, with nothing around them, but for a new holder id each time.

PostgreSQL is asked by psycopg, in statements that are prepared, as holdfast's are. MariaDB is asked
by PyMySQL, and under asyncio by asyncmy: both put the values into the text.
"""

from contextlib import AsyncExitStack, ExitStack
from typing import Any

import asyncmy
import psycopg
import pymysql

from benchmarks.peers import AsyncPair, Pair
from benchmarks.sql.words import Words
from holdfast.drivers.surroundings import new_holder
from holdfast.lab.servers.mariadb import DATABASE, USER, MariaDbServer
from holdfast.lab.servers.ports import HOST
from holdfast.lab.servers.postgres import PostgresServer


def through_psycopg(server: PostgresServer, words: Words, stack: ExitStack) -> Pair:
    connection = stack.enter_context(
        psycopg.connect(server.url, autocommit=True, cursor_factory=psycopg.RawCursor)
    )
    connection.prepare_threshold = 0
    return _pair(connection.cursor(), words)


def through_pymysql(server: MariaDbServer, words: Words, stack: ExitStack) -> Pair:
    connection = stack.enter_context(pymysql.connect(**_address(server)))
    return _pair(connection.cursor(), words)


async def through_async_psycopg(
    server: PostgresServer, words: Words, stack: AsyncExitStack
) -> AsyncPair:
    connection = await stack.enter_async_context(
        await psycopg.AsyncConnection.connect(
            server.url, autocommit=True, cursor_factory=psycopg.AsyncRawCursor
        )
    )
    connection.prepare_threshold = 0
    return _async_pair(connection.cursor(), words)


async def through_asyncmy(server: MariaDbServer, words: Words, stack: AsyncExitStack) -> AsyncPair:
    connection = await stack.enter_async_context(asyncmy.connect(**_address(server)))
    return _async_pair(connection.cursor(), words)


def _address(server: MariaDbServer) -> dict[str, Any]:
    place = {"host": HOST, "port": server.port, "user": USER, "database": DATABASE}
    return {**place, "autocommit": True}


def _pair(cursor: Any, words: Words) -> Pair:
    def acquire_and_release() -> None:
        holder = new_holder()
        cursor.execute(*words.acquire(holder))
        [(granted, *_)] = cursor.fetchall()
        assert granted
        cursor.execute(*words.release(holder))
        assert cursor.rowcount == 1

    return acquire_and_release


def _async_pair(cursor: Any, words: Words) -> AsyncPair:
    async def acquire_and_release() -> None:
        holder = new_holder()
        await cursor.execute(*words.acquire(holder))
        [(granted, *_)] = await cursor.fetchall()
        assert granted
        await cursor.execute(*words.release(holder))
        assert cursor.rowcount == 1

    return acquire_and_release
