"""The SQL of the PostgreSQL dialect.

One row for each name, and all that belongs to a lock is in it, so that every step is one statement
on one row: what a statement finds there, after having waited for another one, is the present, and
not what was there when it began. A queue in a table of its own would be read as of the beginning,
and a waiter who joins at that moment would be overlooked.

    name     the key
    holder   who has it, or is offered it; null: free
    fence    of the present holder, or the last one
    ends     when it is free unless it is renewed
    offered  whether the holder has yet to confirm
    queue    those who wait, in order: [{"holder": ..., "bell": ..., "pid": ...}, ...]; one who is
             offered the lock is still the first of them

1. The clock is `clock_timestamp()`: the server's, and not that of a transaction's beginning.
2. (name, fence) is unique, so PostgreSQL takes the fence for a part of a key: `FOR KEY SHARE` on a
   row keeps a takeover from being carried out, which changes the fence, and nothing else. Only
   `acquire` changes it. An offer does not; the confirmation does.
3. A takeover that meets such a row does not wait for it (SKIP LOCKED). It does wait for statements
   that are over in no time (NO KEY UPDATE), since it could not tell what they leave behind.
4. What might make something of a holder's (`acquire`, `join`) has a deadline by the server's clock.
   A server that was stopped, and carries it out when nobody expects it any more, does nothing.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.core.messages import OFFER

LEASES = "holdfast_leases"
CELLS = "holdfast_cells"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A statement. Called with its values, it can be said. Each equals itself alone, so that it is
    quick to look up whether it is prepared."""

    sql: bytes

    def __call__(self, *values: object) -> "Statement":
        """The statement with these values, as `$1`, `$2` and so on."""
        return self, values


Statement: TypeAlias = tuple[Text, tuple[Any, ...]]


def quoted(table: str) -> tuple[str, str]:
    """`[schema.]table` as it stands in SQL, and the cells' table beside it."""
    parts = table.split(".")
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise ValueError(
            f"table: must be a name, or schema.name, of letters, digits and _, got {table!r}"
        )
    *schema, _ = parts
    return _joined(parts), _joined([*schema, CELLS])


def _joined(parts: list[str]) -> str:
    return ".".join(f'"{part}"' for part in parts)


class Statements:
    """All statements, for one pair of tables."""

    def __init__(self, table: str) -> None:
        leases, cells = quoted(table)
        self.ddl = DDL.format(leases=leases, cells=cells).strip()
        # Two clients that make the tables at once would be in each other's way.
        self.create = Text(f"{CREATING};\n{self.ddl}".encode())

        words = {
            "LEASES": leases,
            "CELLS": cells,
            "OFFER": str(OFFER),
            "NEXT": NEXT,
            "CLOCK": CLOCK,
        }

        def text(sql: str) -> Text:
            for word, meaning in words.items():
                sql = re.sub(rf"\b{word}\b", meaning, sql)
            return Text(" ".join(sql.split()).encode())

        self.acquire = text(ACQUIRE)
        self.join = text(JOIN)
        self.leave = text(LEAVE)
        self.extend = text(EXTEND)
        self.extend_all = text(EXTEND_ALL)
        self.release = text(RELEASE)
        self.holder = text(HOLDER)
        self.inspect = text(INSPECT)
        self.listing = text(LISTING)
        self.cell = text(CELL)
        self.make_cell = text(MAKE_CELL)
        self.set_cell = text(SET_CELL)


DDL = """
CREATE TABLE IF NOT EXISTS {leases} (
    name text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C",
    fence bigint NOT NULL,
    ends timestamptz NOT NULL,
    offered boolean NOT NULL DEFAULT false,
    queue jsonb NOT NULL DEFAULT '[]',
    UNIQUE (name, fence)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS {cells} (
    name text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL,
    is_text boolean NOT NULL,
    version bigint NOT NULL
);
"""

CREATING = "SELECT pg_advisory_xact_lock(hashtext('holdfast'))"

GREETING = Text(b"SELECT pg_backend_pid(), extract(epoch FROM clock_timestamp())::float8")
"""Gives the number of the server process, and the server's clock."""

