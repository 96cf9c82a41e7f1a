"""etcd v3: a queue of keys for each lock; the first one holds the lock, or the first of a kind.

A URL names the members of the cluster. `engines.zookeeper` has the same files for the same things:

    commands     keys, and the calls to the servers; `protocol` has etcd's messages
    registry     what a client has on the servers: its sessions, and a claim for each holder
    locks        acquire, extend and release
    inspect      inspect and break locks; read and write cells
    exchanges    which of these exchanges answers which request, and with which server
    connection   channels to the servers, and what their errors mean
    waiters      which waiter is woken when which key is deleted
    threads      the store, which sends; under asyncio, worker threads use it

`engines.queue` has the rules of a queue: also what becomes of the place of a waiter that died.
"""

from functools import cache, partial
from pathlib import Path
from urllib.parse import SplitResult, unquote

import google.protobuf  # noqa: F401 - so that its absence is reported before anything else happens
import grpc
from grpc.experimental.gevent import init_gevent

from holdfast.core.ports import Engine, Store, StoreHost
from holdfast.core.records import Guarantees
from holdfast.engines.etcd.commands import Comparison, place_of
from holdfast.engines.etcd.connection import Cluster
from holdfast.engines.etcd.examine import examine, nodes
from holdfast.engines.etcd.registry import Claim, oldest
from holdfast.engines.etcd.threads import EtcdStore
from holdfast.engines.offload import WORKERS, Offloaded
from holdfast.engines.processes import gevent_is_patched, refuse_eventlet
from holdfast.engines.urls import TLS_FILES, Options, read_endpoints

DAY = 86400.0
MIN_TTL = 2.0
"""What servers with the usual election timeout of 1 s grant at the least; one with a longer timeout
grants more, and the lease has that as its ttl."""

GUARANTEES = Guarantees(
    engine="an etcd v3 cluster",
    exclusion="among all clients of the cluster",
    broken_by=(
        "a leader that was stopped and goes on, before 3.4.31 or 3.5.13: it revokes live leases",
        "a clock of the leader that runs faster than the holder's by more than 1 % of the ttl",
        "a lock's key that is deleted by hand, until the holder's next renewal",
        "a cluster that is restored from an old snapshot",
    ),
    fence="the revision of the store at which the holder's key was created",
    fence_ends="a cluster that is made anew, or restored from a snapshot without `--bump-revision`",
    fairness=(
        "waiters in the order of their arrival; one that died or was stopped keeps its place until "
        "its etcd lease ends, after 5 s at most"
    ),
    wake_up="each waiter watches the one before it; for a semaphore, as many as it has slots",
    suits="correctness",
    min_ttl=MIN_TTL,
    max_ttl=DAY,
    ttl_step=1.0,
)

DEFAULT_PORT = 2379


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the servers may come within a ttl, and how old
    the keep-alive may be that a lease begins with."""
    return ttl * 0.01 + 0.002 + oldest(ttl)


def engine(url: SplitResult, given: dict[str, str]) -> Engine:
    """The engine behind a URL of etcd."""
    if url.path.strip("/"):
        raise ValueError(f"url: etcd has no databases, so no path, got {url.path!r}")
    refuse_eventlet("etcd", "gRPC")
    if gevent_is_patched():
        _wait_as_gevent_does()
    cluster = _cluster(url, given)
    claims: dict[str, Claim] = {}

    def connect(host: StoreHost) -> Store:
        return EtcdStore(cluster, host, claims)

    def comparison(key: str, holder: str, fence: int) -> Comparison:
        claim = claims.get(holder)
        return Comparison(place_of(key, holder) if claim is None else claim.place, fence)

    return Engine(
        GUARANTEES,
        drift,
        connect,
        lambda host: Offloaded(connect(host), "etcd", host.clock, WORKERS),
        comparison=comparison,
        no_sharing="",
        examine=partial(examine, cluster),
        nodes=partial(nodes, cluster),
    )


_wait_as_gevent_does = cache(init_gevent)
"""gRPC waits in C, which would stop all greenlets. Once: a second call would begin anew."""


def _cluster(url: SplitResult, given: dict[str, str]) -> Cluster:
    login, _, _ = url.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = Options(given)
    files = options.tls_files(url.scheme, "etcds")
    options.end(*TLS_FILES)
    read = {name: Path(path).read_bytes() for name, path in files.items()}

    def security() -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(read.get("ca_cert"), read.get("key"), read.get("cert"))

    return Cluster(
        endpoints=tuple(endpoint.name for endpoint in read_endpoints(url, DEFAULT_PORT)),
        user=unquote(user),
        password=unquote(password),
        security=security if url.scheme == "etcds" else None,
    )
