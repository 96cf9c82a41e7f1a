"""What is to be said of a database server, for a doctor: see `holdfast doctor`."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from holdfast.core.ports import node_timeout
from holdfast.core.records import Finding, NodeInfo
from holdfast.engines import examining
from holdfast.engines.sql.adapters import MYSQL, POSTGRESQL
from holdfast.engines.sql.connection import Connect, SqlError
from holdfast.engines.sql.dialect import Row, Text

Ask: TypeAlias = Callable[[str], Row]
"""Runs one statement, and gives its first row."""

Checks: TypeAlias = Callable[[str, Any, Ask], Iterator[Finding]]
"""Given the server's name and a connection to it."""

POSTGRES_VERSIONS = "12", "17"
"""The oldest and the newest that its statements are for; 15 is tested."""

MARIADB_VERSIONS = "10.6", "11"
"""The same; 10.11 is tested."""

READ_CLOCK = {
    POSTGRESQL: "SELECT CAST(extract(epoch FROM clock_timestamp()) AS text)",
    MYSQL: "SELECT unix_timestamp(now(6))",
}
"""In seconds since 1970."""


def nodes(connect: Connect, where: str, database: str) -> list[NodeInfo]:
    """The server, which has that kind of database."""
    node, _ = _see(connect, where, database, lambda *_: iter(()))
    return [node]


def examine(connect: Connect, where: str, database: str, ttl: float) -> Iterator[Finding]:
    """The server, for locks of that ttl."""

    def all_checks(where: str, connection: Any, ask: Ask) -> Iterator[Finding]:
        checks = postgres_checks if database == POSTGRESQL else mysql_checks
        yield from checks(where, connection, ask)
        trips = examining.round_trips(lambda: ask("SELECT 1"))
        yield examining.judge_round_trips(where, trips, node_timeout(ttl))

    node, findings = _see(connect, where, database, all_checks)
    if node.error:
        yield examining.unreachable(where, node.error)
    yield from findings
    why = "leases and fences are counted on its clock; if that is set forward, leases end early"
    yield from examining.judge_offset(node, why)


def _see(
    connect: Connect, where: str, database: str, checks: Checks
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
        node = examining.figures(where, lambda: float(ask(READ_CLOCK[database])[0]))
        findings.extend(checks(where, connection, ask))  # up to an error, if there is one
    except SqlError as error:
        node = examining.silent(where, error)
    finally:
        connection.close()
    return node, findings


def postgres_checks(where: str, connection: Any, ask: Ask) -> Iterator[Finding]:
    """What is particular to PostgreSQL."""

    def setting(name: str) -> str:
        return str(ask(f"SELECT current_setting('{name}')")[0])

    yield from examining.judge_version(where, setting("server_version"), *POSTGRES_VERSIONS)
    if ask("SELECT pg_is_in_recovery()")[0]:
        yield Finding(
            "critical",
            where,
            "it is a standby",
            "it refuses to write",
            "name the primary, or several hosts with target_session_attrs=read-write",
        )
    elif setting("default_transaction_read_only") == "on":
        yield Finding(
            "critical",
            where,
            "default_transaction_read_only is on",
            "nothing can be written",
            "turn it off for this role or database",
        )
    level = setting("default_transaction_isolation")
    if level != "read committed":
        yield Finding(
            "note",
            where,
            f"default_transaction_isolation is {level}",
            "holdfast sets its own; but see `guard` about transactions of yours",
            "",
        )
    if ask("SELECT pg_backend_pid()")[0] != connection.pid:
        yield Finding(
            "note",
            where,
            "there is a pooler in the way",
            "a session is not ours alone, so waiters cannot listen, and poll every 0.2 s",
            "give holdfast the address of the server itself, if hand-offs should be quick",
        )
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        if setting(name) == "off":
            yield Finding(
                "warning" if name == "synchronous_commit" else "critical",
                where,
                f"{name} is off",
                "a crash of the server, or of its machine, loses the last grants",
                f"set {name} on, at least for the role or the database of the locks",
            )
    standbys = ask("SELECT count(*) FROM pg_stat_replication")[0]
    if standbys and not setting("synchronous_standby_names"):
        yield Finding(
            "warning",
            where,
            f"it has {standbys} standbys, none of them synchronous",
            "after a failover, the new primary may have missed the last grants",
            "set synchronous_standby_names, if a failover is to keep the locks",
        )


def mysql_checks(where: str, connection: Any, ask: Ask) -> Iterator[Finding]:
    """What is particular to MariaDB and MySQL."""
    version = str(ask("SELECT version()")[0])
    if "mariadb" in version.lower():
        yield from examining.judge_version(where, version, *MARIADB_VERSIONS)
    else:
        yield Finding(
            "warning",
            where,
            f"its version is {version}: not MariaDB",
            "holdfast was tried on MariaDB alone, with MySQL's statements",
            "",
        )
    if ask("SELECT @@global.read_only")[0]:
        yield Finding(
            "critical", where, "it is read-only", "it refuses to write", "name the primary"
        )
    flush = ask("SELECT @@innodb_flush_log_at_trx_commit")[0]
    if flush != 1:
        yield Finding(
            "warning",
            where,
            f"innodb_flush_log_at_trx_commit is {flush}",
            "a crash of the server, or of its machine, loses the last grants",
            "set it to 1",
        )
    if (ask("SHOW STATUS LIKE 'wsrep_cluster_size'") or ("", "0"))[1] not in ("", "0", "1"):
        yield Finding(
            "critical",
            where,
            "it is a node of a Galera cluster",
            "two nodes may grant one lock at once: a conflict is found after the grant",
            "have all clients use one node, or another engine",
        )
