"""The guard statement of PostgreSQL.

`FOR KEY SHARE` conflicts with a change of a column of a unique index, and with a delete. Of all
statements on a lease only a takeover makes such a change: it changes the fence (see `commands`).
Renewals, releases and waiters that join are not blocked; `FOR SHARE` would block them.
"""

from holdfast.engines.sql.adapters import POSTGRESQL
from holdfast.engines.sql.guard import SqlGuard
from holdfast.engines.sql.postgres.commands import tables

GUARD = """
SELECT 1 FROM {leases} WHERE name = decode(:name, 'hex') AND holder = decode(:holder, 'hex')
AND fence = :fence FOR KEY SHARE
"""


def guard(table: str) -> SqlGuard:
    """The guard of a lease table."""
    return SqlGuard(POSTGRESQL, GUARD.format(leases=tables(table).leases).strip())
