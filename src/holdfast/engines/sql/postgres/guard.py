"""How a transaction is tied to a lease in PostgreSQL.

`FOR KEY SHARE` is in the way of whatever changes a column of a unique index, or deletes the row. Of
all that is said about a lease, only a takeover does: it changes the fence (see `statements`). It is
not in the way of renewals, releases, or those who join the queue; `FOR SHARE` would be.
"""

from holdfast.engines.sql.borrowed import POSTGRESQL
from holdfast.engines.sql.guard import SqlGuard
from holdfast.engines.sql.postgres.statements import quoted

GUARD = """
SELECT 1 FROM {leases} WHERE name = :key AND holder = :holder AND fence = :fence FOR KEY SHARE
"""


def guard(table: str) -> SqlGuard:
    """The guard of a lease table."""
    leases, _ = quoted(table)
    return SqlGuard(POSTGRESQL, GUARD.format(leases=leases).strip())
