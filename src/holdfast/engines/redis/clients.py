"""A user's own redis-py clients, as a description of where the servers are and how to log in.

The clients themselves are neither used nor closed: holdfast makes connections like theirs.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import redis
import redis.asyncio
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.connection import SSLConnection

from holdfast.engines.redis.addresses import DEFAULT_PORT, Address, Settings, sentinel, server
from holdfast.engines.urls import Endpoint

WORDS = (
    *("host", "port", "path", "db", "username", "password", "credential_provider"),
    *("client_name", "socket_keepalive", "socket_keepalive_options"),
)
"""What is taken over, besides all that is about TLS."""


class Server(NamedTuple):
    """One client's server."""

    address: Address
    url: str
    """As it is shown."""


class ClusterOf(NamedTuple):
    """One client's cluster."""

    seeds: list[Endpoint]
    settings: Settings


def read_client(client: Any, *, awaits: bool) -> Server | ClusterOf:
    """The server that a client is for. A client of asyncio where one of threads is needed, or the
    reverse, is a `TypeError`."""
    _check_kind(client, awaits=awaits)
    if isinstance(client, (redis.RedisCluster, redis.asyncio.RedisCluster)):
        return _cluster(client)
    pool = client.connection_pool
    encrypted = issubclass(pool.connection_class, (SSLConnection, AsyncSSLConnection))
    settings = _settings(pool.connection_kwargs, encrypted=encrypted)
    database = settings.setdefault("db", 0) or 0
    if hasattr(pool, "sentinel_manager"):
        return _sentinel(pool, settings)
    if "path" in settings:
        address = server(settings, pool.connection_class)
        return Server(address, f"unix://{quote(settings['path'])}")
    endpoint = Endpoint(settings.get("host", "localhost"), int(settings.get("port", DEFAULT_PORT)))
    settings |= endpoint._asdict()
    address = server(settings, pool.connection_class)
    scheme = "rediss" if encrypted else "redis"
    return Server(address, f"{scheme}://{endpoint.name}/{database}")


def _check_kind(client: Any, *, awaits: bool) -> None:
    ours, theirs = ("an AsyncClient", redis.asyncio) if awaits else ("a Client", redis)
    if not isinstance(client, (theirs.Redis, theirs.RedisCluster)):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise TypeError(f"url: {ours} needs a {theirs.__name__}.Redis, got a {kind}")


def _settings(given: Mapping[str, Any], *, encrypted: bool) -> Settings:
    marked = {"ssl_cert_reqs": "required"} if encrypted else {}  # redis-py's default
    return marked | {
        name: value
        for name, value in given.items()
        if value is not None and (name in WORDS or (encrypted and name.startswith("ssl_")))
    }


def _sentinel(pool: Any, settings: Settings) -> Server:
    if not pool.is_master:
        raise ValueError("url: a lock is kept by the master, got a client of its replicas")
    endpoints, asking = [], {}
    for each in pool.sentinel_manager.sentinels:
        kind, given = each.connection_pool.connection_class, each.connection_pool.connection_kwargs
        encrypted = issubclass(kind, (SSLConnection, AsyncSSLConnection))
        asking = _settings(given, encrypted=encrypted)
        endpoints.append(Endpoint(asking.pop("host"), int(asking.pop("port"))))
    address = sentinel(endpoints, pool.service_name, settings, asking)
    hosts = ",".join(endpoint.name for endpoint in endpoints)
    url = f"redis+sentinel://{hosts}/{pool.service_name}/{settings['db']}"
    return Server(address, url)


def _cluster(client: Any) -> ClusterOf:
    manager = client.nodes_manager
    given = getattr(manager, "connection_kwargs", {})
    kind = given.get("connection_class", object)
    encrypted = bool(given.get("ssl")) or issubclass(kind, (SSLConnection, AsyncSSLConnection))
    settings = _settings(given, encrypted=encrypted)
    for name in ("host", "port", "db"):
        settings.pop(name, None)
    nodes = manager.startup_nodes.values()
    return ClusterOf([Endpoint(node.host, int(node.port)) for node in nodes], settings)
