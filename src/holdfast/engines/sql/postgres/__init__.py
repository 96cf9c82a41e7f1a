"""`postgresql://user:password@host:5432/database`: a lease table in a PostgreSQL database.

What is said is in `speech` and `statements`, how it gets there in `wire`, which is libpq. A server
that is reached through a pooler is known by its process number, which is not the one that we were
told when we connected: there nothing is prepared, and nobody listens.
"""

from dataclasses import replace
from urllib.parse import SplitResult

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.core.ports import Engine, StoreHost
from holdfast.core.records import Guarantees
from holdfast.engines import refuse_options
from holdfast.engines.sql.aio import AsyncServerStore
from holdfast.engines.sql.blocking import ServerStore
from holdfast.engines.sql.pools.lenders import Lender
from holdfast.engines.sql.pools.store import LentStore
from holdfast.engines.sql.postgres.guard import guard
from holdfast.engines.sql.postgres.server import LentServer, Server
from holdfast.engines.sql.postgres.statements import LEASES, Statements

GUARANTEES = Guarantees(
    engine="a table in a PostgreSQL database",
    exclusion="among all clients of the database that use the same table",
    broken_by=(
        "a failover to a standby that had not heard of the lock: replicate synchronously",
        "a crash of a server with `synchronous_commit` or `fsync` off: it forgets",
        "the server's clock, if it is set forward, or runs faster by more than 1 % of the ttl",
        "writing to the table by other means",
    ),
    fence="a counter in the name's row, which is never behind the server's clock",
    fence_ends="the loss of rows together with a clock that was set back",
    fairness="waiters in the order of their arrival; a newcomer may be first when a holder died",
    wake_up=(
        "a release hands the lock to the next waiter, by NOTIFY; behind a pooler there is none: "
        "waiters ask again every `retry` seconds, in no order"
    ),
    suits="correctness",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)

LENT_GUARANTEES = replace(
    GUARANTEES,
    wake_up=(
        f"{GUARANTEES.wake_up}; so it is while the user's own pool has no connection to spare that "
        "could listen"
    ),
)

CONNECTIONS = 8
"""How many connections a client makes at the most, besides the one that listens."""

DEFAULTS = {
    "fallback_application_name": "holdfast",
    "client_encoding": "utf8",
    # Whoever listens says nothing, and would not notice for hours that the other end has gone.
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""What libpq is told unless the URL says otherwise."""


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the server may come within a ttl."""
    return ttl * 0.01 + 0.002


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind a URL of PostgreSQL. What libpq knows may be a parameter of it, too."""
    table = options.pop("table", LEASES)
    statements = Statements(table)
    connections = _count(options.pop("connections", str(CONNECTIONS)))
    conninfo = _conninfo(url, options)
    node = _node(url)

    def server(around: StoreHost) -> Server:
        return Server(conninfo, node, statements, around)

    return Engine(
        GUARANTEES,
        drift,
        lambda around: ServerStore(server(around), connections),
        lambda around: AsyncServerStore(server(around), connections),
        guard=guard(table),
        ddl=statements.ddl,
    )


def lent_engine(lender: Lender, url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind a user's own pool, whose connections lead to `url`. There is nothing to
    choose but the table: how to connect is the pool's business."""
    table = options.pop("table", LEASES)
    statements = Statements(table)
    refuse_options(options)
    node = _node(url)

    def server(around: StoreHost) -> LentServer:
        return LentServer(lender, node, statements, around)

    return Engine(
        LENT_GUARANTEES,
        drift,
        lambda around: LentStore(server(around)),
        lambda around: AsyncServerStore(server(around), 1),
        guard=guard(table),
        ddl=statements.ddl,
    )


def _node(url: SplitResult) -> str:
    return f"{url.netloc.rpartition('@')[2] or 'localhost'}{url.path}"


def _conninfo(url: SplitResult, options: dict[str, str]) -> str:
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    for name in options:  # its value is not shown: it may be somebody's password
        if name not in known:
            raise ValueError(f"{name}: this engine has no such option")
    try:
        given = conninfo_to_dict(f"{url.scheme}://{url.netloc}{url.path}") | options
    except ProgrammingError:
        raise ValueError("url: PostgreSQL's client library does not understand it") from None
    return make_conninfo("", **(DEFAULTS | given))


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise ValueError(f"connections: must be a whole number from 1 to 1000, got {text!r}")
    return int(text)
