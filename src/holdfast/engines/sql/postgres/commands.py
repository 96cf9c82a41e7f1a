"""The SQL of PostgreSQL; what the statements are for is in `holdfast.engines.sql.commands`.

1. The clock is `clock_timestamp()`, in microseconds since 1970: the server's, neither that of a
   transaction's beginning nor of a session's time zone.
2. Names and holders are bytes, so a database of any encoding keeps them apart. Tables have their
   schema before their name: no `search_path` leads elsewhere.
3. (name, fence) is unique, so PostgreSQL takes the fence for a part of a key: `FOR KEY SHARE` on a
   row blocks a takeover, which changes the fence, and nothing else.
4. A takeover that meets such a row does not wait for it (SKIP LOCKED). It does wait for statements
   and transactions of our own, which are short (NO KEY UPDATE).
5. A waiter with a listener is alive while the server process that listens (`pid`) is; one without
   (`pid` 0) polls, and is alive while `alive_until` lies ahead.
"""

import re

from holdfast.engines.sql import dialect
from holdfast.engines.sql.dialect import Text, table_names
from holdfast.engines.sql.statements import fill_slots, make_dialect

SCHEMA = "public"
"""Where the tables are unless `table` names a schema."""


class Statements(dialect.Statements):
    """All statements for one lease table."""

    def __init__(self, table: str) -> None:
        self.names = names = table_names(table, '"', SCHEMA)
        slots = fill_slots(names, **SLOTS)
        self.dialect = make_dialect(slots, _typed, TEXTS)
        self.ddl = DDL.format(**names).strip()
        # Two clients that make the tables at once would be in each other's way.
        self.create = f"{CREATING};\n{self.ddl}"
        self.version = Text(READ_VERSION.format(**names), "numeric_dollar")


CREATING = "SELECT pg_advisory_xact_lock(hashtext('holdfast'))"

READ_VERSION = "SELECT version FROM {version}"

DDL = """
CREATE TABLE IF NOT EXISTS {leases} (
    name bytea PRIMARY KEY,
    holder bytea,
    fence bigint NOT NULL,
    ttl bigint NOT NULL DEFAULT 86400000000,
    expires bigint NOT NULL,
    offered boolean NOT NULL DEFAULT false,
    queued boolean NOT NULL DEFAULT false,
    shares integer NOT NULL DEFAULT 1,
    UNIQUE (name, fence)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS {cells} (
    key bytea PRIMARY KEY,
    value bytea NOT NULL,
    is_text boolean NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS {waiters} (
    holder bytea PRIMARY KEY,
    name bytea NOT NULL,
    place bigint NOT NULL,
    listener text NOT NULL,
    pid integer NOT NULL,
    alive_until bigint NOT NULL,
    shares integer NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS "{plain}_queue" ON {waiters} (name, place);
CREATE TABLE IF NOT EXISTS {members} (
    name bytea NOT NULL,
    holder bytea NOT NULL,
    shares integer NOT NULL,
    ttl bigint NOT NULL,
    expires bigint NOT NULL,
    offered boolean NOT NULL,
    PRIMARY KEY (name, holder)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS {version} (version integer NOT NULL);
INSERT INTO {version} SELECT {current} WHERE NOT EXISTS (SELECT 1 FROM {version});
"""

NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

SLOTS = {
    "now": NOW,
    "polls": "pid = 0",
    "listens": "EXISTS (SELECT 1 FROM pg_stat_get_activity(pid))",
    "notify": ", pg_notify(w.listener, encode(w.holder, 'hex'))",
    "cell_name": "key",
}

_TYPES = {
    "bytea": ("key", "holder", "only", "marker", "prefix", "after", "value"),
    "bigint": (
        *("ttl", "offer", "life", "own_life", "longest_life"),
        *("deadline", "place", "limit", "expect"),
    ),
    "integer": ("shares", "pid"),
    "boolean": ("is_text",),
    "text": ("listener",),
    "bytea[]": ("keys", "holders"),
}
"""Of the values: PostgreSQL cannot always tell."""

