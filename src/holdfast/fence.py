"""Refusing stale fences in your own database, wherever the lock is kept.

The greatest fence that was seen for each name is kept in a table, `holdfast_fences`. It is made
when it is first needed, but for MariaDB and MySQL, where that would commit your transaction: there,
and where your role may not make tables, `holdfast ddl` prints what makes it.

>>> import sqlite3
>>> from holdfast import fence
>>> connection = sqlite3.connect(":memory:")
>>> fence.check(connection, "invoice:42", 34)  # then write, and
>>> connection.commit()
>>> fence.check(connection, "invoice:42", 33)  # doctest: +ELLIPSIS
Traceback (most recent call last):
holdfast.errors.StaleFence: fence 33 for 'invoice:42' is stale: a later holder has come with 34; ...
>>> connection.close()
"""

from typing import Any

from holdfast.engines.sql.borrowed import borrow, borrow_async, perform, perform_async
from holdfast.engines.sql.fences import newest
from holdfast.errors import StaleFence
from holdfast.options import check_name

__all__ = ["acheck", "check"]

GREATEST = 2**63 - 1


def check(connection: object, name: str, fence: int) -> None:
    """Raise `StaleFence` if a later holder of `name` than the one with this fence has come here.

    Say it in the transaction in which you write, before you write. `connection` is one of psycopg,
    PyMySQL, sqlite3 or SQLAlchemy, or a Session; one that commits each statement by itself is a
    `ValueError`. Until the end of the transaction, others who check the same name wait.
    """
    name, fence = check_name(name), _check_fence(fence)
    borrowed = borrow(connection)
    _judge(name, fence, perform(newest(borrowed.database, name, fence), borrowed))


async def acheck(connection: object, name: str, fence: int) -> None:
    """The same for asyncio: with a connection of psycopg, asyncmy, aiomysql, aiosqlite or
    SQLAlchemy, or a Session."""
    name, fence = check_name(name), _check_fence(fence)
    borrowed = await borrow_async(connection)
    _judge(name, fence, await perform_async(newest(borrowed.database, name, fence), borrowed))


def _judge(name: str, fence: int, seen: int) -> None:
    if fence < seen:
        raise StaleFence(name, fence, seen)


def _check_fence(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"fence: must be a fence as a lease has it, got {value!r}")
    if not 0 < value <= GREATEST:
        raise ValueError(f"fence: must be a fence as a lease has it, got {value!r}")
    return value
