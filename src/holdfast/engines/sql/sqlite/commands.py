"""The SQL of SQLite; what the statements are for is in `holdfast.engines.sql.commands`.

Times are microseconds of the host's boot clock, and `boot` says of which boot an expiry is an
instant. A transaction locks the whole file.
"""

from holdfast.engines.sql.dialect import Dialect

SCHEMA = """
CREATE TABLE IF NOT EXISTS holdfast_leases (
    name TEXT NOT NULL UNIQUE,
    holder TEXT,
    fence INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    boot TEXT NOT NULL,
    offered INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS holdfast_waiters (
    holder TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    place INTEGER NOT NULL,
    listener TEXT NOT NULL,
    alive_until INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS holdfast_queue ON holdfast_waiters (name, place);
CREATE TABLE IF NOT EXISTS holdfast_cells (
    name TEXT NOT NULL UNIQUE,
    value BLOB NOT NULL,
    is_text INTEGER NOT NULL,
    version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS holdfast_file (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    version INTEGER NOT NULL,
    boot TEXT NOT NULL,
    floor INTEGER NOT NULL
);
"""

VERSION = 2

HAS_VERSION = "SELECT 1 FROM sqlite_master WHERE name = 'holdfast_file'"

UPGRADE = """
ALTER TABLE holdfast_leases RENAME COLUMN ends TO expires;
ALTER TABLE holdfast_leases ADD COLUMN offered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_leases ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
DROP TABLE holdfast_waiters;
UPDATE holdfast_file SET version = 2;
"""
"""Brings a file of the first release up to date. Its clients are refused from then on: a column
that they name is gone, and they know the version when they open the file again."""

FIRST_USE = "INSERT OR IGNORE INTO holdfast_file VALUES (1, :version, :boot, 0)"

FILE = "SELECT version, boot FROM holdfast_file"

NEW_BOOT = """
UPDATE holdfast_file SET floor = ((floor >> 32) + 1) << 32, boot = :boot WHERE boot <> :boot
"""

LAST_ROW = "SELECT coalesce(max(rowid), 0) FROM holdfast_leases"

PRUNABLE = """
SELECT rowid, fence FROM holdfast_leases
WHERE rowid BETWEEN :first AND :last AND NOT queued
  AND (expires < :before AND boot = :boot OR boot <> :boot AND holder IS NULL)
"""

LISTENERS = "SELECT DISTINCT listener FROM holdfast_waiters WHERE listener <> ''"

FORGET_LISTENER = "DELETE FROM holdfast_waiters WHERE listener = ?"

RAISE_FLOOR = "UPDATE holdfast_file SET floor = max(floor, :fence)"

PRUNE = "DELETE FROM holdfast_leases WHERE rowid = ?"

_SEEN = """
SELECT name, holder, fence, CASE WHEN boot = :boot THEN expires - :now ELSE ttl END,
       (SELECT count(*) FROM holdfast_waiters w WHERE w.name = l.name)
FROM holdfast_leases l
WHERE holder IS NOT NULL AND (boot <> :boot OR expires > :now)
"""

