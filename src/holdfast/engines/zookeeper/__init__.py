"""ZooKeeper: `zookeeper://h1:2181,h2:2181/chroot`, or `zookeepers://` for TLS.

A URL says where the servers are, and on what terms; what is asked of them is in `speech`, and there
are two ways of asking: `blocking` for threads, and `aio` for asyncio.
"""

from functools import partial
from urllib.parse import SplitResult, unquote

import kazoo  # noqa: F401 - so that its absence is told before anything else happens

from holdfast.core.ports import AsyncStore, Engine, Store, StoreHost
from holdfast.engines import refuse_options
from holdfast.engines.green import refuse_eventlet
from holdfast.engines.zookeeper.guarantees import DAY, drift, guarantees
from holdfast.engines.zookeeper.security import read_security
from holdfast.engines.zookeeper.session import SHORTEST, Terms
from holdfast.engines.zookeeper.wire import Servers

PORTS = {"zookeeper": 2181, "zookeepers": 2281}


def engine(url: SplitResult, given: dict[str, str]) -> Engine:
    """The engine behind a URL of ZooKeeper."""
    refuse_eventlet("zookeeper", "kazoo")
    options = dict(given)
    tick = _seconds(options, "tick", 0.001, 3600.0)
    max_ttl = _seconds(options, "max_ttl", SHORTEST * (tick or 0.0), DAY)
    security = read_security(url.scheme, options)
    refuse_options(options)
    login, _, places = url.netloc.rpartition("@")
    servers = Servers(_hosts(places, PORTS[url.scheme]), unquote(login), security)
    terms = Terms(servers, tick)
    chroot = unquote(url.path).rstrip("/")

    def connect(around: StoreHost) -> Store:
        from holdfast.engines.zookeeper.blocking import ZooKeeperStore

        return ZooKeeperStore(terms, chroot, around)

    def connect_async(around: StoreHost) -> AsyncStore:
        from holdfast.engines.zookeeper.aio import AsyncZooKeeperStore

        return AsyncZooKeeperStore(terms, chroot, around)

    return Engine(guarantees(tick, max_ttl), partial(drift, terms), connect, connect_async)


def _hosts(places: str, usual_port: int) -> tuple[str, ...]:
    """`host:port` for each; the port is the usual one unless given."""
    hosts = []
    for place in places.split(","):
        host, colon, port = place.rpartition(":")
        if not colon or place.endswith("]"):
            host, port = place, str(usual_port)
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"url: must name servers as host:port, got {place!r}")
        hosts.append(f"{host}:{port}")
    return tuple(hosts)


def _seconds(options: dict[str, str], name: str, lowest: float, highest: float) -> float | None:
    text = options.pop(name, None)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not lowest <= value <= highest:
        raise ValueError(f"{name}: must be from {lowest:g} to {highest:g} seconds, got {text!r}")
    return value
