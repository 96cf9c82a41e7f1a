"""What the examinations of the SQL servers have in common."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from holdfast.core.lease_state import node_timeout
from holdfast.core.records import Finding
from holdfast.engines import examining
from holdfast.engines.sql.connection import SqlError
from holdfast.engines.sql.dialect import Row, Text
from holdfast.engines.sql.engine import Connect

Ask: TypeAlias = Callable[[str], Row]
"""Runs one statement, and gives its first row."""

Checks: TypeAlias = Callable[[str, Any, Ask], Iterator[Finding]]
"""What is to be said of one kind of server, given its name and a connection to it."""


def examine(
    connect: Connect, where: str, read_clock: str, checks: Checks, ttl: float
) -> Iterator[Finding]:
    """`read_clock`: a statement that gives seconds since 1970."""
    clock = time.monotonic
    try:
        connection = connect(clock, clock() + examining.TIMEOUT)
    except SqlError as error:
        yield examining.unreachable(where, error)
        return

    def ask(sql: str) -> Row:
        rows = connection.run((Text(sql, "format")(),), clock() + examining.TIMEOUT)[0]
        return rows[0] if rows else ()

    try:
        yield from checks(where, connection, ask)
        offset = examining.offset_of(lambda: float(ask(read_clock)[0]))
        why = "leases and fences are counted on its clock; if that is set forward, leases end early"
        yield from examining.judge_offset(where, *offset, why)
        trips = examining.round_trips(lambda: ask("SELECT 1"))
        yield examining.judge_round_trips(where, trips, node_timeout(ttl))
    except SqlError as error:
        yield examining.unreachable(where, error)
    finally:
        connection.close()
