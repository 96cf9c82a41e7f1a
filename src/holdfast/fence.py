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

from holdfast.engines.sql.adapters import (
    MYSQL,
    POSTGRESQL,
    SQLITE,
    Adapter,
    Calls,
    execute,
    execute_async,
    is_missing_table,
)
from holdfast.engines.sql.dialect import Row
from holdfast.errors import LockError, StaleFence
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
    execute(connection, lambda adapter: _check(adapter, name, fence))


async def acheck(connection: object, name: str, fence: int) -> None:
    """As `check`, for asyncio: with a `connection` of psycopg, asyncpg, asyncmy, aiomysql,
    aiosqlite or SQLAlchemy (or an AsyncSession)."""
    name, fence = check_name(name), check_fence(fence)
    await execute_async(connection, lambda adapter: _check(adapter, name, fence))


# The table of each kind of database.
DDL = {
    POSTGRESQL: """\
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name bytea PRIMARY KEY,
    fence bigint NOT NULL
);""",
    MYSQL: """\
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name VARBINARY(512) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL
) ENGINE = InnoDB;""",
    SQLITE: """\
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name TEXT NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
);""",
}

_RAISE = {
    POSTGRESQL: """
INSERT INTO holdfast_fences AS seen (name, fence) VALUES (decode(:hex, 'hex'), :fence)
ON CONFLICT (name) DO UPDATE SET fence = greatest(seen.fence, excluded.fence)
RETURNING fence""",
    MYSQL: """
INSERT INTO holdfast_fences (name, fence) VALUES (UNHEX(:hex), :fence)
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))""",
    SQLITE: """
INSERT INTO holdfast_fences (name, fence) VALUES (:name, :fence)
ON CONFLICT (name) DO UPDATE SET fence = max(fence, excluded.fence)
RETURNING fence""",
}
"""Raises the greatest fence of `:name` to `:fence`, and gives it; MariaDB has to be asked for it.
`:hex` is the name as UTF-8 in hex."""

_MYSQL_READ = "SELECT fence FROM holdfast_fences WHERE name = UNHEX(:hex) FOR UPDATE"

_POSTGRESQL_EXISTS = "SELECT to_regclass('holdfast_fences') IS NOT NULL"

_POSTGRESQL_LOCK = "SELECT 1 FROM pg_advisory_xact_lock(hashtext('holdfast_fences'))"
"""Keeps others from creating the table at the same time."""


def _check(adapter: Adapter, name: str, fence: int) -> Calls[None]:
    """Raise the greatest fence that was seen for the name to this one, and look whether it was
    greater. This locks the name's row until the end of the transaction: transactions that check the
    same name run one after the other."""
    database = adapter.database
    if database == POSTGRESQL:  # there, a failed statement would end the transaction
        [(exists,)] = yield from adapter.execute(_POSTGRESQL_EXISTS, {})
        if not exists:
            yield from adapter.execute(_POSTGRESQL_LOCK, {})
            yield from _create(adapter)
    try:
        seen = yield from _newest(adapter, name, fence)
    except Exception as error:
        if not is_missing_table(error):
            raise
        if database == MYSQL:
            raise LockError(
                "the fence was not checked: the table holdfast_fences is missing, and creating it "
                f"here would commit your transaction; create it before:\n{DDL[MYSQL]}"
            ) from None
        yield from _create(adapter)
        seen = yield from _newest(adapter, name, fence)
    if fence < seen:
        raise StaleFence(name, fence, seen)


def _newest(adapter: Adapter, name: str, fence: int) -> Calls[int]:
    values = {"name": name, "hex": name.encode().hex(), "fence": fence}
    rows = yield from adapter.execute(_RAISE[adapter.database], values)
    if adapter.database == MYSQL:
        rows = yield from adapter.execute(_MYSQL_READ, values)
    [(seen,)] = rows
    return int(seen)


def _create(adapter: Adapter) -> Calls[list[Row]]:
    return adapter.execute(DDL[adapter.database].rstrip(";"), {})
