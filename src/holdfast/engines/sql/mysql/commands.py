"""The SQL of MariaDB and MySQL; what the statements are for is in `holdfast.engines.sql.commands`.

1. Times are microseconds since 1970 by the server's clock, as UTC: no session's time zone matters,
   and no hour comes twice. The clock is that of a statement's beginning. One that had to wait for a
   row acts as of then: a lease that it grants ends too early rather than too late.
2. Columns are bytes, so names differ by case, by accents and by spaces at their end.
3. (fence, name) is an index of its own. `SELECT ... LOCK IN SHARE MODE` by that index locks only
   its entry, and only a takeover changes the entry (or an operator who breaks the lock): neither a
   renewal nor a release does. So a transaction can rely on a lease without blocking it.
4. A new fence is no less than the clock, so its entry comes after all others. A transaction that
   locks an entry under REPEATABLE READ locks the gap before it, too, where nothing will come.
5. A takeover that meets such a lock waits for a short while, since it may as well be the lock of
   another's statement. Then `acquire` gives nothing. (MySQL can wait for whole seconds only.)
6. In an UPDATE, each assignment sees those before it.
"""

from functools import partial

from holdfast.engines.sql import dialect, statements
from holdfast.engines.sql.dialect import Text, table_names
from holdfast.engines.sql.statements import fill_slots, make_dialect


class Statements(dialect.Statements):
    """All statements for one lease table. `returns`: for MariaDB, which knows RETURNING."""

    def __init__(self, table: str, *, returns: bool) -> None:
        self.names = names = table_names(table, "`")
        slots, texts = fill_slots(names, **SLOTS), RETURNING_TEXTS if returns else TEXTS
        text = partial(Text, paramstyle="format")
        self.dialect = make_dialect(slots, text, texts, ("acquire", "rise"))
        self.ddl = DDL.format(**names).strip()
        self.create = tuple(sql for sql in self.ddl.split(";") if sql)
        self.version = Text(READ_VERSION.format(**names), "format")


NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

DDL = """
CREATE TABLE IF NOT EXISTS {leases} (
    name VARBINARY(1024) NOT NULL PRIMARY KEY,
    holder VARBINARY(1024),
    fence BIGINT NOT NULL,
    ttl BIGINT NOT NULL DEFAULT 86400000000,
    expires BIGINT NOT NULL,
    offered BOOLEAN NOT NULL DEFAULT 0,
    queued BOOLEAN NOT NULL DEFAULT 0,
    shares INT NOT NULL DEFAULT 1,
    UNIQUE KEY tenure (fence, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS {waiters} (
    holder VARBINARY(1024) NOT NULL PRIMARY KEY,
    name VARBINARY(1024) NOT NULL,
    place BIGINT NOT NULL,
    alive_until BIGINT NOT NULL,
    shares INT NOT NULL DEFAULT 1,
    KEY queue (name, place)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS {members} (
    name VARBINARY(1024) NOT NULL,
    holder VARBINARY(1024) NOT NULL,
    shares INT NOT NULL,
    ttl BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    offered BOOLEAN NOT NULL,
    PRIMARY KEY (name, holder)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS {cells} (
    name VARBINARY(1024) NOT NULL PRIMARY KEY,
    value LONGBLOB NOT NULL,
    is_text BOOLEAN NOT NULL,
    version BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS {version} (version INT NOT NULL PRIMARY KEY) ENGINE = InnoDB;
INSERT IGNORE INTO {version}
SELECT {current} FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {version});
"""

READ_VERSION = "SELECT version FROM {version}"

SESSION_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', sql_select_limit = 18446744073709551615",
    "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 5",
    "SET completion_type = 0, sql_big_selects = 1",
)
"""What a session begins with. Strict: a name that is too long is an error, and not cut off. With
another `completion_type`, COMMIT would begin a transaction that is never ended."""

MARIADB_SESSION_SETTING = "SET max_statement_time = 0"

HANDSHAKE = f"SELECT {NOW}"

SLOTS = {
    "now": NOW,
    "done": "",  # rows are counted
    # A variable: beside a subquery, the server would read, and lock, the queues of all locks.
    "front": "@holdfast_front",
    # All poll; a waiter of the same client can be woken. In another order, the server would read,
    # and lock, all queues.
    "listener": "''",
    "can_be_woken": "TRUE",
    "join": "STRAIGHT_JOIN",
    # Whether `acquire` takes over a row that is there.
    "takes": """
(holder = VALUES(holder) AND offered OR NOT queued AND (holder IS NULL OR expires <= {now}))
""",
    # With names: the server would send each expression's text as its name, and PyMySQL decode it.
    "state": """
IF(holder = :holder AND NOT offered, fence, NULL) AS fence,
{now} AS now, expires - {now} AS remaining, ttl, holder
""",
}

TEXTS = {
    "acquire": """
INSERT INTO {leases} (name, holder, shares, fence, ttl, expires)
SELECT :key, :holder, :shares, {now}, :ttl, {now} + :ttl FROM DUAL WHERE {now} < :deadline
ON DUPLICATE KEY UPDATE
    fence = IF({takes}, GREATEST(fence + 1, VALUES(fence)), fence),
    ttl = IF({takes}, VALUES(ttl), IF(holder = VALUES(holder), GREATEST(ttl, VALUES(ttl)), ttl)),
    shares = IF({takes}, VALUES(shares), shares),
    holder = IF({takes}, VALUES(holder), holder),
    offered = IF(holder = VALUES(holder), 0, offered),
    expires = IF(holder = VALUES(holder),
                 GREATEST(LEAST(expires, {now} + ttl), VALUES(expires)), expires)
""",
    "verdict": """
SELECT {state} FROM (SELECT 1) AS one LEFT JOIN {leases} ON name = :key
""",
    "extend_many": """
UPDATE {leases} SET expires = {extended}, ttl = GREATEST(ttl, :ttl)
WHERE name IN (:keys) AND holder IN (:holders) AND NOT offered AND {running}
""",
    "lock": "SELECT 1 FROM {leases} WHERE name = :key FOR UPDATE",
    "join": """
INSERT INTO {waiters} (holder, name, place, alive_until, shares)
SELECT :holder, :key,
       IF(:place > 0 AND is_vacant, :place, GREATEST({now}, COALESCE(latest + 1, 0))),
       {now} + :own_life, :shares
FROM {queue} WHERE {must_wait}
ON DUPLICATE KEY UPDATE alive_until = VALUES(alive_until)
""",
    "front": "SET {front} = {first_alive}",
    "reserve": """
INSERT INTO {leases} (name, fence, ttl, expires) VALUES (:key, {now}, 0, {now})
ON DUPLICATE KEY UPDATE queued = queued
""",
    # Neither by a subquery, nor in another order: the server would read, and lock, all queues.
    "drop_members": """
DELETE w FROM {members} AS m STRAIGHT_JOIN {waiters} AS w ON w.holder = m.holder
WHERE m.name = :key
""",
}

_BOUNDED = "SET STATEMENT max_statement_time = :lock_wait FOR "

RETURNING_TEXTS = {name: text for name, text in TEXTS.items() if name != "verdict"} | {
    "acquire": f"{_BOUNDED}{TEXTS['acquire']} RETURNING {{state}}",
    "rise": _BOUNDED + statements.TEXTS["rise"],
}
"""For MariaDB, which knows RETURNING."""
