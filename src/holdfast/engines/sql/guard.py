"""The guard: ties a user's own transaction to a lease that is kept in the same database.

The transaction locks what only a takeover changes. A takeover therefore waits for the commit; and
once it has happened, the guard finds no row.
"""

from dataclasses import dataclass

from holdfast.engines.sql.adapters import (
    Adapter,
    AsyncAdapter,
    Steps,
    adapt,
    adapt_async,
    is_missing_table,
    is_overtaken,
    perform,
    perform_async,
    render,
)


@dataclass(frozen=True, slots=True)
class SqlGuard:
    """The guard of one lease table."""

    database: str
    statement: str
    """Has `:name`, `:holder` (both as UTF-8 in hex) and `:fence`. Locks the lease's row and returns
    one row; none if the lease is not this holder's."""

    def lock(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """Tie the transaction of a connection that blocks; False if it does not see the lease."""
        adapter = adapt(connection)
        self._check(adapter)
        return perform(self._lock(key, holder, fence), adapter)

    async def lock_async(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """The same for a connection of asyncio."""
        adapter = await adapt_async(connection)
        self._check(adapter)
        return await perform_async(self._lock(key, holder, fence), adapter)

    def sql(
        self, paramstyle: str, key: str, holder: str, fence: int
    ) -> tuple[str, tuple[object, ...] | dict[str, object]]:
        """The statement and its values, for any other driver."""
        return render(self.statement, self._values(key, holder, fence), paramstyle)

    def _values(self, key: str, holder: str, fence: int) -> dict[str, object]:
        return {"name": key.encode().hex(), "holder": holder.encode().hex(), "fence": fence}

    def _check(self, adapter: Adapter | AsyncAdapter) -> None:
        if adapter.database != self.database:
            raise TypeError(
                f"connection: the lock is kept in {self.database}, and only a transaction there "
                f"can be tied to it; got a connection to {adapter.database}: "
                "call holdfast.fence.check(connection, lease.name, lease.fence) in it instead"
            )

    def _lock(self, key: str, holder: str, fence: int) -> Steps[bool]:
        try:
            rows = yield self.statement, self._values(key, holder, fence)
        except Exception as error:
            if is_missing_table(error) or is_overtaken(error):
                return False
            raise
        return bool(rows)
