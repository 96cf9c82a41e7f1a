"""The SQL of SQLite; what the statements are for is in `holdfast.engines.sql.commands`.

Times are microseconds of the host's boot clock, and `boot` says of which boot an expiry is an
instant. A transaction locks the whole file.
"""

from functools import partial

from holdfast.engines.sql.dialect import Text
from holdfast.engines.sql.statements import fill_slots, make_dialect

SCHEMA = """
CREATE TABLE IF NOT EXISTS holdfast_leases (
    name TEXT NOT NULL UNIQUE,
    holder TEXT,
    fence INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    boot TEXT NOT NULL,
    offered INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    shares INTEGER NOT NULL DEFAULT 1
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

VERSION = 4

FIRST_USE = "INSERT OR IGNORE INTO holdfast_file VALUES (1, :version, :boot, 0)"

FILE = "SELECT version, boot FROM holdfast_file"

NEW_BOOT = """
UPDATE holdfast_file SET floor = ((floor >> 32) + 1) << 32, boot = :boot WHERE boot <> :boot
"""

LAST_ROW = "SELECT coalesce(max(rowid), 0) FROM holdfast_leases"

_IDLE = """
rowid BETWEEN :first AND :last AND NOT queued
  AND (expires < :before AND boot = :boot OR boot <> :boot AND holder IS NULL)
"""

RAISE_FLOOR = f"""
UPDATE holdfast_file SET floor = idle.fence
FROM (SELECT max(fence) AS fence FROM holdfast_leases WHERE {_IDLE}) AS idle
WHERE idle.fence > floor
"""  # noqa: S608 - fixed

PRUNE = f"DELETE FROM holdfast_leases WHERE {_IDLE}"  # noqa: S608 - fixed

LISTENERS = "SELECT DISTINCT listener FROM holdfast_waiters WHERE listener <> ''"

FORGET_LISTENER = "DELETE FROM holdfast_waiters WHERE listener = ?"

TABLES = {
    "leases": "holdfast_leases",
    "waiters": "holdfast_waiters",
    "members": "holdfast_members",
    "cells": "holdfast_cells",
}

SLOTS = {
    "now": ":now",
    "greatest": "max",
    "least": "min",
    "done": "",  # rows are counted: to give one takes as long as to change it
    "expired": "boot = :boot AND expires <= :now",
    "running": "(boot <> :boot OR expires > :now)",
    "remaining": "CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END",
    "is_of_another_clock": "boot <> :boot",
    "set_boot": ", boot = :boot",
    "boot_column": ", boot",
    "boot_value": ", :boot",
    "boot_seen": ", coalesce(m.boot, l.boot) AS boot",
    "extended": "CASE WHEN boot = :boot THEN max(expires, :now + :ttl) "
    "ELSE :now + max(ttl, :ttl) END",
    "ends": "CASE WHEN boot = :boot THEN expires ELSE :now + ttl END",
    "next_fence": "max(fence, (SELECT floor FROM holdfast_file)) + 1",
    "polls": "listener = ''",
}
"""A lease of another boot has more time left than its ttl: so it is seen to be one."""

TEXTS = {
    "acquire": """
        INSERT INTO holdfast_leases (name, holder, shares, fence, ttl, expires, boot)
        VALUES (:key, :holder, :shares, (SELECT floor FROM holdfast_file) + 1,
                :ttl, :now + :ttl, :boot)
        ON CONFLICT (name) DO UPDATE SET
            fence = CASE WHEN holder = excluded.holder AND NOT offered THEN fence
                         ELSE max(fence, excluded.fence - 1) + 1 END,
            expires = CASE WHEN holder = excluded.holder AND NOT offered AND boot = excluded.boot
                           THEN max(expires, excluded.expires) ELSE excluded.expires END,
            ttl = CASE WHEN holder = excluded.holder AND NOT offered
                       THEN max(ttl, excluded.ttl) ELSE excluded.ttl END,
            holder = excluded.holder, shares = excluded.shares, boot = excluded.boot, offered = 0
        WHERE holder = excluded.holder OR NOT queued AND (
            holder IS NULL OR boot = excluded.boot AND expires <= excluded.expires - excluded.ttl
        )
        RETURNING fence, :now, ttl, ttl, holder
    """,
    "join": """
        INSERT INTO holdfast_waiters (holder, name, place, listener, alive_until, shares)
        SELECT :holder, :key,
               CASE WHEN :place > 0 AND is_vacant THEN :place
                    ELSE max(:now, coalesce(latest + 1, 0)) END,
               :listener, :now + :own_life, :shares
        FROM {queue} WHERE {must_wait}
        ON CONFLICT (holder) DO UPDATE
        SET listener = excluded.listener, alive_until = excluded.alive_until
    """,
    "forget": "DELETE FROM holdfast_waiters WHERE listener = :listener",
    "reserve": """
        INSERT INTO holdfast_leases (name, fence, ttl, expires, boot)
        SELECT :key, floor, 0, :now, :boot FROM holdfast_file WHERE true
        ON CONFLICT (name) DO NOTHING
    """,
}

DIALECT = make_dialect(fill_slots(TABLES, **SLOTS), partial(Text, paramstyle="named"), TEXTS)

ACQUIRE, RELEASE = DIALECT.acquire.sql, DIALECT.release.sql
