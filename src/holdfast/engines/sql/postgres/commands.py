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

from holdfast.engines.sql import dialect
from holdfast.engines.sql.dialect import Dialect, Text, table_names, texts_of

SCHEMA = "public"
"""Where the tables are unless `table` names a schema."""


class Statements(dialect.Statements):
    """All statements for one lease table."""

    def __init__(self, table: str) -> None:
        self.names = names = table_names(table, '"', SCHEMA)
        expressions = names | {"now": NOW, "alive": ALIVE.format(now=NOW)}
        self.dialect = texts_of(Dialect, "numeric_dollar", expressions, TEXTS)
        self.extend_all = Text(EXTEND_ALL.format(**expressions), "numeric_dollar")
        self.ddl = DDL.format(**names).strip()
        # Two clients that make the tables at once would be in each other's way.
        self.create = f"{CREATING};\n{self.ddl}"
        self.version = Text(READ_VERSION.format(**names), "numeric_dollar")
        # A table of the first release may be in another schema, found by `search_path`.
        self.strays = Text(STRAYS.format(**names), "numeric_dollar")


CREATING = "SELECT pg_advisory_xact_lock(hashtext('holdfast'))"

READ_VERSION = "SELECT version FROM {version}"

STRAYS = """
SELECT CAST(n.nspname AS text) FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass('"{plain}"') AND c.oid <> coalesce(to_regclass('{leases}'), 0)
"""

DDL = """
CREATE TABLE IF NOT EXISTS {leases} (
    name bytea PRIMARY KEY,
    holder bytea,
    fence bigint NOT NULL,
    ttl bigint NOT NULL DEFAULT 86400000000,
    expires bigint NOT NULL,
    offered boolean NOT NULL DEFAULT false,
    queued boolean NOT NULL DEFAULT false,
    UNIQUE (name, fence)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS {cells} (
    key bytea PRIMARY KEY,
    value bytea NOT NULL,
    is_text boolean NOT NULL,
    version bigint NOT NULL
);
DO $migrate$ BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_attribute
               WHERE attrelid = to_regclass('{leases}') AND attname = 'queue') THEN
        ALTER TABLE {leases} DROP COLUMN queue,
            ALTER COLUMN name TYPE bytea USING convert_to(name, 'UTF8'),
            ALTER COLUMN holder TYPE bytea USING convert_to(holder, 'UTF8'),
            ALTER COLUMN ends TYPE bigint USING CAST(extract(epoch FROM ends) * 1000000 AS bigint),
            ADD COLUMN ttl bigint NOT NULL DEFAULT 86400000000,
            ADD COLUMN queued boolean NOT NULL DEFAULT false;
        ALTER TABLE {leases} RENAME COLUMN ends TO expires;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_attribute
               WHERE attrelid = to_regclass('{cells}') AND attname = 'name') THEN
        ALTER TABLE {cells} ALTER COLUMN name TYPE bytea USING convert_to(name, 'UTF8');
        ALTER TABLE {cells} RENAME COLUMN name TO key;
    END IF;
END $migrate$;
CREATE TABLE IF NOT EXISTS {waiters} (
    holder bytea PRIMARY KEY,
    name bytea NOT NULL,
    place bigint NOT NULL,
    listener text NOT NULL,
    pid integer NOT NULL,
    alive_until bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS "{plain}_queue" ON {waiters} (name, place);
CREATE TABLE IF NOT EXISTS {version} (version integer NOT NULL);
INSERT INTO {version} SELECT {current} WHERE NOT EXISTS (SELECT FROM {version});
"""
"""The tables. Those of the first release are brought up to date; its clients are refused then,
since columns that they name are gone."""

NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

ALIVE = """
CASE WHEN pid = 0 THEN alive_until > {now} AND alive_until <= {now} + CAST(:life AS bigint)
     ELSE EXISTS (SELECT FROM pg_stat_get_activity(pid)) END
"""

_SEEN = """
SELECT name, holder, fence, least(expires - {now}, ttl),
       (SELECT count(*) FROM {waiters} AS w WHERE w.name = l.name AND {alive}), 1
FROM {leases} AS l
WHERE holder IS NOT NULL AND expires > {now}
"""

