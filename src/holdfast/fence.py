"""Refuse stale fences in your own database, wherever the lock is kept.

The greatest fence that was seen for each name is kept in a table, `holdfast_fences`. It is created
on first use, except on MariaDB and MySQL, where that would commit your transaction. There, and
where your role may not create tables, `holdfast ddl` prints the DDL.

>>> import sqlite3
>>> from holdfast import fence
>>> connection = sqlite3.connect(":memory:")
>>> fence.check(connection, "invoice:42", 34)  # then write, and
>>> connection.commit()
>>> fence.check(connection, "invoice:42", 33)  # doctest: +ELLIPSIS
Traceback (most recent call last):
holdfast.errors.StaleFence: fence 33 for 'invoice:42' is stale: a later holder has ...
>>> connection.close()
"""

from holdfast.engines.sql.adapters import execute, execute_async
from holdfast.engines.sql.fences import newest
from holdfast.errors import StaleFence
from holdfast.options import check_fence, check_name

__all__ = ["acheck", "check"]


def check(connection: object, name: str, fence: int) -> None:
    """Raise `StaleFence` if a later holder of `name` than the one with this fence was seen here.

    Call it in the transaction in which you write, before you write. Until the end of the
    transaction, other checks of the same name wait.

    Args:

    - `connection`: the one on which the transaction is open, of psycopg, psycopg2, PyMySQL,
      mysqlclient, sqlite3, SQLAlchemy (or a Session) or Django. Autocommit, or a savepoint (a
      nested transaction) of SQLAlchemy, Django or psycopg, is a `ValueError`.
    - `name`: of the lock: `lease.name`.
    - `fence`: that of your lease: `lease.fence`.
    """
    name, fence = check_name(name), check_fence(fence)
    seen = execute(connection, lambda adapter: newest(adapter, name, fence))
    _compare(name, fence, seen)


async def acheck(connection: object, name: str, fence: int) -> None:
    """As `check`, for asyncio: with a `connection` of psycopg, asyncpg, asyncmy, aiomysql,
    aiosqlite or SQLAlchemy (or an AsyncSession)."""
    name, fence = check_name(name), check_fence(fence)
    seen = await execute_async(connection, lambda adapter: newest(adapter, name, fence))
    _compare(name, fence, seen)


def _compare(name: str, fence: int, seen: int) -> None:
    if fence < seen:
        raise StaleFence(name, fence, seen)
