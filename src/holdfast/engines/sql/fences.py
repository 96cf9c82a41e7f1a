"""The greatest fence that was seen for each name, in a table of a user's own database.

A check raises the mark to its fence, and gives the mark. That locks the name's row until the end of
the transaction, so those who write under one name come one after the other, and each sees what the
one before has left.
"""

from dataclasses import dataclass

from holdfast.engines.sql.borrowed import MYSQL, POSTGRESQL, SQLITE, Steps
from holdfast.engines.sql.borrowed.words import is_missing_table
from holdfast.errors import LockError


@dataclass(frozen=True, slots=True)
class Marks:
    """The statements of one kind of database."""

    ddl: str
    mark: str
    """Raise the mark of `:name` to `:fence`, and give it."""
    look: str = ""
    """Gives the mark, where `mark` cannot."""
    exists: str = ""
    """Gives whether the table is there. Where to find out by failing would end the transaction."""
    lock: str = ""
    """Have others who want to make the table wait for us."""
    in_hex: bool = False
    """Whether names are bytes there: they are given in hex, which every connection understands
    alike, whatever its character set."""
    commits: bool = False
    """Whether to make a table ends the transaction: then it is the user who must make it."""


_MARKS = {
    POSTGRESQL: Marks(
        ddl="""\
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL
);""",
        exists="SELECT to_regclass('holdfast_fences') IS NOT NULL",
        lock="SELECT 1 FROM pg_advisory_xact_lock(hashtext('holdfast_fences'))",
        mark="""
INSERT INTO holdfast_fences AS seen (name, fence) VALUES (:name, :fence)
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
INSERT INTO holdfast_fences (name, fence) VALUES (UNHEX(:name), :fence)
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))""",
        look="SELECT fence FROM holdfast_fences WHERE name = UNHEX(:name) FOR UPDATE",
        in_hex=True,
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
    """What makes the table."""
    return _MARKS[database].ddl


def newest(database: str, name: str, fence: int) -> Steps[int]:
    """The greatest fence that was seen for the name, this one included."""
    sql = _MARKS[database]
    if sql.exists and (yield sql.exists, {}) != [(True,)]:
        yield from _create(sql)
    try:
        return (yield from _mark(sql, name, fence))
    except Exception as error:
        if not is_missing_table(error):
            raise
    yield from _create(sql)
    return (yield from _mark(sql, name, fence))


def _mark(sql: Marks, name: str, fence: int) -> Steps[int]:
    values = {"name": name.encode().hex() if sql.in_hex else name, "fence": fence}
    rows = yield sql.mark, values
    if sql.look:
        rows = yield sql.look, values
    [(seen,)] = rows
    return int(seen)


def _create(sql: Marks) -> Steps[None]:
    if sql.commits:
        raise LockError(
            "the fence was not checked: there is no table for it, and making one would commit "
            f"your transaction; have it made before:\n{sql.ddl}"
        )
    if sql.lock:
        yield sql.lock, {}
    yield sql.ddl.rstrip(";"), {}
