"""The SQL of MariaDB and MySQL.

One row for each name, so that every step is one statement on one row.

    name     the key
    holder   who has it; empty: nobody, since it was given back
    fence    of the present holder, or the last one
    ends     when it is free unless it is renewed

1. Times are microseconds since 1970 by the server's clock, as UTC: no session's time zone matters,
   and no hour comes twice. The clock is that of a statement's beginning. One that had to wait for a
   row acts as of then: a lease that it grants ends too early rather than too late.
2. Columns are bytes, so names differ by case, by accents and by spaces at their end.
3. (fence, name) is an index of its own. `SELECT ... LOCK IN SHARE MODE` by that index locks nothing
   but its entry, and only a takeover changes the entry (or an operator who breaks the lock):
   neither a renewal nor a release does. So a transaction can rely on a lease without being in its
   way.
4. A new fence is no less than the clock, so its entry comes after all others. A transaction that
   locks an entry under REPEATABLE READ locks the gap before it, too, where nothing will come.
5. A takeover that meets such a lock does not wait for it: `acquire` gives nothing then.
6. `acquire` has a deadline by the server's clock. A server that was stopped, and carries it out
   when nobody expects it any more, does nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

LEASES = "holdfast_leases"
CELLS = "holdfast_cells"

AT_ONCE = 20
"""How many leases one statement extends."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A statement. Called with its values, it can be said. Each equals itself alone, so that it is
    quick to look up whether it is prepared."""

    sql: bytes
    places: tuple[int, ...]
    """Which of the values stands at each `?`."""
    skips_locked: bool = False
    """Whether to meet a lock is no failure, but finding nothing."""

    def __call__(self, *values: Any) -> "Statement":
        """The statement with these values."""
        return self, [values[place] for place in self.places]


Statement: TypeAlias = tuple[Text, Sequence[Any]]


def quoted(table: str) -> tuple[str, str]:
    """`[database.]table` as it stands in SQL, and the cells' table beside it."""
    parts = table.split(".")
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise ValueError(
            f"table: must be a name, or database.name, of letters, digits and _, got {table!r}"
        )
    *database, _ = parts
    return _joined(parts), _joined([*database, CELLS])


def _joined(parts: list[str]) -> str:
    return ".".join(f"`{part}`" for part in parts)


class Statements:
    """All statements, for one pair of tables; `returns`: for a server that knows `RETURNING`."""

    def __init__(self, table: str, *, returns: bool) -> None:
        leases, cells = quoted(table)
        self.returns = returns
        self.ddl = DDL.format(leases=leases, cells=cells).strip()

        words = {
            "LEASES": leases,
            "CELLS": cells,
            "NOW": NOW,
            "KEYS": ", ".join(f":{key}" for key in _KEYS),
            "HOLDERS": ", ".join(f":{holder}" for holder in _HOLDERS),
        }

        def text(sql: str, *names: str, skips_locked: bool = False) -> Text:
            for word, meaning in words.items():
                sql = re.sub(rf"\b{word}\b", meaning, sql)
            places = tuple(names.index(name) for name in re.findall(r":([a-z0-9]+)", sql))
            sql = re.sub(r":[a-z0-9]+", "?", sql)
            return Text(" ".join(sql.split()).encode(), places, skips_locked)

        self.create = [text(sql) for sql in self.ddl.split(";") if sql]
        at_once, state = (AT_ONCE_OR_NOT_AT_ALL, f"RETURNING {STATE}") if returns else ("", "")
        taking = f"{at_once} {ACQUIRE} {state}"
        self.acquire = text(taking, "key", "holder", "ttl", "deadline", skips_locked=True)
        self.look = text(LOOK, "key", "holder")
        self.extend = text(EXTEND, "key", "holder", "ttl")
        self._extend_many = text(EXTEND_MANY, "ttl", *_KEYS, *_HOLDERS)
        self.release = text(RELEASE, "key", "holder")
        self.take_away = text(f"{at_once} {TAKE_AWAY}", "key", skips_locked=True)
        self.take_away_guarded = text(TAKE_AWAY_GUARDED, "key")
        self.inspect = text(INSPECT, "key")
        self.listing = text(LISTING, "prefix", "after", "limit")
        self.cell = text(CELL, "key")
        self.make_cell = text(MAKE_CELL, "key", "value", "text")
        self.set_cell = text(SET_CELL, "key", "value", "text", "expect")

    def extend_many(self, ttl: int, keys: Sequence[str], holders: Sequence[str]) -> Statement:
        """Extend up to `AT_ONCE` leases; the last is named again to make the number full."""
        rest = AT_ONCE - len(keys)
        return self._extend_many(
            ttl, *keys, *repeat(keys[-1], rest), *holders, *repeat(holders[-1], rest)
        )


NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