_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "statement_timeout": "10000",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}
"""Every statement finds its rows by their names, in an index, so one plan will do for all values.
The server would rather make one for each, which takes longer than to carry it out; or, when there
are few rows, one that reads all of them, and go by that when there are many."""

SETTLE = Text("; ".join(f"SET {name} = '{value}'" for name, value in _SETTINGS.items()).encode())
"""Only where nobody else will be given the session: not behind a pooler."""

_OURS = {**_SETTINGS, "client_encoding": "UTF8", "bytea_output": "hex"}
"""What a session has to be set to that is a user's, and lent to us."""

LENT_GREETING = Text(
    b"SELECT pg_backend_pid(), extract(epoch FROM clock_timestamp())::float8, "
    + ", ".join(f"current_setting('{name}')" for name in _OURS).encode()
)
"""Gives what `GREETING` gives, and how the session is set."""

SETTLE_LENT = Text(
    b"SELECT "
    + ", ".join(f"set_config('{name}', ${n}, false)" for n, name in enumerate(_OURS, 1)).encode()
)
"""Sets it: so, as `OURS` says, or as it was."""

OURS = tuple(_OURS.values())

LEFTOVERS = Text(
    b"SELECT format('DEALLOCATE %I', name) FROM pg_prepared_statements "
    b"WHERE starts_with(name, 'holdfast_') UNION ALL "
    b"SELECT format('UNLISTEN %I', channel) FROM pg_listening_channels() AS channel "
    b"WHERE starts_with(channel, 'holdfast_')"
)
"""Gives what undoes whatever else is ours in a session."""

CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

ACQUIRE = """
WITH taken AS (
    UPDATE LEASES SET
        fence = CASE WHEN holder = $2 AND NOT offered THEN fence
                     ELSE greatest(fence + 1, CLOCK) END,
        ends = greatest(clock_timestamp() + $3::float8 * interval '1 s',
                        CASE WHEN holder = $2 AND NOT offered THEN ends END),
        queue = CASE WHEN queue = '[]' THEN queue ELSE jsonb_path_query_array(
            queue, '$[*] ? (@.holder != $before && @.holder != $now)',
            jsonb_build_object('before', holder, 'now', $2::text)) END,
        holder = $2,
        offered = false
    WHERE name = (
        SELECT name FROM LEASES WHERE name = (
            SELECT name FROM LEASES
            WHERE name = $1 AND (holder IS NULL OR holder = $2 OR ends <= clock_timestamp())
              AND clock_timestamp() < to_timestamp($4)
            FOR NO KEY UPDATE
        ) FOR UPDATE SKIP LOCKED
    )
    RETURNING fence
), made AS (
    INSERT INTO LEASES (name, holder, fence, ends)
    SELECT $1, $2, CLOCK, clock_timestamp() + $3::float8 * interval '1 s'
    WHERE clock_timestamp() < to_timestamp($4)
    ON CONFLICT (name) DO NOTHING
    RETURNING fence
)
SELECT coalesce((SELECT fence FROM taken), (SELECT fence FROM made)),
       extract(epoch FROM clock_timestamp())::float8,
       extract(epoch FROM ends - clock_timestamp())::float8,
       holder IS NOT NULL AND holder <> $2 AND ends > clock_timestamp(),
       queue @> jsonb_build_array(jsonb_build_object('holder', $2::text, 'pid', $5::int))
FROM (VALUES (1)) AS one LEFT JOIN LEASES ON name = $1
"""
"""$1 key, $2 holder, $3 ttl, $4 deadline, $5 pid of our listener. Gives one row: the fence if it is
granted, the clock; and how the row was before: what was left, whether it was another's, whether we
are in the queue. A new fence is no less than the clock: idle rows can be deleted, and a standby
that has missed the last grants before it was promoted still gives greater ones."""

