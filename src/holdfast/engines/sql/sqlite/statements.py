"""The SQL of the SQLite dialect. Times are microseconds of the boot clock of `boot`."""

from holdfast.engines.sql.scripts import Dialect

SCHEMA = """
CREATE TABLE IF NOT EXISTS holdfast_leases (
    name TEXT NOT NULL UNIQUE,
    holder TEXT,
    fence INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    boot TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS holdfast_waiters (
    place INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    holder TEXT NOT NULL UNIQUE,
    ttl INTEGER NOT NULL,
    bell TEXT NOT NULL
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

VERSION = 1

FIRST_USE = "INSERT OR IGNORE INTO holdfast_file VALUES (1, :version, :boot, 0)"

FILE = "SELECT version, boot FROM holdfast_file"

NEW_BOOT = """
UPDATE holdfast_file SET floor = ((floor >> 32) + 1) << 32, boot = :boot WHERE boot <> :boot
"""

LAST_ROW = "SELECT coalesce(max(rowid), 0) FROM holdfast_leases"

PRUNABLE = """
SELECT rowid, fence FROM holdfast_leases
WHERE rowid BETWEEN :first AND :last
  AND (ends < :before AND boot = :boot OR boot <> :boot AND holder IS NULL)
"""

BELLS = "SELECT DISTINCT bell FROM holdfast_waiters"

FORGET_BELL = "DELETE FROM holdfast_waiters WHERE bell = ?"

RAISE_FLOOR = "UPDATE holdfast_file SET floor = max(floor, :fence)"

PRUNE = "DELETE FROM holdfast_leases WHERE rowid = ?"

SEEN = """
SELECT name, holder, fence, CASE WHEN boot = :boot THEN ends - :now ELSE ttl END,
       (SELECT count(*) FROM holdfast_waiters w WHERE w.name = l.name)
FROM holdfast_leases l
WHERE holder IS NOT NULL AND (boot <> :boot OR ends > :now)
"""

DIALECT = Dialect.of(
    "?",
    acquire="""
        INSERT INTO holdfast_leases (name, holder, fence, ttl, ends, boot)
        VALUES (:key, :holder, (SELECT floor FROM holdfast_file) + 1, :ttl, :now + :ttl, :boot)
        ON CONFLICT (name) DO UPDATE SET
            fence = CASE WHEN holder = excluded.holder THEN fence
                         ELSE max(fence, excluded.fence - 1) + 1 END,
            ends = CASE WHEN holder = excluded.holder AND boot = excluded.boot
                        THEN max(ends, excluded.ends) ELSE excluded.ends END,
            ttl = excluded.ttl, holder = excluded.holder, boot = excluded.boot
        WHERE holder IS NULL OR holder = excluded.holder
           OR (boot = excluded.boot AND ends <= excluded.ends - excluded.ttl)
        RETURNING fence
    """,
    look="SELECT ends - :now, ttl, boot = :boot FROM holdfast_leases WHERE name = :key",
    adopt="""
        UPDATE holdfast_leases SET ends = :now + ttl, boot = :boot
        WHERE name = :key AND boot <> :boot
    """,
    join="""
        INSERT OR IGNORE INTO holdfast_waiters (name, holder, ttl, bell)
        VALUES (:key, :holder, :ttl, :bell)
    """,
    leave="DELETE FROM holdfast_waiters WHERE holder = :holder",
    extend="""
        UPDATE holdfast_leases SET
            ends = CASE WHEN boot = :boot THEN max(ends, :now + :ttl) ELSE :now + :ttl END,
            ttl = max(ttl, :ttl), boot = :boot
        WHERE name = :key AND holder = :holder AND (boot <> :boot OR ends > :now)
        RETURNING 1
    """,
    release="""
        UPDATE holdfast_leases SET holder = NULL, ends = :now, boot = :boot
        WHERE name = :key AND holder = :holder
          AND NOT EXISTS (SELECT 1 FROM holdfast_waiters w WHERE w.name = holdfast_leases.name)
        RETURNING 1
    """,
    mine="SELECT 1 FROM holdfast_leases WHERE name = :key AND holder = :holder",
    first_two="""
        SELECT holder, ttl, bell FROM (
            SELECT * FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1
        )
        UNION ALL
        SELECT holder, ttl, bell FROM (
            SELECT * FROM holdfast_waiters WHERE name = :key
            AND place > (SELECT min(place) FROM holdfast_waiters WHERE name = :key)
            ORDER BY bell = (
                SELECT bell FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1
            ), place LIMIT 1
        )
    """,
    offer="""
        UPDATE holdfast_leases SET
            holder = :waiter, ttl = :ttl, ends = :until, boot = :boot,
            fence = max(fence, (SELECT floor FROM holdfast_file)) + 1
        WHERE name = :key AND holder = :holder
    """,
    free="""
        UPDATE holdfast_leases SET holder = NULL, ends = :now, boot = :boot
        WHERE name = :key AND holder = :holder
    """,
    holder="""
        SELECT holder FROM holdfast_leases
        WHERE name = :key AND holder IS NOT NULL AND (boot <> :boot OR ends > :now)
    """,
    listing=SEEN
    + """
        AND name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix AND name > :after
        ORDER BY name LIMIT :limit
    """,
    inspect=SEEN + " AND name = :key",
    cell="SELECT value, is_text, version FROM holdfast_cells WHERE name = :key",
    make_cell="""
        INSERT INTO holdfast_cells VALUES (:key, :value, :text, 1)
        ON CONFLICT (name) DO NOTHING RETURNING 1
    """,
    set_cell="""
        UPDATE holdfast_cells SET value = :value, is_text = :text, version = version + 1
        WHERE name = :key AND version = :expect RETURNING 1
    """,
)
