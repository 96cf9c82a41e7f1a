"""etcd v3: a queue of keys for each lock, each on a lease; the first one holds the lock.

A URL says where the members of the cluster are; what is asked of them is in `speech`, and there are
two ways of asking: `blocking` for threads, and `aio` for asyncio.
"""

from functools import partial
from pathlib import Path
from urllib.parse import SplitResult, unquote

import google.protobuf  # noqa: F401 - so that its absence is told before anything else happens
import grpc
from grpc.experimental.gevent import init_gevent

from holdfast.core.ports import AsyncStore, Engine, Store, StoreHost
from holdfast.engines import refuse_options
from holdfast.engines.etcd.books import Stake
from holdfast.engines.etcd.guarantees import ETCD
from holdfast.engines.etcd.guard import guard
from holdfast.engines.etcd.lines import Cluster
from holdfast.engines.etcd.spares import oldest
from holdfast.engines.green import gevent_is_patched, refuse_eventlet

DEFAULT_PORT = 2379
FILES = ("ca_cert", "cert", "key")


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the servers may come within a ttl, and how old
    its lease may be when it begins to count."""
    return ttl * 0.01 + 0.002 + oldest(ttl)


def engine(url: SplitResult, given: dict[str, str]) -> Engine:
    """The engine behind a URL of etcd."""
    if url.path.strip("/"):
        raise ValueError(f"url: etcd has no databases, so no path, got {url.path!r}")
    refuse_eventlet("etcd", "gRPC")
    if gevent_is_patched():  # gRPC waits in C, which would stop all greenlets
        init_gevent()
    cluster = _cluster(url, dict(given))
    stakes: dict[str, Stake] = {}

    def connect(around: StoreHost) -> Store:
        from holdfast.engines.etcd.blocking import EtcdStore

        return EtcdStore(cluster, around, stakes)

    def connect_async(around: StoreHost) -> AsyncStore:
        from holdfast.engines.etcd.aio import AsyncEtcdStore

        return AsyncEtcdStore(cluster, around, stakes)

    return Engine(ETCD, drift, connect, connect_async, comparison=partial(guard, stakes))


def _cluster(url: SplitResult, given: dict[str, str]) -> Cluster:
    login, _, places = url.netloc.rpartition("@")
    user, _, password = login.partition(":")
    files = {name: _file(name, given.pop(name)) for name in FILES if name in given}
    refuse_options(given)
    if files and url.scheme != "etcds":
        raise ValueError(f"{next(iter(files))}: is for etcds://, got {url.scheme}://")
    if ("cert" in files) != ("key" in files):
        raise ValueError("cert: goes together with key, and neither without the other")

    def security() -> grpc.ChannelCredentials:
        read = {name: path.read_bytes() for name, path in files.items()}
        return grpc.ssl_channel_credentials(read.get("ca_cert"), read.get("key"), read.get("cert"))

    return Cluster(
        endpoints=tuple(_endpoint(each) for each in places.split(",")),
        user=unquote(user),
        password=unquote(password),
        security=security if url.scheme == "etcds" else None,
    )


def _endpoint(text: str) -> str:
    """`host:port`, as gRPC wants it.

    >>> _endpoint("h1"), _endpoint("[::1]:2380")
    ('h1:2379', '[::1]:2380')
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"url: {text!r} has no valid port; write host:port")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"url: an IPv6 address is written in brackets, got {text!r}")
    return f"{host or 'localhost'}:{port}"


def _file(name: str, text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"{name}: there is no file {text!r}")
    return path
