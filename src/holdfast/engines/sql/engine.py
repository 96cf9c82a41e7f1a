"""From a URL, or a user's own way of connecting, to the engine of an SQL server."""

from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import SplitResult

from holdfast.core.ports import Clock, Engine, StoreHost
from holdfast.core.records import Guarantees
from holdfast.engines.offload import Offloaded
from holdfast.engines.sql.dialect import LEASES
from holdfast.engines.sql.guard import SqlGuard
from holdfast.engines.sql.server import Server
from holdfast.engines.sql.threads import ServerStore

OPTIONS = ("table", "connections")
"""The options that every SQL server has."""

CONNECTIONS = 8
"""How many connections a client opens at the most, besides the one that listens."""

Connect: TypeAlias = Callable[[Clock, float], Any]
"""Opens a connection by that instant of this clock; raises `SqlError`."""


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the server may come within a ttl."""
    return ttl * 0.01 + 0.002


def read_table(options: dict[str, str]) -> str:
    """The option `table`."""
    return options.get("table", LEASES)


def read_count(options: dict[str, str]) -> int:
    """The option `connections`."""
    text = options.get("connections", str(CONNECTIONS))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise ValueError(f"connections: must be a whole number from 1 to 1000, got {text!r}")
    return int(text)


def node_of(url: SplitResult) -> str:
    """What errors call the server."""
    return f"{url.netloc.rpartition('@')[2] or 'localhost'}{url.path}"


def server_engine(
    scheme: str,
    guarantees: Guarantees,
    server: Callable[[StoreHost], Server],
    connections: int,
    guard: SqlGuard,
    ddl: str,
) -> Engine:
    """The engine whose clients each have such a server, and so many connections to it."""

    def store(host: StoreHost) -> ServerStore:
        return ServerStore(server(host), connections)

    return Engine(
        guarantees,
        drift,
        store,
        lambda host: Offloaded(store(host), scheme, host.clock, connections),
        guard=guard,
        ddl=ddl,
        no_sharing="",
    )
