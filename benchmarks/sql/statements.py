"""What is sent to a database for one acquire and one release, with a place for the holder id.

holdfast's statements are taken from holdfast, so that they cannot come to differ. The locks that
databases have themselves do less: they know neither ttl nor fence, and end with the connection.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchmarks.contenders import TTL
from holdfast.engines.sql.commands import LONGEST_LOCK_WAIT
from holdfast.engines.sql.dialect import LEASES, MICROSECONDS, Dialect
from holdfast.engines.sql.mysql import commands as mysql
from holdfast.engines.sql.postgres import commands as postgres

KEY = "holdfast:bare"

Statement: TypeAlias = tuple[str, Sequence[Any]]
"""A statement and its values, as the driver wants them."""


@dataclass(frozen=True, slots=True)
class Statements:
    """What a holder sends to acquire a lock, and to release it."""

    acquire: Callable[[str], Statement]
    release: Callable[[str], Statement]


def postgres_lease() -> Statements:
    """A lease in PostgreSQL, as holdfast takes it."""
    return _lease(postgres.Statements(LEASES).dialect)


def mariadb_lease() -> Statements:
    """A lease in MariaDB, as holdfast takes it."""
    return _lease(mysql.Statements(LEASES, returns=True).dialect)


def _lease(dialect: Dialect) -> Statements:
    acquire, release = dialect.acquire.sql, dialect.release.sql

    def taking(holder: str) -> Statement:
        deadline = round((time.time() + TTL) * MICROSECONDS)
        ttl = round(TTL * MICROSECONDS)
        return acquire, dialect.acquire(
            key=KEY,
            holder=holder,
            shares=1,
            ttl=ttl,
            deadline=deadline,
            lock_wait=LONGEST_LOCK_WAIT,
        )[1]

    return Statements(taking, lambda holder: (release, dialect.release(key=KEY, holder=holder)[1]))


def advisory_lock() -> Statements:
    """PostgreSQL's own lock."""
    return Statements(
        lambda _: ("SELECT pg_try_advisory_lock($1)", (1,)),
        lambda _: ("SELECT pg_advisory_unlock($1)", (1,)),
    )


def named_lock() -> Statements:
    """MariaDB's own lock."""
    return Statements(
        lambda _: ("SELECT GET_LOCK(%s, 0)", ("bench",)),
        lambda _: ("SELECT RELEASE_LOCK(%s)", ("bench",)),
    )
