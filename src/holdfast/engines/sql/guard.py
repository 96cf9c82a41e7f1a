"""Tying a user's own transaction to a lease that is kept in the same database.

In the transaction, a lock is taken on what only a takeover changes. So the takeover has to wait for
the commit; and once it has taken place, the lock is not to be had any more.
"""

from dataclasses import dataclass

from holdfast.engines.sql.borrowed import (
    AsyncBorrowed,
    Borrowed,
    Steps,
    borrow,
    borrow_async,
    perform,
    perform_async,
)
from holdfast.engines.sql.borrowed.words import is_missing_table, is_overtaken


@dataclass(frozen=True, slots=True)
class SqlGuard:
    """The guard of one lease table."""

    database: str
    """Which kind of database it is in."""
    statement: str
    """Has `:key`, `:holder` and `:fence`, locks the row, and gives one if it is the holder's."""
    in_hex: bool = False
    """Whether names are bytes there: they are given in hex, which every connection understands
    alike, whatever its character set."""

    def lock(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """Tie the open transaction of a connection that blocks; False if it finds no such lease."""
        borrowed = borrow(connection)
        self._check(borrowed)
        return perform(self._tie(key, holder, fence), borrowed)

    async def lock_async(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """The same for a connection of asyncio."""
        borrowed = await borrow_async(connection)
        self._check(borrowed)
        return await perform_async(self._tie(key, holder, fence), borrowed)

    def _check(self, borrowed: Borrowed | AsyncBorrowed) -> None:
        if borrowed.database != self.database:
            raise TypeError(
                f"connection: the lock is kept in {self.database}, and only a transaction there "
                f"can be tied to it; got a connection to {borrowed.database}: "
                "say holdfast.fence.check(connection, lease.name, lease.fence) in it instead"
            )

    def _tie(self, key: str, holder: str, fence: int) -> Steps[bool]:
        name = key.encode().hex() if self.in_hex else key
        values = {"key": name, "holder": holder, "fence": fence}
        try:
            rows = yield self.statement, values
        except Exception as error:
            if is_missing_table(error) or is_overtaken(error):
                return False
            raise
        return bool(rows)
