"""What is to be said of a PostgreSQL server, for a doctor: see `holdfast doctor`."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from holdfast.core.records import Finding
from holdfast.engines import examining
from holdfast.engines.sql.examine import Ask
from holdfast.engines.sql.postgres.connection import PostgresConnection

OLDEST, NEWEST = "12", "17"
"""The versions that its statements are for; 15 is tested."""

READ_CLOCK = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS text)"

Setting: TypeAlias = Callable[[str], str]
"""Gives the value of a setting."""


def checks(where: str, connection: PostgresConnection, ask: Ask) -> Iterator[Finding]:
    """All but the clock and the round trips."""

    def setting(name: str) -> str:
        return str(ask(f"SELECT current_setting('{name}')")[0])

    yield from examining.judge_version(where, setting("server_version"), OLDEST, NEWEST)
    yield from _transactions(where, setting, ask)
    yield from _pooler(where, connection, ask)
    yield from _durability(where, setting, ask)


def _transactions(where: str, setting: Setting, ask: Ask) -> Iterator[Finding]:
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


def _pooler(where: str, connection: PostgresConnection, ask: Ask) -> Iterator[Finding]:
    if ask("SELECT pg_backend_pid()")[0] != connection.pid:
        yield Finding(
            "note",
            where,
            "there is a pooler in the way",
            "a session is not ours alone, so waiters cannot listen, and poll every 0.2 s",
            "give holdfast the address of the server itself, if hand-offs should be quick",
        )


def _durability(where: str, setting: Setting, ask: Ask) -> Iterator[Finding]:
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