_TYPE_OF = {name: kind for kind, names in _TYPES.items() for name in names}


def _typed(sql: str) -> Text:
    sql = re.sub(":([a-z_]+)", lambda found: f"CAST({found[0]} AS {_TYPE_OF[found[1]]})", sql)
    return Text(sql, "numeric_dollar")


TEXTS = {
    "acquire": """
WITH taken AS (
    UPDATE {leases} SET
        fence = CASE WHEN holder = :holder AND NOT offered THEN fence ELSE {next_fence} END,
        expires = CASE WHEN holder = :holder AND NOT offered THEN {extended}
                       ELSE {now} + :ttl END,
        ttl = CASE WHEN holder = :holder AND NOT offered THEN greatest(ttl, :ttl) ELSE :ttl END,
        holder = :holder,
        shares = :shares,
        offered = false
    WHERE name = (
        SELECT name FROM {leases} WHERE name = (
            SELECT name FROM {leases}
            WHERE name = :key AND {now} < :deadline
              AND (holder = :holder OR NOT queued AND (holder IS NULL OR expires <= {now}))
            FOR NO KEY UPDATE
        ) FOR UPDATE SKIP LOCKED
    )
    RETURNING fence
), made AS (
    INSERT INTO {leases} (name, holder, shares, fence, ttl, expires)
    SELECT :key, :holder, :shares, {now}, :ttl, {now} + :ttl WHERE {now} < :deadline
    ON CONFLICT (name) DO NOTHING
    RETURNING fence
)
SELECT coalesce((SELECT fence FROM taken), (SELECT fence FROM made)),
       {now}, expires - {now}, ttl, holder
FROM (VALUES (1)) AS one LEFT JOIN {leases} ON name = :key
""",
    "extend_many": """
UPDATE {leases} SET expires = {extended}, ttl = greatest(ttl, :ttl)
WHERE name = ANY(:keys) AND holder = ANY(:holders) AND NOT offered AND {running} {done}
""",
    "lock": "SELECT 1 FROM {leases} WHERE name = :key FOR NO KEY UPDATE",
    "join": """
INSERT INTO {waiters} (holder, name, place, listener, pid, alive_until, shares)
SELECT :holder, :key,
       CASE WHEN :place > 0 AND is_vacant THEN :place
            ELSE greatest({now}, coalesce(latest + 1, 0)) END,
       :listener, :pid, {now} + :own_life, :shares
FROM {queue} WHERE {must_wait}
ON CONFLICT (holder) DO UPDATE
SET listener = excluded.listener, pid = excluded.pid, alive_until = excluded.alive_until
""",
    "reserve": """
INSERT INTO {leases} (name, fence, ttl, expires) VALUES (:key, 0, 0, {now})
ON CONFLICT (name) DO UPDATE SET queued = {leases}.queued
""",
    # A transaction that relies on the last lease keeps the fence from being changed.
    "rise": """
UPDATE {leases} SET fence = {next_fence}, holder = :marker, offered = false
WHERE name = (
    SELECT name FROM {leases} WHERE {now} < :deadline AND name = :key
      AND EXISTS ({any_member} AND m.holder = :holder)
      AND NOT EXISTS ({any_member} AND NOT m.offered)
    FOR UPDATE SKIP LOCKED
)
""",
}

HANDSHAKE = Text(f"SELECT pg_backend_pid(), {NOW}", "numeric_dollar")
"""Gives the number of the server process, and the server's clock."""

_SETTINGS = {
    "search_path": "pg_catalog",
    "default_transaction_isolation": "read committed",
    "statement_timeout": "10000",
    "lock_timeout": "0",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "jit": "off",
}
"""Every statement finds its rows by an index, and in its order, so one plan will do for all values.
The server would rather plan for each, which takes longer than the statement; or, while there are
few rows, read and sort all of them, and keep to that when there are many."""

SESSION_SETTINGS = "; ".join(f"SET {name} = '{value}'" for name, value in _SETTINGS.items())
"""Only where the session is ours alone: not behind a pooler."""
