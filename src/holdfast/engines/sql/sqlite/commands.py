"""The SQL of SQLite; what the statements are for is in `holdfast.engines.sql.commands`.

Times are microseconds of the host's boot clock, and `boot` says of which boot an expiry is an
instant. A transaction locks the whole file.
"""

from functools import partial

from holdfast.engines.sql.dialect import Dialect, SharedDialect, texts_of

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
    alive_until INTEGER NOT NULL,
    shares INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS holdfast_queue ON holdfast_waiters (name, place);
CREATE TABLE IF NOT EXISTS holdfast_members (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    shares INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    boot TEXT NOT NULL,
    offered INTEGER NOT NULL,
    PRIMARY KEY (name, holder)
) WITHOUT ROWID;
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

VERSION = 3

HAS_VERSION = "SELECT 1 FROM sqlite_master WHERE name = 'holdfast_file'"

UPGRADE = """
ALTER TABLE holdfast_leases RENAME COLUMN ends TO expires;
ALTER TABLE holdfast_leases ADD COLUMN offered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_leases ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
DROP TABLE holdfast_waiters;
UPDATE holdfast_file SET version = 3;
"""
"""Brings a file of the first release up to date. Its clients are refused from then on: a column
that they name is gone, and they know the version when they open the file again."""

ADD_SHARES = """
ALTER TABLE holdfast_waiters ADD COLUMN shares INTEGER NOT NULL DEFAULT 1;
UPDATE holdfast_file SET version = 3;
"""
"""Brings a file of version 2 up to date, which has no shares. Clients that have it open go on, and
see a shared lock as one that another client holds."""

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

FORGET_MEMBERS = """
DELETE FROM holdfast_members WHERE NOT EXISTS (
    SELECT 1 FROM holdfast_leases l WHERE l.name = holdfast_members.name AND l.holder = :marker
)
"""
"""Those of locks that are not shared any more."""

RAISE_FLOOR = "UPDATE holdfast_file SET floor = max(floor, :fence)"

PRUNE = "DELETE FROM holdfast_leases WHERE rowid = ?"

_HELD = "holder IS NOT NULL AND (boot <> :boot OR expires > :now)"

_SEEN = """
SELECT l.name, coalesce(m.holder, l.holder), l.fence,
       CASE WHEN coalesce(m.boot, l.boot) = :boot THEN coalesce(m.expires, l.expires) - :now
            ELSE coalesce(m.ttl, l.ttl) END,
       (SELECT count(*) FROM holdfast_waiters w WHERE w.name = l.name),
       coalesce(m.shares, 1)
FROM ({leases}) AS l LEFT JOIN holdfast_members m
    ON m.name = l.name AND l.holder = :marker AND (m.boot <> :boot OR m.expires > :now)
ORDER BY l.name
"""

_SOONEST = """
(SELECT min(CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END)
 FROM holdfast_members WHERE name = :key)
"""
"""How long until the first of the members ends."""

_LASTING = """
max(:offer, coalesce((
    SELECT CASE listener WHEN '' THEN alive_until - :now END FROM holdfast_waiters
    WHERE name = :key ORDER BY place LIMIT 1
), 0))
"""
"""How long an offer to the first waiter lasts."""

