"""`postgresql://user:password@host:5432/database`: a lease table in a PostgreSQL database."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.core.ports import Engine, StoreHost
from holdfast.core.records import Guarantees
from holdfast.engines import refuse_options
from holdfast.engines.offload import Offloaded
from holdfast.engines.sql.dialect import LEASES
from holdfast.engines.sql.guard import postgresql_guard
from holdfast.engines.sql.postgres.commands import Statements
from holdfast.engines.sql.postgres.connection import PostgresConnection, connect
from holdfast.engines.sql.postgres.server import PostgresServer
from holdfast.engines.sql.threads import ServerStore, read_count

GUARANTEES = Guarantees(
    engine="a table in a PostgreSQL database",
    exclusion="among all clients of the database that use the same table",
    broken_by=(
        "a failover to a standby that missed the grant: replicate synchronously",
        "a crash of a server with `synchronous_commit` or `fsync` off: it loses the last grants",
        "the server's clock, if it is set forward, or runs faster by more than 1 % of the ttl",
        "writing to the table by other means",
    ),
    fence="a counter in the name's row, which is never behind the server's clock",
    fence_ends="the loss of rows together with a clock that was set back",
    fairness="waiters in the order of their arrival",
    wake_up=(
        "a release offers the lock to the next waiter, and wakes it by NOTIFY; behind a pooler "
        "waiters poll, every `retry` seconds, at most 0.2"
    ),
    suits="correctness",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)

DEFAULTS = {
    "fallback_application_name": "holdfast",
    # The listener sends nothing, and would not notice for hours that the other end is gone.
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""The parameters of libpq that the URL may change."""


FORCED = {"client_encoding": "utf8"}
"""The parameters of libpq that the URL cannot change."""


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the server may come within a ttl."""
    return ttl * 0.01 + 0.002


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind a URL of PostgreSQL. What libpq knows may be a parameter of it, too."""
    table = options.pop("table", LEASES)
    connections = read_count(options)
    given = conninfo(url, options)

    def opened(host: StoreHost, until: float) -> PostgresConnection:
        return connect(given, host.clock, until)

    return make_engine(opened, _node(url), table, connections)


def make_engine(
    opened: Callable[[StoreHost, float], PostgresConnection],
    node: str,
    table: str,
    connections: int,
) -> Engine:
    """The engine to which `opened` opens connections."""
    statements = Statements(table)

    def store(host: StoreHost) -> ServerStore:
        server = PostgresServer(lambda until: opened(host, until), node, statements, host)
        return ServerStore(server, connections)

    return Engine(
        GUARANTEES,
        drift,
        store,
        lambda host: Offloaded(store(host), "postgres", host.clock, connections),
        guard=postgresql_guard(statements.names["leases"]),
        ddl=statements.ddl,
    )


def _node(url: SplitResult) -> str:
    return f"{url.netloc.rpartition('@')[2] or 'localhost'}{url.path}"


def conninfo(url: SplitResult, options: dict[str, str]) -> str:
    """What libpq is to connect with."""
    unknown = [name for name in options if name not in _known()]
    refuse_options(unknown, "table", "connections", *_known())
    try:
        given = conninfo_to_dict(f"{url.scheme}://{url.netloc}{url.path}") | options
    except ProgrammingError:
        raise ValueError("url: PostgreSQL's client library does not understand it") from None
    return make_conninfo("", **(DEFAULTS | given | FORCED))


def conninfo_of(arguments: Mapping[str, Any]) -> str:
    """The same from the arguments of a connection of any library; those that libpq does not know
    are about Python."""
    given = {_SAME.get(name, name): value for name, value in arguments.items()}
    known = {name: value for name, value in given.items() if name in _known()}
    return make_conninfo("", **(DEFAULTS | known | FORCED))


def _known() -> set[str]:
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults()}


_SAME = {"database": "dbname", "db": "dbname"}
"""What other libraries call differently."""
