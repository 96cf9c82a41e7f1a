"""What is to be said of a server of MariaDB or MySQL, for a doctor: see `holdfast doctor`."""

from collections.abc import Iterator

from holdfast.core.records import Finding
from holdfast.engines import examining
from holdfast.engines.sql.examine import Ask
from holdfast.engines.sql.mysql.connection import MySqlConnection

OLDEST, NEWEST = "10.6", "11"
"""The versions of MariaDB that its statements are for; 10.11 is tested."""

READ_CLOCK = "SELECT unix_timestamp(now(6))"


def checks(where: str, connection: MySqlConnection, ask: Ask) -> Iterator[Finding]:
    """All but the clock and the round trips."""
    version = str(ask("SELECT version()")[0])
    if "mariadb" in version.lower():
        yield from examining.judge_version(where, version, OLDEST, NEWEST)
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
