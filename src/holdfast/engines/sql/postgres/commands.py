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

from functools import partial

from holdfast.engines.sql import dialect
from holdfast.engines.sql.dialect import Dialect, SharedDialect, Text, table_names, texts_of

SCHEMA = "public"
"""Where the tables are unless `table` names a schema."""


class Statements(dialect.Statements):
    """All statements for one lease table."""

    def __init__(self, table: str) -> None:
        self.names = names = table_names(table, '"', SCHEMA)
        expressions = names | {"now": NOW, "alive": ALIVE.format(now=NOW)}
        room = _ROOM.format_map(expressions | {"shares": ":shares"})
        room_first = _ROOM.format_map(expressions | {"shares": "first.shares"})
        expressions |= {"room": room, "room_first": room_first}
        style = "numeric_dollar"
        shared = texts_of(SharedDialect, style, expressions, SHARED_TEXTS)
        self.dialect = texts_of(partial(Dialect, shared=shared), style, expressions, TEXTS)
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
    ALTER TABLE IF EXISTS {waiters} ADD COLUMN IF NOT EXISTS shares integer NOT NULL DEFAULT 1;
END $migrate$;
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
INSERT INTO {version} SELECT {current} WHERE NOT EXISTS (SELECT FROM {version});
UPDATE {version} SET version = {current} WHERE version < {current};
"""
"""The tables. Earlier ones are brought up to date. Clients of the first release are refused then,
since columns that they name are gone. Those of version 2 go on while they are connected, and see a
shared lock as one that another client holds."""

NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

ALIVE = """
CASE WHEN pid = 0 THEN alive_until > {now} AND alive_until <= {now} + CAST(:life AS bigint)
     ELSE EXISTS (SELECT FROM pg_stat_get_activity(pid)) END
"""

_SEEN = """
SELECT l.name, coalesce(m.holder, l.holder), l.fence,
       least(coalesce(m.expires, l.expires) - {now}, coalesce(m.ttl, l.ttl)),
       (SELECT count(*) FROM {waiters} AS w WHERE w.name = l.name AND {alive}),
       coalesce(m.shares, 1)
FROM (
    SELECT * FROM {leases} WHERE holder IS NOT NULL AND expires > {now} AND CONDITION
) AS l LEFT JOIN {members} AS m
    ON m.name = l.name AND l.holder = :marker AND m.expires > {now}
ORDER BY l.name
"""

_ROOM = """
(l.holder = :marker
    AND NOT EXISTS (SELECT FROM {members} WHERE name = :key AND shares <> {shares})
    AND ({shares} = 0 OR {shares} > (SELECT count(*) FROM {members} WHERE name = :key))
 OR NOT EXISTS (SELECT FROM {members} WHERE name = :key) AND (
    l.holder IS NULL OR l.expires <= {now}))
"""
"""Whether there is room for one more with these shares."""

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
SELECT CAST(NULL AS bigint), {now},
       CASE WHEN l.holder = :marker THEN (SELECT min(expires) FROM {members} WHERE name = :key)
            ELSE l.expires END - {now},
       l.ttl, l.holder, w.place, l.queued
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
UPDATE {leases} SET expires = {now} + ttl
WHERE name = :key AND (expires > {now} + ttl OR holder = :holder AND offered)
""",
    "join": """
INSERT INTO {waiters} (holder, name, place, listener, pid, alive_until, shares)
SELECT CAST(:holder AS bytea), CAST(:key AS bytea),
       CASE WHEN CAST(:place AS bigint) > 0 THEN :place
            ELSE greatest({now}, coalesce(max(place) + 1, 0)) END,
       CAST(:listener AS text), CAST(:pid AS integer), {now} + CAST(:own_life AS bigint),
       CAST(:shares AS integer)
FROM {waiters} WHERE name = :key
ON CONFLICT (holder) DO UPDATE
SET listener = excluded.listener, pid = excluded.pid, alive_until = excluded.alive_until
""",
    "mark": "UPDATE {leases} SET queued = true WHERE name = :key AND NOT queued",
    "touch": """
UPDATE {waiters} SET alive_until = {now} + :own_life
WHERE holder = :holder AND pid = 0 RETURNING 1
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
) AND EXISTS (
    SELECT FROM {leases} WHERE name = :key
    AND (holder IS NULL OR holder = :marker OR expires <= {now})
)
""",
    "settle": """
UPDATE {leases} SET
    holder = next.holder,
    offered = next.holder IS NOT NULL,
    ttl = next.lasting,
    expires = {now} + CASE WHEN next.holder IS NULL THEN 0 ELSE next.lasting END,
    queued = EXISTS (SELECT FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1 OFFSET 1)
FROM (SELECT coalesce(
    (SELECT holder FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1), CAST(:me AS bytea)
) AS holder, greatest(CAST(:offer AS bigint), (
    SELECT CASE pid WHEN 0 THEN alive_until - {now} END FROM {waiters}
    WHERE name = :key ORDER BY place LIMIT 1
)) AS lasting) AS next
WHERE name = :key AND ({leases}.holder IS NULL OR expires <= {now}) AND coalesce(
    (SELECT shares FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1), 1
) = 1
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
    "inspect": _SEEN.replace("CONDITION", "name = :key"),
    "listing": _SEEN.replace(
        "CONDITION",
        """