DDL = """
CREATE TABLE IF NOT EXISTS {leases} (
    name VARBINARY(1024) NOT NULL PRIMARY KEY,
    holder VARBINARY(1024) NOT NULL,
    fence BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    UNIQUE KEY tenure (fence, name)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {cells} (
    name VARBINARY(1024) NOT NULL PRIMARY KEY,
    value LONGBLOB NOT NULL,
    is_text BOOLEAN NOT NULL,
    version BIGINT NOT NULL
) ENGINE = InnoDB;
"""

SETTLE = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET autocommit = 1, sql_mode = 'STRICT_ALL_TABLES'",
    "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
)
"""What a session begins with. Strict: a name that is too long is an error, and not cut off."""

GREETING = f"SELECT {NOW}"

_SET = ("autocommit", "sql_mode", "innodb_lock_wait_timeout", "lock_wait_timeout")


@dataclass(frozen=True, slots=True)
class Lent:
    """What is said on a session that is a user's, and lent to us."""

    greeting: Text
    """Gives the clock, whether a transaction is open, and how the session is set. (With a value,
    1, since only so is it prepared.)"""
    resettle: Text
    """Sets it back to that."""


def _lent(isolation: str, in_transaction: str) -> Lent:
    names = (*_SET, isolation)
    settings = ", ".join(f"@@SESSION.{name}" for name in names)
    greeting = f"SELECT {NOW}, {in_transaction}, {settings} FROM DUAL WHERE ? = 1"  # noqa: S608 - ours
    resettle = f"SET {', '.join(f'SESSION {name} = ?' for name in names)}"
    return Lent(Text(greeting.encode(), (0,)), Text(resettle.encode(), tuple(range(len(names)))))


LENT_MARIADB = _lent("tx_isolation", "@@SESSION.in_transaction")
LENT_MYSQL = _lent("transaction_isolation", "0")
"""MySQL tells nobody whether a transaction is open; only its client library may know."""

AT_ONCE_OR_NOT_AT_ALL = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR"
"""MariaDB's way not to wait for a row. MySQL has none, for this: there it takes a second."""

ACQUIRE = """
INSERT INTO LEASES (name, holder, fence, ends)
SELECT :key, :holder, NOW, NOW + :ttl FROM DUAL WHERE NOW < :deadline
ON DUPLICATE KEY UPDATE
    fence = IF(ends > NOW, fence, GREATEST(fence + 1, VALUES(fence))),
    holder = IF(ends > NOW, holder, VALUES(holder)),
    ends = IF(holder = VALUES(holder), GREATEST(ends, VALUES(ends)), ends)
"""
"""`VALUES(x)` is what a new row would have had. Each assignment sees the ones before it: `ends`
changes only if the holder is by now the one who asks."""

STATE = "holder = :holder, fence, ends - NOW, NOW"
"""Whether it is mine, its fence, what is left, and the clock."""

LOOK = f"SELECT {STATE} FROM (SELECT 1) AS one LEFT JOIN LEASES ON name = :key"  # noqa: S608 - ours

EXTEND = """
UPDATE LEASES SET ends = GREATEST(ends, NOW + :ttl)
WHERE name = :key AND holder = :holder AND ends > NOW
"""

_KEYS = tuple(f"key{n}" for n in range(AT_ONCE))
_HOLDERS = tuple(f"holder{n}" for n in range(AT_ONCE))

EXTEND_MANY = """
UPDATE LEASES SET ends = GREATEST(ends, NOW + :ttl)
WHERE name IN (KEYS) AND holder IN (HOLDERS) AND ends > NOW
"""
"""A holder id is of one lease alone, so it cannot be found at the name of another."""

RELEASE = "UPDATE LEASES SET holder = '', ends = 0 WHERE name = :key AND holder = :holder"

TAKE_AWAY = """
UPDATE LEASES SET fence = GREATEST(fence + 1, NOW), holder = '', ends = 0
WHERE name = :key AND ends > NOW
"""
"""With a new fence, so that the old holder's next transaction cannot rely on it any more."""

TAKE_AWAY_GUARDED = "UPDATE LEASES SET holder = '', ends = 0 WHERE name = :key AND ends > NOW"
"""The same without, while a transaction does rely on it, and so is in the way of a new fence."""

SEEN = "SELECT name, holder, fence, ends - NOW FROM LEASES WHERE ends > NOW"

INSPECT = f"{SEEN} AND name = :key"

LISTING = f"""
{SEEN} AND name >= :prefix AND LEFT(name, LENGTH(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit
"""

CELL = "SELECT value, is_text, version FROM CELLS WHERE name = :key"

MAKE_CELL = """
INSERT INTO CELLS (name, value, is_text, version)
SELECT :key, :value, :text, 1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM CELLS WHERE name = :key)
"""

SET_CELL = """
UPDATE CELLS SET value = :value, is_text = :text, version = version + 1
WHERE name = :key AND version = :expect
"""