_ROOM = """
(l.holder = :marker
    AND NOT EXISTS (SELECT 1 FROM holdfast_members WHERE name = :key AND shares <> {shares})
    AND ({shares} = 0
         OR {shares} > (SELECT count(*) FROM holdfast_members WHERE name = :key))
 OR NOT EXISTS (SELECT 1 FROM holdfast_members WHERE name = :key) AND (
    l.holder IS NULL OR l.boot = :boot AND l.expires <= :now))
"""
"""Whether there is room for one more with these shares."""

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
        SELECT NULL, :now,
               CASE WHEN holder = :marker THEN {soonest}
                    WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END,
               ttl, holder, (SELECT place FROM holdfast_waiters WHERE holder = :holder), queued
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
        UPDATE holdfast_leases SET expires = :now + ttl, boot = :boot
        WHERE name = :key AND (boot <> :boot OR holder = :holder AND offered)
    """,
    "join": """
        INSERT INTO holdfast_waiters (holder, name, place, listener, alive_until, shares)
        SELECT :holder, :key,
               CASE WHEN :place > 0 THEN :place ELSE max(:now, coalesce(
                   (SELECT max(place) + 1 FROM holdfast_waiters WHERE name = :key), 0)) END,
               :listener, :now + :own_life, :shares
        WHERE true
        ON CONFLICT (holder) DO UPDATE
        SET listener = excluded.listener, alive_until = excluded.alive_until
    """,
    "mark": "UPDATE holdfast_leases SET queued = 1 WHERE name = :key AND NOT queued",
    "touch": """
        UPDATE holdfast_waiters SET alive_until = :now + :own_life
        WHERE holder = :holder RETURNING 1
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
            SELECT 1 FROM holdfast_leases WHERE name = :key
            AND (holder IS NULL OR holder = :marker OR boot = :boot AND expires <= :now)
        )
    """,
    "settle": """
        UPDATE holdfast_leases SET
            holder = coalesce(
                (SELECT holder FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1), :me
            ),
            offered = :me IS NOT NULL OR EXISTS (SELECT 1 FROM holdfast_waiters WHERE name = :key),
            ttl = {lasting},
            expires = :now + {lasting},
            boot = :boot,
            queued = EXISTS (
                SELECT 1 FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1 OFFSET 1
            )
        WHERE name = :key AND (holder IS NULL OR boot = :boot AND expires <= :now) AND coalesce(
            (SELECT shares FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1), 1
        ) = 1
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
        WHERE name = :key AND holder = coalesce(:only, holder) AND (boot <> :boot OR expires > :now)
        RETURNING 1
    """,
    "forget": "DELETE FROM holdfast_waiters WHERE listener = :listener",
    "inspect": _SEEN.format(leases="SELECT * FROM holdfast_leases WHERE name = :key AND {held}"),
    "listing": _SEEN.format(
        leases="""
            SELECT * FROM holdfast_leases
            WHERE name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix
              AND name > :after AND {held}
            ORDER BY name LIMIT :limit
        """
    ),
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

_MEMBERS = "SELECT 1 FROM holdfast_members WHERE name = :key"

_FRONT = """
SELECT holder, listener, place, shares,
       listener <> '' OR alive_until BETWEEN :now AND :now + :life AS alive,
       max(:offer, CASE listener WHEN '' THEN alive_until - :now ELSE 0 END) AS lasting
FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 100
"""

SHARED_TEXTS = {
    "reserve": """
        INSERT INTO holdfast_leases (name, fence, ttl, expires, boot)
        SELECT :key, floor, 0, :now, :boot FROM holdfast_file WHERE true
        ON CONFLICT (name) DO NOTHING
    """,
    "recount": """
        UPDATE holdfast_members SET expires = :now + ttl, boot = :boot
        WHERE name = :key AND (boot <> :boot OR holder = :holder AND offered)
    """,
    "expire": """
        DELETE FROM holdfast_members WHERE name = :key AND (expires <= :now OR NOT EXISTS (
            SELECT 1 FROM holdfast_leases WHERE name = :key AND holder = :marker
        ))
    """,
    "unfold": """
        INSERT INTO holdfast_members (name, holder, shares, ttl, expires, boot, offered)
        SELECT name, substr(holder, 20), CAST(substr(holder, 9, 10) AS INTEGER), ttl,
               CASE WHEN boot = :boot THEN expires ELSE :now + ttl END, :boot, 0
        FROM holdfast_leases WHERE name = :key AND substr(holder, 1, 8) = :alone
          AND (boot <> :boot OR expires > :now)
    """,
    "mark": """
        UPDATE holdfast_leases SET holder = :marker
        WHERE name = :key AND substr(holder, 1, 8) = :alone AND EXISTS ({members})
    """,
    "enter": """
        INSERT INTO holdfast_members (name, holder, shares, ttl, expires, boot, offered)
        SELECT :key, :holder, :shares, :offer, :now + :offer, :boot, 1
        FROM holdfast_leases l
        WHERE name = :key AND :shares <> 1
          AND (NOT queued AND {room} OR holder = :holder AND offered)
        ON CONFLICT (name, holder) DO NOTHING
    """,
    "rise": """
        UPDATE holdfast_leases SET
            fence = max(fence, (SELECT floor FROM holdfast_file)) + 1,
            holder = :marker, offered = 0
        WHERE name = :key AND EXISTS ({members} AND holder = :holder)
          AND NOT EXISTS ({members} AND NOT offered)
    """,
    "confirm": """
        UPDATE holdfast_members SET
            expires = CASE WHEN offered THEN :now + :ttl ELSE max(expires, :now + :ttl) END,
            ttl = CASE WHEN offered THEN :ttl ELSE max(ttl, :ttl) END,
            offered = 0
        WHERE name = :key AND holder = :holder AND EXISTS (
            SELECT 1 FROM holdfast_leases WHERE name = :key AND holder = :marker AND NOT offered
        )
    """,
    "prolong": """
        UPDATE holdfast_members SET expires = max(expires, :now + :ttl), ttl = max(ttl, :ttl)
        WHERE name = :key AND holder = :holder AND NOT offered
        RETURNING 1
    """,
    "remove": "DELETE FROM holdfast_members WHERE name = :key AND holder = :holder RETURNING 1",
    "admit": """
        INSERT INTO holdfast_members (name, holder, shares, ttl, expires, boot, offered)
        WITH front AS ({front})
        SELECT :key, w.holder, w.shares, w.lasting, :now + w.lasting, :boot, 1
        FROM holdfast_leases l, (SELECT shares FROM front LIMIT 1) AS first, front AS w
        WHERE l.name = :key AND first.shares <> 1 AND w.shares = first.shares AND w.alive
          AND w.place < coalesce(
              (SELECT place FROM front WHERE shares <> first.shares AND alive LIMIT 1),
              9223372036854775807
          )
          AND {room_first}
        ORDER BY w.place LIMIT coalesce((
            SELECT CASE shares WHEN 0 THEN 100
                   ELSE shares - (SELECT count(*) FROM holdfast_members WHERE name = :key) END
            FROM front LIMIT 1
        ), 0)
        ON CONFLICT (name, holder) DO NOTHING
    """,
    "woken": """
        WITH front AS (
            SELECT w.holder, w.listener, w.place, m.holder IS NOT NULL AS admitted
            FROM ({front}) AS w
            LEFT JOIN holdfast_members m ON m.name = :key AND m.holder = w.holder
        ), next AS (
            SELECT * FROM front WHERE NOT admitted ORDER BY place LIMIT 1
        )
        SELECT holder, listener, admitted FROM front
        WHERE listener <> '' AND holder <> :holder AND (
            admitted
            OR (:again OR EXISTS (SELECT 1 FROM front WHERE admitted))
               AND EXISTS ({members} AND offered)
               AND place IN ((SELECT place FROM next), (
                   SELECT min(place) FROM front
                   WHERE NOT admitted AND listener <> (SELECT listener FROM next)
               ))
        )
    """,
    "drop": """
        DELETE FROM holdfast_waiters
        WHERE holder IN (SELECT holder FROM holdfast_members WHERE name = :key)
    """,
    "tally": """
        UPDATE holdfast_leases SET
            holder = CASE WHEN EXISTS ({members}) THEN :marker END,
            offered = EXISTS ({members}) AND NOT EXISTS ({members} AND NOT offered),
            ttl = coalesce((SELECT max(ttl) FROM holdfast_members WHERE name = :key), ttl),
            expires = coalesce((SELECT max(expires) FROM holdfast_members WHERE name = :key), :now),
            boot = :boot,
            queued = EXISTS (SELECT 1 FROM holdfast_waiters WHERE name = :key)
        WHERE name = :key AND (holder = :marker OR EXISTS ({members}))
    """,
    "peek": """
        SELECT CASE WHEN NOT m.offered THEN l.fence END, :now,
               CASE WHEN l.holder = :marker THEN {soonest}
                    WHEN l.boot = :boot THEN l.expires - :now ELSE l.ttl END,
               l.holder, (SELECT place FROM holdfast_waiters WHERE holder = :holder), l.queued,
               m.holder IS NOT NULL, {room}, :shares = (
                   SELECT shares FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1
               )
        FROM (SELECT 1) LEFT JOIN holdfast_leases l ON l.name = :key
        LEFT JOIN holdfast_members m
            ON m.name = :key AND m.holder = :holder AND l.holder = :marker
    """,
}
"""Members of another boot are counted anew (`recount`) before each other statement."""

_EXPRESSIONS = {
    "held": _HELD,
    "soonest": _SOONEST,
    "lasting": _LASTING,
    "members": _MEMBERS,
    "front": _FRONT,
    "room": _ROOM.format(shares=":shares"),
    "room_first": _ROOM.format(shares="first.shares"),
}

DIALECT = texts_of(
    partial(Dialect, shared=texts_of(SharedDialect, "qmark", _EXPRESSIONS, SHARED_TEXTS)),
    "qmark",
    _EXPRESSIONS,
    TEXTS,
)

ACQUIRE, RELEASE = DIALECT.acquire.sql, DIALECT.release.sql
"""Sent with plain tuples, which is quicker, by what needs no more than one statement."""

assert DIALECT.acquire.names == ("key", "holder", "ttl", "now", "ttl", "boot", "now")  # noqa: S101
assert DIALECT.release.names == ("now", "boot", "key", "holder")  # noqa: S101 - as it is sent