JOIN = """
UPDATE LEASES SET
    queue = jsonb_path_query_array(
        queue, '$[*] ? (@.holder != $me)', jsonb_build_object('me', $2::text)
    ) || jsonb_build_object('holder', $2::text, 'bell', $3::text, 'pid', $4::int)
WHERE name = $1 AND holder <> $2 AND ends > clock_timestamp()
  AND clock_timestamp() < to_timestamp($5)
RETURNING extract(epoch FROM ends - clock_timestamp())::float8
"""
"""$1 key, $2 holder, $3 bell, $4 pid, $5 deadline. Gives what is left; nothing, and nothing was
done, if it is not somebody else's any more."""

NEXT = """
(SELECT pg_notify(w ->> 'bell', w ->> 'holder') FROM jsonb_array_elements(queue) AS w
 WHERE w ->> 'bell' <> queue #>> '{0,bell}' LIMIT 1)
"""
"""Have the first who listens at another bell than the one who is offered the lock ask again. It
learns how short the offer is, and moves it on if need be."""

RELEASE = """
UPDATE LEASES SET
    queue = CASE WHEN offered THEN queue - 0 ELSE queue END,
    holder = queue #>> CASE WHEN offered THEN '{1,holder}' ELSE '{0,holder}' END::text[],
    offered = jsonb_array_length(queue) > offered::int,
    ends = clock_timestamp() + CASE WHEN jsonb_array_length(queue) > offered::int
                                    THEN interval 'OFFER s' ELSE interval '0 s' END
WHERE name = $1 AND holder = $2
RETURNING
    holder,
    CASE WHEN offered THEN
        EXISTS (SELECT FROM pg_stat_get_activity((queue #>> '{0,pid}')::int)) END,
    CASE WHEN offered THEN pg_notify(queue #>> '{0,bell}', holder) END,
    CASE WHEN offered THEN NEXT END
"""
"""$1 key, $2 holder. Offers the lock to the first in the queue, and gives who that is and whether
its listener is alive; nothing if it was not the holder's."""

LEAVE = """
UPDATE LEASES SET
    queue = jsonb_path_query_array(
        queue, '$[*] ? (@.holder != $me)', jsonb_build_object('me', $2::text))
WHERE name = $1 AND queue @> jsonb_build_array(jsonb_build_object('holder', $2::text))
  AND holder IS DISTINCT FROM $2
RETURNING CASE WHEN offered THEN NEXT END
"""
"""$1 key, $2 holder. Gives a row if it was in the queue, and leaves one alone who is offered the
lock. Whoever leaves may have been the one to move an offer on: see `NEXT`."""

EXTEND = """
UPDATE LEASES SET ends = greatest(ends, clock_timestamp() + $3::float8 * interval '1 s')
WHERE name = $1 AND holder = $2 AND ends > clock_timestamp()
RETURNING 1
"""

EXTEND_ALL = """
UPDATE LEASES AS l SET ends = greatest(l.ends, clock_timestamp() + r.ttl * interval '1 s')
FROM jsonb_to_recordset($1) AS r(name text, holder text, ttl float8)
WHERE l.name = r.name AND l.holder = r.holder AND l.ends > clock_timestamp()
RETURNING l.name, l.holder
"""

HOLDER = "SELECT holder FROM LEASES WHERE name = $1 AND ends > clock_timestamp()"

SEEN = """
SELECT name, holder, fence, extract(epoch FROM ends - clock_timestamp())::float8,
       (SELECT count(*) FROM jsonb_array_elements(queue) AS w
        WHERE EXISTS (SELECT FROM pg_stat_get_activity((w ->> 'pid')::int))
          AND w ->> 'holder' <> holder)
FROM LEASES
WHERE holder IS NOT NULL AND ends > clock_timestamp()
"""

INSPECT = f"{SEEN} AND name = $1"

LISTING = f"{SEEN} AND starts_with(name, $1) AND name > $2 ORDER BY name LIMIT $3"

CELL = "SELECT value, is_text, version FROM CELLS WHERE name = $1"

MAKE_CELL = """
INSERT INTO CELLS VALUES ($1, $2, $3, 1) ON CONFLICT (name) DO NOTHING RETURNING 1
"""

SET_CELL = """
UPDATE CELLS SET value = $2, is_text = $3, version = version + 1
WHERE name = $1 AND version = $4 RETURNING 1
"""
