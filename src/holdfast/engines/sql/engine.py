"""From a URL, or a user's own way of connecting, to the engine of an SQL server."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias
from urllib.parse import SplitResult

from holdfast.core.ports import Clock, Engine, StoreHost
from holdfast.core.records import Finding, Guarantees, NodeInfo
from holdfast.engines.offload import Offloaded
from holdfast.engines.sql.connection import Connect, Connection, RefusedError
from holdfast.engines.sql.dialect import Statements
from holdfast.engines.sql.guard import SqlGuard
from holdfast.engines.sql.threads import ServerStore
from holdfast.engines.sql.waiters import Waiters

OPTIONS = ("table", "connections")
"""The options that every SQL server has."""

CONNECTIONS = 8
"""How many connections a client opens at most, besides the one that listens."""

Given: TypeAlias = Callable[[], dict[str, Any]]
"""What to connect with: arguments of a library."""


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the server may come within a ttl."""
    return ttl * 0.01 + 0.002


def read_count(options: dict[str, str]) -> int:
    """The option `connections`."""
    text = options.get("connections", str(CONNECTIONS))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise ValueError(f"connections: must be a whole number from 1 to 1000, got {text!r}")
    return int(text)


def refuse_tls(unknown: Iterable[str], library: str) -> None:
    """Raise for an argument of a user's library that is about TLS, if ours cannot take it: to leave
    it out would encrypt less."""
    for name in unknown:
        if name.startswith("ssl"):
            raise RefusedError(
                f"{library} cannot take the argument {name} of the user's own way of connecting; "
                "give a URL, which says how to encrypt",
                is_final=True,
            )


def server_engine(
    url: SplitResult,
    options: dict[str, str],
    guarantees: Guarantees,
    connect: Connect,
    statements: Statements,
    guard: SqlGuard,
    waiters: Callable[[StoreHost, Callable[[float], Any]], Waiters] = (
        lambda host, connect: Waiters(host.clock, host.notify)
    ),
) -> Engine:
    """The engine of a server, which has the kind of database that the guard is for."""

    def open_by(clock: Clock, until: float) -> Connection:
        try:
            return connect(clock, until)
        except (AttributeError, TypeError, ValueError) as error:  # of a user's own arguments
            raise RefusedError(
                f"these arguments cannot be connected with: {error}", is_final=True
            ) from None  # which may show a password

    connections = read_count(options)
    node = f"{url.netloc.rpartition('@')[2] or 'localhost'}{url.path}"

    def store(host: StoreHost) -> ServerStore:
        return ServerStore(host, node, open_by, statements, waiters, connections)

    def examine(ttl: float) -> Iterable[Finding]:
        from holdfast.engines.sql.examine import examine

        return examine(open_by, node, guard.database, ttl)

    def nodes() -> Sequence[NodeInfo]:
        from holdfast.engines.sql.examine import nodes

        return nodes(open_by, node, guard.database)

    return Engine(
        guarantees,
        drift,
        store,
        lambda host: Offloaded(store(host), url.scheme, host.clock, connections),
        guard=guard,
        ddl=statements.ddl,
        no_sharing="",
        examine=examine,
        nodes=nodes,
    )
