"""The guard statement of PostgreSQL.

`FOR KEY SHARE` conflicts with a change of a column of a unique index, and with a delete. Of all
statements on a lease only a takeover makes such a change: it changes the fence (see `statements`).
Renewals, releases and waiters that join are not blocked; `FOR SHARE` would block them.
"""

from holdfast.engines.sql.adapters import POSTGRESQL
from holdfast.engines.sql.guard import SqlGuard
from holdfast.engines.sql.postgres.statements import quoted

GUARD = """
SELECT 1 FROM {leases} WHERE name = convert_from(decode(:name, 'hex'), 'UTF8')
AND holder = convert_from(decode(:holder, 'hex'), 'UTF8') AND fence = :fence FOR KEY SHARE
"""


def guard(table: str) -> SqlGuard:
    """The guard of a lease table."""
    leases, _ = quoted(table)
    return SqlGuard(POSTGRESQL, GUARD.format(leases=leases).strip())