TEXTS = {
    "acquire": """
        INSERT INTO holdfast_leases (name, holder, fence, ttl, expires, boot)
        VALUES (:key, :holder, (SELECT floor FROM holdfast_file) + 1, :ttl, :now + :ttl, :boot)
        ON CONFLICT (name) DO UPDATE SET
            fence = CASE WHEN holder = excluded.holder AND NOT offered THEN fence
                         ELSE max(fence, excluded.fence - 1) + 1 END,
            expires = CASE WHEN holder = excluded.holder AND NOT offered AND boot = excluded.boot
                           THEN max(expires, excluded.expires) ELSE excluded.expires END,
            ttl = CASE WHEN holder = excluded.holder AND NOT offered
                       THEN max(ttl, excluded.ttl) ELSE excluded.ttl END,
            holder = excluded.holder, boot = excluded.boot, offered = 0
        WHERE holder = excluded.holder OR NOT queued AND (
            holder IS NULL OR boot = excluded.boot AND expires <= excluded.expires - excluded.ttl
        )
        RETURNING fence, :now
    """,
    "look": """
        SELECT NULL, :now, CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END, ttl, holder,
               (SELECT place FROM holdfast_waiters WHERE holder = :holder)
        FROM (SELECT 1) LEFT JOIN holdfast_leases ON name = :key
    """,
    "extend": """
        UPDATE holdfast_leases SET
            expires = CASE WHEN boot = :boot THEN max(expires, :now + :ttl) ELSE :now + :ttl END,
            ttl = max(ttl, :ttl), boot = :boot
        WHERE name = :key AND holder = :holder AND NOT offered AND (boot <> :boot OR expires > :now)
        RETURNING 1
    """,
    "release": """
        UPDATE holdfast_leases SET holder = NULL, offered = 0, expires = :now, boot = :boot
        WHERE name = :key AND holder = :holder AND NOT queued
        RETURNING 1
    """,
    "adopt": """
        UPDATE holdfast_leases SET
            expires = :now + CASE WHEN holder = :holder AND offered THEN :offer ELSE ttl END,
            boot = :boot
        WHERE name = :key AND (boot <> :boot OR holder = :holder AND offered)
    """,
    "join": """
        INSERT INTO holdfast_waiters (holder, name, place, listener, alive_until)
        SELECT :holder, :key,
               CASE WHEN :place > 0 THEN :place ELSE max(:now, coalesce(
                   (SELECT max(place) + 1 FROM holdfast_waiters WHERE name = :key), 0)) END,
               :listener, :now + :life
        WHERE true
        ON CONFLICT (holder) DO UPDATE
        SET listener = excluded.listener, alive_until = excluded.alive_until
    """,
    "mark": "UPDATE holdfast_leases SET queued = 1 WHERE name = :key AND NOT queued",
    "touch": """
        UPDATE holdfast_waiters SET alive_until = :now + :life WHERE holder = :holder RETURNING 1
    """,
    "leave": "DELETE FROM holdfast_waiters WHERE holder = :holder",
    "free": """
        UPDATE holdfast_leases SET holder = NULL, offered = 0, expires = :now, boot = :boot
        WHERE name = :key AND holder = :holder
        RETURNING 1
    """,
    "bury": """
        DELETE FROM holdfast_waiters WHERE name = :key AND place < coalesce((
            SELECT place FROM holdfast_waiters WHERE name = :key
            AND (listener <> '' OR alive_until BETWEEN :now AND :now + :life)
            ORDER BY place LIMIT 1
        ), 9223372036854775807)
        AND EXISTS (
            SELECT 1 FROM holdfast_leases
            WHERE name = :key AND (holder IS NULL OR boot = :boot AND expires <= :now)
        )
    """,
    "settle": """
        UPDATE holdfast_leases SET
            holder = coalesce(
                (SELECT holder FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1), :me
            ),
            offered = :me IS NOT NULL OR EXISTS (SELECT 1 FROM holdfast_waiters WHERE name = :key),
            ttl = :offer,
            expires = :now + :offer,
            boot = :boot,
            queued = EXISTS (
                SELECT 1 FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1 OFFSET 1
            )
        WHERE name = :key AND (holder IS NULL OR boot = :boot AND expires <= :now)
    """,
    # Each row by its number: a query that sorts, or is named and used twice, takes ten times as
    # long here.
    "heads": """
        SELECT w.holder, w.listener FROM holdfast_leases l
        JOIN holdfast_waiters first ON first.rowid = (
            SELECT rowid FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1
        )
        JOIN holdfast_waiters w ON w.rowid IN (first.rowid, (
            SELECT rowid FROM (
                SELECT rowid, listener FROM holdfast_waiters
                WHERE name = :key ORDER BY place LIMIT 100
            ) WHERE listener <> first.listener LIMIT 1
        ))
        WHERE l.name = :key AND l.offered AND (l.holder = first.holder OR :again)
          AND w.listener <> '' AND w.holder <> :holder
        ORDER BY w.place
    """,
    "drop": """
        DELETE FROM holdfast_waiters
        WHERE holder = (SELECT holder FROM holdfast_leases WHERE name = :key AND offered)
    """,
    "take_away": """
        UPDATE holdfast_leases SET holder = NULL, offered = 0, expires = :now, boot = :boot
        WHERE name = :key AND holder IS NOT NULL AND (boot <> :boot OR expires > :now)
        RETURNING 1
    """,
    "forget": "DELETE FROM holdfast_waiters WHERE listener = :listener",
    "inspect": _SEEN + " AND name = :key",
    "listing": _SEEN
    + """
        AND name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix AND name > :after
        ORDER BY name LIMIT :limit
    """,
    "cell": "SELECT value, is_text, version FROM holdfast_cells WHERE name = :key",
    "make_cell": """
        INSERT INTO holdfast_cells VALUES (:key, :value, :is_text, 1)
        ON CONFLICT (name) DO NOTHING RETURNING 1
    """,
    "set_cell": """
        UPDATE holdfast_cells SET value = :value, is_text = :is_text, version = version + 1
        WHERE name = :key AND version = :expect RETURNING 1
    """,
}

DIALECT = Dialect.of("qmark", {}, TEXTS)

ACQUIRE, RELEASE = DIALECT.acquire.sql, DIALECT.release.sql
"""Sent with plain tuples, which is quicker, by what needs no more than one statement."""

assert DIALECT.acquire.names == ("key", "holder", "ttl", "now", "ttl", "boot", "now")  # noqa: S101
assert DIALECT.release.names == ("now", "boot", "key", "holder")  # noqa: S101 - as it is sent
