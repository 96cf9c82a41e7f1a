"""Tying a user's own transaction to a lease: see rule 3 of `statements`."""

from holdfast.engines.sql.borrowed import MYSQL
from holdfast.engines.sql.guard import SqlGuard
from holdfast.engines.sql.mysql.statements import quoted

GUARD = """
SELECT 1 FROM {leases} FORCE INDEX (tenure)
WHERE fence = :fence AND name = UNHEX(:key) AND EXISTS (
    SELECT 1 FROM {leases} AS seen FORCE INDEX (tenure)
    WHERE seen.fence = :fence AND seen.name = UNHEX(:key)
) LOCK IN SHARE MODE
"""
"""The fence says whose it is. To look at the holder would, under SERIALIZABLE, lock what a renewal
writes.

A locking read sees the present, even where the reads after it see what was there when the
transaction began. So the lease must be there for such a read, too: that within EXISTS is none that
locks. (Under SERIALIZABLE every read is one, and none sees the past.)"""


def guard(table: str) -> SqlGuard:
    """The guard of a lease table."""
    leases, _ = quoted(table)
    return SqlGuard(MYSQL, GUARD.format(leases=leases).strip(), in_hex=True)
