"""`mariadb://user:password@host:3306/database`, and `mysql://`: a lease table in a database.

`mariadb://` acquires in one statement, by `RETURNING`. `mysql://` is for servers that do not have
it: a second statement reads what the first has done.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, unquote

import pymysql

from holdfast.core.ports import Engine, StoreHost
from holdfast.core.records import Guarantees
from holdfast.engines import refuse_options
from holdfast.engines.offload import Offloaded
from holdfast.engines.sql.dialect import LEASES
from holdfast.engines.sql.guard import mysql_guard
from holdfast.engines.sql.mysql.commands import Statements
from holdfast.engines.sql.mysql.connection import connect
from holdfast.engines.sql.mysql.server import MySqlServer
from holdfast.engines.sql.mysql.tls import FILES, read_tls
from holdfast.engines.sql.threads import ServerStore, read_count

MARIADB = Guarantees(
    engine="a table in a MariaDB database",
    exclusion="among all clients of the database that use the same table",
    broken_by=(
        "a failover to a replica that missed the grant",
        "a crash of a machine with `innodb_flush_log_at_trx_commit` other than 1: it loses grants",
        "the server's clock, if it is set forward, or runs faster by more than 1 % of the ttl",
        "writing to the table by other means",
    ),
    fence="a counter in the name's row, which is never behind the server's clock",
    fence_ends="the loss of rows together with a clock that was set back",
    fairness="waiters in the order of their arrival",
    wake_up=(
        "a release offers the lock to the next waiter. A waiter of the same client is woken at "
        "once; others poll, every `retry` seconds, at most 0.2"
    ),
    suits="correctness",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)

MYSQL = replace(
    MARIADB,
    engine="a table in a MySQL database; untested: only tried on MariaDB, with MySQL's statements",
)

PORT = 3306


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the server may come within a ttl."""
    return ttl * 0.01 + 0.002


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind `mariadb://` or `mysql://`."""
    table = options.pop("table", LEASES)
    connections = read_count(options)
    given = address(url, options)

    def opened(host: StoreHost, until: float) -> pymysql.Connection:
        return connect(given, host.clock, until)

    return make_engine(url.scheme, opened, _node(url), table, connections)


def make_engine(
    scheme: str,
    opened: Callable[[StoreHost, float], pymysql.Connection],
    node: str,
    table: str,
    connections: int,
) -> Engine:
    """The engine to which `opened` opens connections."""
    is_mariadb = scheme == "mariadb"
    statements = Statements(table, returns=is_mariadb)

    def store(host: StoreHost) -> ServerStore:
        server = MySqlServer(lambda until: opened(host, until), node, statements, host)
        return ServerStore(server, connections)

    return Engine(
        MARIADB if is_mariadb else MYSQL,
        drift,
        store,
        lambda host: Offloaded(store(host), scheme, host.clock, connections),
        guard=mysql_guard(statements.names["leases"]),
        ddl=statements.ddl,
    )


def _node(url: SplitResult) -> str:
    return f"{url.netloc.rpartition('@')[2] or 'localhost'}{url.path}"


def address(url: SplitResult, options: dict[str, str]) -> dict[str, Any]:
    """What PyMySQL is to be called with."""
    database = unquote(url.path.strip("/"))
    if not database or "/" in database:
        raise ValueError(
            f"url: must name a database, as in {url.scheme}://user@host/database, got the path "
            f"{url.path!r}"
        )
    tls = read_tls(options)
    found: dict[str, Any] = {
        "host": url.hostname or "localhost",
        "port": url.port or PORT,
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
        "database": database,
        # Left to itself, PyMySQL reads all authorities of the system for each connection.
        **({"ssl": tls} if tls else {"ssl_disabled": True}),
    }
    if "socket" in options:
        found["unix_socket"] = options.pop("socket")
    refuse_options(options, "table", "connections", "socket", "ssl", *FILES)
    return found


def address_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same from the arguments of a connection of any library; the others are about Python."""
    given = {_SAME.get(name, name): value for name, value in arguments.items()}
    known = {name: given[name] for name in _PLACE if given.get(name) is not None}
    if "ssl" not in known:
        known["ssl_disabled"] = True
    return known


_SAME = {"db": "database", "passwd": "password"}
"""What other libraries call differently."""

_PLACE = ("host", "port", "user", "password", "database", "unix_socket", "ssl")
