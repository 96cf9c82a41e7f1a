"""The guard: ties a user's own transaction to a lease that is kept in the same database.

The transaction locks what only a takeover changes. A takeover therefore waits for the commit; and
once it has happened, the guard finds no row.
"""

from dataclasses import dataclass

from holdfast.engines.sql.adapters import (
    MYSQL,
    POSTGRESQL,
    Adapter,
    Calls,
    execute,
    execute_async,
    is_missing_table,
    is_overtaken,
    render,
)

POSTGRESQL_GUARD = """
SELECT 1 FROM {leases} WHERE name = decode(:name, 'hex') AND holder = decode(:holder, 'hex')
AND fence = :fence FOR KEY SHARE
"""
"""`FOR KEY SHARE` conflicts with a change of a column of a unique index, and with a delete. Of all
statements on a lease only a takeover makes such a change: it changes the fence. Renewals, releases
and waiters that join are not blocked; `FOR SHARE` would block them."""

MYSQL_GUARD = """
SELECT 1 FROM {leases} FORCE INDEX (tenure)
WHERE fence = :fence AND name = UNHEX(:name) AND EXISTS (
    SELECT 1 FROM {leases} AS seen FORCE INDEX (tenure)
    WHERE seen.fence = :fence AND seen.name = UNHEX(:name)
) LOCK IN SHARE MODE
"""
"""Locks an entry of the index, which only a takeover changes. The fence identifies the lease:
reading the holder would, under SERIALIZABLE, lock what a renewal writes.

A locking read returns the latest row, also where later plain reads use an older snapshot. The lease
must be visible in that snapshot as well: the read inside EXISTS does not lock, so it uses the
snapshot. (Under SERIALIZABLE every read locks, and there is no older snapshot.)"""


@dataclass(frozen=True, slots=True)
class SqlGuard:
    """The guard of one lease table."""

    database: str
    statement: str
    """Has `:name`, `:holder` (both as UTF-8 in hex) and `:fence`. Locks the lease's row and returns
    one row; none if the lease is not this holder's."""

    def lock(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """Tie the transaction of a connection that blocks; False if it does not see the lease."""
        return execute(connection, lambda adapter: self._lock(adapter, key, holder, fence))

    async def lock_async(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """The same for a connection of asyncio."""
        return await execute_async(
            connection, lambda adapter: self._lock(adapter, key, holder, fence)
        )

    def sql(
        self, paramstyle: str, key: str, holder: str, fence: int
    ) -> tuple[str, tuple[object, ...] | dict[str, object]]:
        """The statement and its values, for any other driver."""
        return render(self.statement, self._values(key, holder, fence), paramstyle)

    def _values(self, key: str, holder: str, fence: int) -> dict[str, object]:
        return {"name": key.encode().hex(), "holder": holder.encode().hex(), "fence": fence}

    def _lock(self, adapter: Adapter, key: str, holder: str, fence: int) -> Calls[bool]:
        if adapter.database != self.database:
            raise TypeError(
                f"connection: the lock is kept in {self.database}, and only a transaction there "
                f"can be tied to it; got a connection to {adapter.database}: "
                "call holdfast.fence.check(connection, lease.name, lease.fence) in it instead"
            )
        try:
            rows = yield from adapter.execute(self.statement, self._values(key, holder, fence))
        except Exception as error:
            if is_missing_table(error) or is_overtaken(error):
                return False
            raise
        return bool(rows)


def postgresql_guard(leases: str) -> SqlGuard:
    """The guard of a lease table in PostgreSQL, given as it stands in SQL."""
    return SqlGuard(POSTGRESQL, POSTGRESQL_GUARD.format(leases=leases).strip())


def mysql_guard(leases: str) -> SqlGuard:
    """The guard of a lease table in MariaDB or MySQL."""
    return SqlGuard(MYSQL, MYSQL_GUARD.format(leases=leases).strip())
