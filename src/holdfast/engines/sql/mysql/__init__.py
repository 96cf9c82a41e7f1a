"""`mariadb://user:password@host:3306/database`, and `mysql://`: a lease table in a database.

What is said is in `speech` and `statements`, how it gets there in `wire`. MariaDB is asked in one
statement, by `RETURNING`. `mysql://` is for servers that do not know that: they are looked at after
they were told.
"""

from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, unquote

from holdfast.core.ports import Engine, StoreHost
from holdfast.core.records import Guarantees
from holdfast.engines import refuse_options
from holdfast.engines.sql.aio import AsyncServerStore
from holdfast.engines.sql.blocking import ServerStore
from holdfast.engines.sql.mysql.guard import guard
from holdfast.engines.sql.mysql.server import AsyncLentServer, LentServer, Server
from holdfast.engines.sql.mysql.statements import LEASES, Statements
from holdfast.engines.sql.mysql.tls import read_tls
from holdfast.engines.sql.pools.lenders import AsyncSqlAlchemyPool, SqlAlchemyPool
from holdfast.engines.sql.pools.store import LentStore

MARIADB = Guarantees(
    engine="a table in a MariaDB database",
    exclusion="among all clients of the database that use the same table",
    broken_by=(
        "a failover to a replica that had not heard of the lock",
        "a crash of a machine with `innodb_flush_log_at_trx_commit` other than 1: it forgets",
        "the server's clock, if it is set forward, or runs faster by more than 1 % of the ttl",
        "writing to the table by other means",
    ),
    fence="a counter in the name's row, which is never behind the server's clock",
    fence_ends="the loss of rows together with a clock that was set back",
    fairness="within a client in the order of arrival; among clients none",
    wake_up=(
        "within a client at once; others ask again, the longer they wait the less often, every "
        "two seconds at the least, and when the holder's time is over"
    ),
    suits="correctness",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)

MYSQL = replace(
    MARIADB,
    engine="a table in a MySQL database; untested: only tried on MariaDB, in MySQL's words",
)

CONNECTIONS = 8
"""How many connections a client makes at the most."""

PORT = 3306


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the server may come within a ttl."""
    return ttl * 0.01 + 0.002


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind `mariadb://` or `mysql://`."""
    is_mariadb = url.scheme == "mariadb"
    table = options.pop("table", LEASES)
    statements = Statements(table, returns=is_mariadb)
    connections = _count(options.pop("connections", str(CONNECTIONS)))
    address = _address(url, options)
    node = _node(url)

    def server(around: StoreHost) -> Server:
        return Server(address, node, statements, around)

    return Engine(
        MARIADB if is_mariadb else MYSQL,
        drift,
        lambda around: ServerStore(server(around), connections),
        lambda around: AsyncServerStore(server(around), connections),
        guard=guard(table),
        ddl=statements.ddl,
    )


def lent_engine(
    lender: SqlAlchemyPool | AsyncSqlAlchemyPool, url: SplitResult, options: dict[str, str]
) -> Engine:
    """The engine behind a user's own pool, whose connections lead to `url`. There is nothing to
    choose but the table: how to connect is the pool's business."""
    is_mariadb = url.scheme == "mariadb"
    table = options.pop("table", LEASES)
    statements = Statements(table, returns=is_mariadb)
    refuse_options(options)
    node = _node(url)

    def store(around: StoreHost) -> LentStore:
        return LentStore(LentServer(lender, node, statements, around))

    def async_store(around: StoreHost) -> AsyncServerStore:
        assert isinstance(lender, AsyncSqlAlchemyPool)  # noqa: S101 - of the client's colour
        return AsyncServerStore(AsyncLentServer(lender, node, statements, around), 1)

    return Engine(
        MARIADB if is_mariadb else MYSQL,
        drift,
        store,
        async_store,
        guard=guard(table),
        ddl=statements.ddl,
    )


def _node(url: SplitResult) -> str:
    return f"{url.netloc.rpartition('@')[2] or 'localhost'}{url.path}"


def _address(url: SplitResult, options: dict[str, str]) -> dict[str, Any]:
    """What PyMySQL is to be called with."""
    database = unquote(url.path.strip("/"))
    if not database or "/" in database:
        raise ValueError(
            f"url: must name a database, as in {url.scheme}://user@host/database, got the path "
            f"{url.path!r}"
        )
    tls = read_tls(options)
    address: dict[str, Any] = {
        "host": url.hostname or "localhost",
        "port": url.port or PORT,
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
        "database": database,
        # Left to itself, PyMySQL reads all authorities of the system for each connection.
        **({"ssl": tls} if tls else {"ssl_disabled": True}),
    }
    if "socket" in options:
        address["unix_socket"] = options.pop("socket")
    refuse_options(options)
    return address


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise ValueError(f"connections: must be a whole number from 1 to 1000, got {text!r}")
    return int(text)