TEXTS = {
    "acquire": """
WITH taken AS (
    UPDATE {leases} SET
        fence = CASE WHEN holder = :holder AND NOT offered THEN fence
                     ELSE greatest(fence + 1, {now}) END,
        expires = CASE WHEN holder = :holder AND NOT offered
                       THEN greatest(least(expires, {now} + greatest(ttl, :ttl)), {now} + :ttl)
                       ELSE {now} + :ttl END,
        ttl = CASE WHEN holder = :holder AND NOT offered THEN greatest(ttl, :ttl)
                   ELSE CAST(:ttl AS bigint) END,
        holder = :holder,
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
    INSERT INTO {leases} (name, holder, fence, ttl, expires)
    SELECT :key, :holder, {now}, :ttl, {now} + :ttl WHERE {now} < :deadline
    ON CONFLICT (name) DO NOTHING
    RETURNING fence
)
SELECT coalesce((SELECT fence FROM taken), (SELECT fence FROM made)),
       {now}, expires - {now}, ttl, holder
FROM (VALUES (1)) AS one LEFT JOIN {leases} ON name = :key
""",
    # A new fence is no less than the clock: idle rows can be deleted, and a standby that missed the
    # last grants before it was promoted still gives greater ones.
    "look": """
SELECT CAST(NULL AS bigint), {now}, l.expires - {now}, l.ttl, l.holder, w.place, l.queued
FROM (VALUES (1)) AS one LEFT JOIN {leases} AS l ON l.name = :key
LEFT JOIN {waiters} AS w ON w.holder = :holder
""",
    "extend": """
UPDATE {leases} SET
    expires = greatest(least(expires, {now} + greatest(ttl, :ttl)), {now} + :ttl),
    ttl = greatest(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND expires > {now}
RETURNING 1
""",
    "release": """
UPDATE {leases} SET holder = NULL, offered = false, expires = {now}
WHERE name = :key AND holder = :holder AND NOT queued
RETURNING 1
""",
    "lock": "SELECT 1 FROM {leases} WHERE name = :key FOR NO KEY UPDATE",
    "adopt": """
UPDATE {leases} SET
    expires = {now} + CASE WHEN holder = :holder AND offered THEN CAST(:offer AS bigint)
                           ELSE ttl END
WHERE name = :key AND (expires > {now} + ttl OR holder = :holder AND offered)
""",
    "join": """
INSERT INTO {waiters} (holder, name, place, listener, pid, alive_until)
SELECT CAST(:holder AS bytea), CAST(:key AS bytea),
       CASE WHEN CAST(:place AS bigint) > 0 THEN :place
            ELSE greatest({now}, coalesce(max(place) + 1, 0)) END,
       CAST(:listener AS text), CAST(:pid AS integer), {now} + CAST(:life AS bigint)
FROM {waiters} WHERE name = :key
ON CONFLICT (holder) DO UPDATE
SET listener = excluded.listener, pid = excluded.pid, alive_until = excluded.alive_until
""",
    "mark": "UPDATE {leases} SET queued = true WHERE name = :key AND NOT queued",
    "touch": """
UPDATE {waiters} SET alive_until = {now} + :life WHERE holder = :holder AND pid = 0 RETURNING 1
""",
    "leave": "DELETE FROM {waiters} WHERE holder = :holder",
    "free": """
UPDATE {leases} SET holder = NULL, offered = false, expires = {now}
WHERE name = :key AND holder = :holder
RETURNING 1
""",
    "bury": """
DELETE FROM {waiters} WHERE name = :key AND place < coalesce(
    (SELECT place FROM {waiters} WHERE name = :key AND {alive} ORDER BY place LIMIT 1),
    9223372036854775807
) AND EXISTS (SELECT FROM {leases} WHERE name = :key AND (holder IS NULL OR expires <= {now}))
""",
    "settle": """
UPDATE {leases} SET
    holder = next.holder,
    offered = next.holder IS NOT NULL,
    ttl = CAST(:offer AS bigint),
    expires = {now} + CASE WHEN next.holder IS NULL THEN 0 ELSE :offer END,
    queued = EXISTS (SELECT FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1 OFFSET 1)
FROM (SELECT coalesce(
    (SELECT holder FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1), CAST(:me AS bytea)
) AS holder) AS next
WHERE name = :key AND ({leases}.holder IS NULL OR expires <= {now})
""",
    "heads": """
WITH front AS (
    SELECT holder, listener, place FROM {waiters} WHERE name = :key ORDER BY place LIMIT 100
), first AS (
    SELECT * FROM front ORDER BY place LIMIT 1
), other AS (
    SELECT * FROM front WHERE listener <> (SELECT listener FROM first) ORDER BY place LIMIT 1
)
SELECT holder, listener, pg_notify(listener, encode(holder, 'hex'))
FROM (SELECT * FROM first UNION ALL SELECT * FROM other) AS heads
WHERE listener <> '' AND holder <> :holder AND EXISTS (
    SELECT FROM {leases} WHERE name = :key AND offered
    AND (holder = (SELECT holder FROM first) OR CAST(:again AS boolean))
)
""",
    "drop": """
DELETE FROM {waiters} WHERE holder = (SELECT holder FROM {leases} WHERE name = :key AND offered)
""",
    "take_away": """
UPDATE {leases} SET holder = NULL, offered = false, expires = {now}
WHERE name = :key AND holder = coalesce(CAST(:only AS bytea), holder) AND expires > {now}
RETURNING 1
""",
    "inspect": _SEEN + " AND name = :key",
    "listing": _SEEN
    + """
AND name >= :prefix AND substring(name FROM 1 FOR length(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit
""",
    "cell": "SELECT value, is_text, version FROM {cells} WHERE key = :key",
    "make_cell": """
INSERT INTO {cells} (key, value, is_text, version) VALUES (:key, :value, :is_text, 1)
ON CONFLICT (key) DO NOTHING RETURNING 1
""",
    "set_cell": """
UPDATE {cells} SET value = :value, is_text = :is_text, version = version + 1
WHERE key = :key AND version = :expect RETURNING 1
""",
}

EXTEND_ALL = """
UPDATE {leases} AS l SET
    expires = greatest(least(l.expires, {now} + greatest(l.ttl, r.ttl)), {now} + r.ttl),
    ttl = greatest(l.ttl, r.ttl)
FROM unnest(CAST(:keys AS bytea[]), CAST(:holders AS bytea[]), CAST(:ttls AS bigint[]))
     AS r(name, holder, ttl)
WHERE l.name = r.name AND l.holder = r.holder AND NOT l.offered AND l.expires > {now}
RETURNING l.holder
"""

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

SETTLE = "; ".join(f"SET {name} = '{value}'" for name, value in _SETTINGS.items())
"""Only where the session is ours alone: not behind a pooler."""
