"""ZooKeeper: `zookeeper://h1:2181,h2:2181/chroot`, or `zookeepers://` for TLS.

`engines.etcd` has the same files for the same things:

    commands     names of nodes, and the calls to the servers
    sessions     one for each ttl, and how long it lives at least
    registry     what a client has on the servers: a claim for each holder; which waiter is woken
    locks        acquire, extend and release
    inspect      inspect and break locks; read and write cells
    exchanges    which of these exchanges answers which request, and what runs it
    connection   kazoo's client, and what it does not offer; `promise` has its results
    threads      the store, which waits; under asyncio, worker threads use it

`engines.queue` has the rules of a queue: also what becomes of the place of a waiter that died.
"""

import re
from functools import partial
from urllib.parse import SplitResult, unquote

import kazoo  # noqa: F401 - so that its absence is reported before anything else happens

from holdfast.core.ports import Engine
from holdfast.core.records import Guarantees
from holdfast.engines.offload import WORKERS, Offloaded
from holdfast.engines.processes import refuse_eventlet
from holdfast.engines.urls import TLS_FILES, Options, read_endpoints
from holdfast.engines.zookeeper.connection import Security, Servers
from holdfast.engines.zookeeper.examine import examine, nodes
from holdfast.engines.zookeeper.sessions import MARGIN, SHORTEST, Terms
from holdfast.engines.zookeeper.threads import ZooKeeperStore

DAY = 86400.0
LONGEST = 20
"""Ticks of the longest session, by the default of the servers."""

REFUSED = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""What the servers accept in no path."""

PORTS = {"zookeeper": 2181, "zookeepers": 2281}


def engine(url: SplitResult, given: dict[str, str]) -> Engine:
    """The engine behind a URL of ZooKeeper."""
    refuse_eventlet("zookeeper", "kazoo")
    options = Options(given)
    tick = options.optional("tick", 0.001, 3600.0)
    max_ttl = options.optional("max_ttl", SHORTEST * (tick or 0.0), DAY)
    files = options.tls_files(url.scheme, "zookeepers")
    options.end("tick", "max_ttl", *TLS_FILES)
    security = Security(**files) if url.scheme == "zookeepers" else None
    if security is not None:
        security.check()
    hosts = tuple(endpoint.name for endpoint in read_endpoints(url, PORTS[url.scheme]))
    login, _, _ = url.netloc.rpartition("@")
    servers = Servers(hosts, unquote(login), security)
    terms = Terms(servers, tick)
    connect = partial(ZooKeeperStore, terms, _chroot(url.path))
    return Engine(
        guarantees(tick, max_ttl),
        partial(drift, terms),
        connect,
        lambda host: Offloaded(connect(host), "zookeeper", host.clock, WORKERS),
        joins_at_once=True,
        no_sharing="",
        examine=partial(examine, servers),
        nodes=partial(nodes, servers),
    )


def _chroot(path: str) -> str:
    """The node below which all others are; empty for the root."""
    chroot = unquote(path).rstrip("/")
    if {"", ".", ".."}.intersection(chroot.split("/")[1:]) or REFUSED.search(chroot):
        raise ValueError(f"url: {chroot!r} cannot be the path of a node")
    return chroot


def guarantees(tick: float | None, max_ttl: float | None) -> Guarantees:
    """Given the servers' `tickTime` and `maxSessionTimeout` in seconds, or None: then the client
    reads what a server grants when it first connects, and the lease has that as its ttl."""
    return Guarantees(
        engine="a ZooKeeper ensemble",
        exclusion="among all clients of the ensemble",
        broken_by=(
            "a `minSessionTimeout` of less than two ticks, unless the URL names the `tick`",
            "a leader whose clock runs faster than the holder's by more than 1 % of the ttl",
            "the loss of what a majority of the servers has on disk",
        ),
        fence="the zxid with which the holder's node was created",
        fence_ends="an ensemble that is set up anew, with no data",
        fairness=(
            "waiters in the order of their arrival; one that died or is stopped keeps its place "
            "until its session ends, which takes up to its ttl"
        ),
        wake_up="each waiter watches the one before it; for a semaphore, as many as it has slots",
        suits="correctness",
        min_ttl=SHORTEST * tick if tick else 1.0,
        max_ttl=max_ttl or (LONGEST * tick if tick else DAY),
        ttl_step=tick or 1.0,
    )


def drift(terms: Terms, ttl: float) -> float:
    """What a lease is shorter than its session by."""
    return MARGIN * terms.tick + ttl * 0.01 + 0.002
