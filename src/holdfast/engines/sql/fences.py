"""The greatest fence that was seen for each name, in a table of the user's own database.

A check raises the mark to its fence and returns the mark. This locks the name's row until the end
of the transaction: transactions that check the same name run one after the other, and each sees
the mark that the one before has left.
"""

from dataclasses import dataclass

from holdfast.engines.sql.adapters import (
    MYSQL,
    POSTGRESQL,
    SQLITE,
    Adapter,
    Calls,
    is_missing_table,
)
from holdfast.errors import LockError


@dataclass(frozen=True, slots=True)
class Marks:
    """The statements of one kind of database. `:name` is text, `:hex` the same as UTF-8 in hex."""

    ddl: str
    mark: str
    """Raises the mark to `:fence` and returns it."""
    look: str = ""
    """Returns the mark, where `mark` cannot."""
    exists: str = ""
    """Returns whether the table exists, where a failed statement would end the transaction."""
    lock: str = ""
    """Keeps others from creating the table at the same time."""
    commits: bool = False
    """Whether creating a table commits the transaction: then the user must create it before."""


_MARKS = {
    POSTGRESQL: Marks(
        ddl="""\
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name bytea PRIMARY KEY,
    fence bigint NOT NULL
);""",
        exists="SELECT to_regclass('holdfast_fences') IS NOT NULL",
        lock="SELECT 1 FROM pg_advisory_xact_lock(hashtext('holdfast_fences'))",
        mark="""
INSERT INTO holdfast_fences AS seen (name, fence) VALUES (decode(:hex, 'hex'), :fence)
ON CONFLICT (name) DO UPDATE SET fence = greatest(seen.fence, excluded.fence)
RETURNING fence""",
    ),
    MYSQL: Marks(
        ddl="""\
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name VARBINARY(512) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL
) ENGINE = InnoDB;""",
        mark="""
INSERT INTO holdfast_fences (name, fence) VALUES (UNHEX(:hex), :fence)
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))""",
        look="SELECT fence FROM holdfast_fences WHERE name = UNHEX(:hex) FOR UPDATE",
        commits=True,
    ),
    SQLITE: Marks(
        ddl="""\
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name TEXT NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
);""",
        mark="""
INSERT INTO holdfast_fences (name, fence) VALUES (:name, :fence)
ON CONFLICT (name) DO UPDATE SET fence = max(fence, excluded.fence)
RETURNING fence""",
    ),
}


def ddl(database: str) -> str:
    """The DDL of the table."""
    return _MARKS[database].ddl


def newest(adapter: Adapter, name: str, fence: int) -> Calls[int]:
    """The greatest fence that was seen for the name, this one included."""
    sql = _MARKS[adapter.database]
    if sql.exists and (yield from adapter.execute(sql.exists, {})) != [(True,)]:
        yield from _create(adapter, sql)
    try:
        return (yield from _mark(adapter, sql, name, fence))
    except Exception as error:
        if not is_missing_table(error):
            raise
    yield from _create(adapter, sql)
    return (yield from _mark(adapter, sql, name, fence))


def _mark(adapter: Adapter, sql: Marks, name: str, fence: int) -> Calls[int]:
    values = {"name": name, "hex": name.encode().hex(), "fence": fence}
    rows = yield from adapter.execute(sql.mark, values)
    if sql.look:
        rows = yield from adapter.execute(sql.look, values)
    [(seen,)] = rows
    return int(seen)


def _create(adapter: Adapter, sql: Marks) -> Calls[None]:
    if sql.commits:
        raise LockError(
            "the fence was not checked: the table holdfast_fences is missing, and creating it here "
            f"would commit your transaction; create it before:\n{sql.ddl}"
        )
    if sql.lock:
        yield from adapter.execute(sql.lock, {})
    yield from adapter.execute(sql.ddl.rstrip(";"), {})