name >= :prefix AND substring(name FROM 1 FOR length(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit
""",
    ),
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

SHARED_TEXTS = {
    "reserve": """
INSERT INTO {leases} (name, fence, ttl, expires) VALUES (:key, 0, 0, {now})
ON CONFLICT (name) DO UPDATE SET queued = {leases}.queued
""",
    "recount": """
UPDATE {members} SET expires = {now} + ttl
WHERE name = :key AND (holder = :holder AND offered OR expires > {now} + ttl)
""",
    "expire": """
DELETE FROM {members} WHERE name = :key AND (expires <= {now} OR NOT EXISTS (
    SELECT FROM {leases} WHERE name = :key AND holder = :marker
))
""",
    "unfold": """
INSERT INTO {members} (name, holder, shares, ttl, expires, offered)
SELECT name, substr(holder, 20), CAST(encode(substr(holder, 9, 10), 'escape') AS integer), ttl,
       least(expires, {now} + ttl), false
FROM {leases} WHERE name = :key AND substr(holder, 1, 8) = :alone AND expires > {now}
""",
    "mark": """
UPDATE {leases} SET holder = CAST(:marker AS bytea)
WHERE name = :key AND substr(holder, 1, 8) = :alone
  AND EXISTS (SELECT FROM {members} WHERE name = :key)
""",
    "enter": """
INSERT INTO {members} (name, holder, shares, ttl, expires, offered)
SELECT CAST(:key AS bytea), CAST(:holder AS bytea), CAST(:shares AS integer),
       CAST(:offer AS bigint), {now} + :offer, true
FROM {leases} AS l
WHERE name = :key AND :shares <> 1 AND {now} < :deadline
  AND (NOT queued AND {room} OR holder = :holder AND offered)
ON CONFLICT (name, holder) DO NOTHING
""",
    # A transaction that relies on the last lease keeps the fence from being changed.
    "rise": """
UPDATE {leases} SET
    fence = greatest(fence + 1, {now}), holder = CAST(:marker AS bytea), offered = false
WHERE name = (
    SELECT name FROM {leases} WHERE {now} < :deadline AND name = :key
      AND EXISTS (SELECT FROM {members} WHERE name = :key AND holder = :holder)
      AND NOT EXISTS (SELECT FROM {members} WHERE name = :key AND NOT offered)
    FOR UPDATE SKIP LOCKED
)
""",
    "confirm": """
UPDATE {members} SET
    expires = CASE WHEN offered THEN {now} + :ttl
              ELSE greatest(least(expires, {now} + greatest(ttl, :ttl)), {now} + :ttl) END,
    ttl = CASE WHEN offered THEN CAST(:ttl AS bigint) ELSE greatest(ttl, :ttl) END,
    offered = false
WHERE name = :key AND holder = :holder AND {now} < :deadline AND EXISTS (
    SELECT FROM {leases} WHERE name = :key AND holder = :marker AND NOT offered
)
""",
    "prolong": """
UPDATE {members} SET
    ttl = greatest(ttl, :ttl),
    expires = greatest(least(expires, {now} + greatest(ttl, :ttl)), {now} + :ttl)
WHERE name = :key AND holder = :holder AND expires > {now} AND NOT offered
RETURNING 1
""",
    "remove": "DELETE FROM {members} WHERE name = :key AND holder = :holder RETURNING 1",
    "admit": """
INSERT INTO {members} (name, holder, shares, ttl, expires, offered)
WITH front AS (
    SELECT holder, place, shares, pid, alive_until, greatest(
        CAST(:offer AS bigint), CASE pid WHEN 0 THEN alive_until - {now} END
    ) AS lasting
    FROM {waiters}
    WHERE name = :key ORDER BY place LIMIT 100
), first AS (
    SELECT shares FROM front ORDER BY place LIMIT 1
)
SELECT CAST(:key AS bytea), w.holder, w.shares, w.lasting, {now} + w.lasting, true
FROM {leases} AS l, first, front AS w
WHERE l.name = :key AND first.shares <> 1 AND w.shares = first.shares AND {alive}
  AND w.place < coalesce(
      (SELECT min(place) FROM front WHERE shares <> first.shares AND {alive}),
      9223372036854775807
  )
  AND {room_first}
ORDER BY w.place LIMIT coalesce((
    SELECT CASE shares WHEN 0 THEN 100 ELSE greatest(
        0, shares - (SELECT count(*) FROM {members} WHERE name = :key)
    ) END FROM first
), 0)
ON CONFLICT (name, holder) DO NOTHING
""",
    "woken": """
WITH front AS (
    SELECT w.holder, w.listener, w.place, m.holder IS NOT NULL AS admitted
    FROM (
        SELECT holder, listener, place FROM {waiters} WHERE name = :key ORDER BY place LIMIT 100
    ) AS w LEFT JOIN {members} AS m ON m.name = :key AND m.holder = w.holder
), next AS (
    SELECT * FROM front WHERE NOT admitted ORDER BY place LIMIT 1
)
SELECT holder, listener, admitted, pg_notify(listener, encode(holder, 'hex')) FROM front
WHERE listener <> '' AND holder <> :holder AND (
    admitted
    OR (CAST(:again AS boolean) OR EXISTS (SELECT FROM front WHERE admitted))
       AND EXISTS (SELECT FROM {members} WHERE name = :key AND offered)
       AND place IN ((SELECT place FROM next), (
           SELECT min(place) FROM front
           WHERE NOT admitted AND listener <> (SELECT listener FROM next)
       ))
)
""",
    "drop": """
DELETE FROM {waiters} WHERE holder IN (SELECT holder FROM {members} WHERE name = :key)
""",
    "tally": """
UPDATE {leases} SET
    holder = CASE WHEN EXISTS (SELECT FROM {members} WHERE name = :key)
                  THEN CAST(:marker AS bytea) END,
    offered = EXISTS (SELECT FROM {members} WHERE name = :key)
              AND NOT EXISTS (SELECT FROM {members} WHERE name = :key AND NOT offered),
    ttl = coalesce((SELECT max(ttl) FROM {members} WHERE name = :key), ttl),
    expires = coalesce((SELECT max(expires) FROM {members} WHERE name = :key), {now}),
    queued = EXISTS (SELECT FROM {waiters} WHERE name = :key)
WHERE name = :key
  AND (holder = :marker OR EXISTS (SELECT FROM {members} WHERE name = :key))
""",
    "peek": """
SELECT CASE WHEN NOT m.offered THEN l.fence END, {now},
       CASE WHEN l.holder = :marker THEN (SELECT min(expires) FROM {members} WHERE name = :key)
            ELSE l.expires END - {now},
       l.holder, (SELECT place FROM {waiters} WHERE holder = :holder), l.queued,
       m.holder IS NOT NULL, {room},
       CAST(:shares AS integer) = (
           SELECT shares FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1
       )
FROM (VALUES (1)) AS one LEFT JOIN {leases} AS l ON l.name = :key
LEFT JOIN {members} AS m ON m.name = :key AND m.holder = :holder AND l.holder = :marker
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
