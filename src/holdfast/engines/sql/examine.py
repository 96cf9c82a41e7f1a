"""What the examinations of the SQL servers have in common."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from holdfast.core.ports import node_timeout
from holdfast.core.records import Finding, NodeInfo
from holdfast.engines import examining
from holdfast.engines.sql.connection import Connect, SqlError
from holdfast.engines.sql.dialect import Row, Text

Ask: TypeAlias = Callable[[str], Row]
"""Runs one statement, and gives its first row."""

Checks: TypeAlias = Callable[[str, Any, Ask], Iterator[Finding]]
"""What is to be said of one kind of server, given its name and a connection to it."""


def nodes(connect: Connect, where: str, read_clock: str) -> list[NodeInfo]:
    """The server. `read_clock`: a statement that gives seconds since 1970."""
    node, _ = _see(connect, where, read_clock, lambda *_: iter(()))
    return [node]


def examine(
    connect: Connect, where: str, read_clock: str, checks: Checks, ttl: float
) -> Iterator[Finding]:
    """The server, for locks of that ttl."""

    def all_checks(where: str, connection: Any, ask: Ask) -> Iterator[Finding]:
        yield from checks(where, connection, ask)
        trips = examining.round_trips(lambda: ask("SELECT 1"))
        yield examining.judge_round_trips(where, trips, node_timeout(ttl))

    node, findings = _see(connect, where, read_clock, all_checks)
    if node.error:
        yield examining.unreachable(where, node.error)
    yield from findings
    why = "leases and fences are counted on its clock; if that is set forward, leases end early"
    yield from examining.judge_offset(node, why)


def _see(
    connect: Connect, where: str, read_clock: str, checks: Checks
) -> tuple[NodeInfo, list[Finding]]:
    clock, findings = time.monotonic, list[Finding]()
    try:
        connection = connect(clock, clock() + examining.TIMEOUT)
    except SqlError as error:
        return examining.silent(where, error), []

    def ask(sql: str) -> Row:
        rows = connection.run((Text(sql, "format")(),), clock() + examining.TIMEOUT)[0]
        return rows[0] if rows else ()

    try:
        node = examining.figures(where, lambda: float(ask(read_clock)[0]))
        findings.extend(checks(where, connection, ask))  # up to an error, if there is one
    except SqlError as error:
        node = examining.silent(where, error)
    finally:
        connection.close()
    return node, findings
