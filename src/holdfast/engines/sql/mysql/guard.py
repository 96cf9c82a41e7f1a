"""The guard statement of MariaDB and MySQL: see rule 3 of `commands`."""

from holdfast.engines.sql.adapters import MYSQL
from holdfast.engines.sql.guard import SqlGuard
from holdfast.engines.sql.mysql.commands import tables

GUARD = """
SELECT 1 FROM {leases} FORCE INDEX (tenure)
WHERE fence = :fence AND name = UNHEX(:name) AND EXISTS (
    SELECT 1 FROM {leases} AS seen FORCE INDEX (tenure)
    WHERE seen.fence = :fence AND seen.name = UNHEX(:name)
) LOCK IN SHARE MODE
"""
"""The fence identifies the lease. Reading the holder would, under SERIALIZABLE, lock what a renewal
writes.

A locking read returns the latest row, also where later plain reads use an older snapshot. The lease
must be visible in that snapshot as well: the read inside EXISTS does not lock, so it uses the
snapshot. (Under SERIALIZABLE every read locks, and there is no older snapshot.)"""


def guard(table: str) -> SqlGuard:
    """The guard of a lease table."""
    return SqlGuard(MYSQL, GUARD.format(leases=tables(table).leases).strip())
