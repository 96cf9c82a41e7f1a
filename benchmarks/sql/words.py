"""What is said to a database for one acquire and one release, with a place for the holder id.

holdfast's statements are taken from holdfast, so that they cannot come to differ. The locks that
databases have themselves do less: they know neither ttl nor fence, and end with the connection.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchmarks.contenders import TTL
from holdfast.engines.sql.mysql import statements as mysql
from holdfast.engines.sql.postgres import statements as postgres

KEY = "holdfast:bare"
MICROSECONDS = 1_000_000

Said: TypeAlias = tuple[str, Sequence[Any]]
"""A statement and its values, as the driver wants them."""


@dataclass(frozen=True, slots=True)
class Words:
    """What a lock is taken with, and given back, by a holder."""

    acquire: Callable[[str], Said]
    release: Callable[[str], Said]


def postgres_lease() -> Words:
    """A lease in PostgreSQL, as holdfast takes it."""
    sql = postgres.Statements(postgres.LEASES)
    acquire, release = sql.acquire.sql.decode(), sql.release.sql.decode()
    return Words(
        lambda holder: (acquire, (KEY, holder, float(TTL), time.time() + TTL, 0)),
        lambda holder: (release, (KEY, holder)),
    )


def mariadb_lease() -> Words:
    """A lease in MariaDB, as holdfast takes it."""
    sql = mysql.Statements(mysql.LEASES, returns=True)
    acquire, release = _with_percents(sql.acquire), _with_percents(sql.release)

    def taking(holder: str) -> Said:
        deadline = round((time.time() + TTL) * MICROSECONDS)
        _, values = sql.acquire(KEY, holder, TTL * MICROSECONDS, deadline)
        return acquire, values

    return Words(taking, lambda holder: (release, sql.release(KEY, holder)[1]))


def _with_percents(text: mysql.Text) -> str:
    """With `%s` for each value, as drivers of MySQL have it."""
    return text.sql.decode().replace("?", "%s")


def advisory_lock() -> Words:
    """PostgreSQL's own lock."""
    return Words(
        lambda _: ("SELECT pg_try_advisory_lock($1)", (1,)),
        lambda _: ("SELECT pg_advisory_unlock($1)", (1,)),
    )


def named_lock() -> Words:
    """MariaDB's own lock."""
    return Words(
        lambda _: ("SELECT GET_LOCK(%s, 0)", ("bench",)),
        lambda _: ("SELECT RELEASE_LOCK(%s)", ("bench",)),
    )
