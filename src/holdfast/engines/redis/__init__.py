"""Redis and Valkey: one master, Sentinel, Cluster, or a Redlock quorum of independent masters.

A URL says where the servers are; what is asked of them is in `speech`, and there are two ways of
asking: `blocking` for threads, and `aio` for asyncio.
"""

import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, unquote

from holdfast.core.guard import RestartGuard
from holdfast.core.ports import AsyncStore, Engine, Store, Surroundings
from holdfast.core.quorum import Quorum
from holdfast.core.records import Guarantees
from holdfast.core.tenure import node_timeout
from holdfast.engines.redis.addresses import (
    DEFAULT_PORT,
    SENTINEL_PORT,
    Address,
    of_client,
    read_hosts,
    read_login,
    sentinel,
    server,
)
from holdfast.engines.redis.guarantees import DAY, REDLOCK, SENTINEL, SINGLE
from holdfast.engines.redis.nodes import Fleet, Node
from holdfast.engines.redis.options import Options
from holdfast.engines.redis.speech import Speech

HOUR = 3600.0
MAX_TTL = 60.0
LEAST_PATIENCE, MOST_PATIENCE = 0.005, 0.05


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the servers may come within a ttl."""
    return ttl * 0.01 + 0.002


def quorum_patience(ttl: float) -> float:
    """How long one node of several may take: what it costs if one of them is silent."""
    return min(max(ttl / 200, LEAST_PATIENCE), MOST_PATIENCE)


def engine(url: SplitResult, given: dict[str, str]) -> Engine:
    """The engine behind a URL of Redis."""
    options = Options(given)
    settings = read_login(url) | options.connection()
    path = unquote(url.path)
    if url.scheme == "unix":
        settings |= {"path": path, "db": options.count("db", 0, 10**6)}
        return _single(server(settings), SINGLE, options)
    if url.scheme == "redis+sentinel":
        hosts = read_hosts(url, SENTINEL_PORT)
        service, _, number = path.strip("/").partition("/")
        if not service:
            raise ValueError("url: redis+sentinel://host/service names a service, got none")
        address = sentinel(hosts, service, settings | {"db": _database(number)})
        return _single(address, SENTINEL, options)
    if url.scheme == "rediss" or options.switch("tls", default=False):
        settings |= {"ssl_check_hostname": settings.get("ssl_check_hostname", True)}
    settings |= {"db": _database(path.strip("/"))}
    hosts = read_hosts(url, DEFAULT_PORT)
    addresses = [server(settings | {"host": host, "port": port}) for host, port in hosts]
    if url.scheme == "redlock":
        return _redlock(addresses, options)
    if len(addresses) > 1:
        raise ValueError(f"url: {url.scheme}:// is one server; for a quorum write redlock://")
    return _single(addresses[0], SINGLE, options)


def engine_of_clients(clients: Sequence[Any], given: dict[str, str]) -> Engine:
    """The engine behind a user's own redis-py clients: one server, or a quorum of several."""
    addresses = [of_client(client) for client in clients]
    options = Options(given)
    if len(addresses) > 1:
        return _redlock(addresses, options)
    failing_over = hasattr(clients[0].connection_pool, "service_name")
    return _single(addresses[0], SENTINEL if failing_over else SINGLE, options)


def _single(address: Address, guarantees: Guarantees, options: Options) -> Engine:
    keep = options.number("fence_keep", HOUR, 1, 366 * DAY)
    replicas = options.count("replicas", 0, 100)
    options.end()

    def fleet(around: Surroundings) -> Fleet:
        channel = _new_channel()
        speech = Speech(quorum=False, keep=keep, channel=channel, replicas=replicas)
        node = Node(0, address, RestartGuard(0, on=False), around, alone=True)
        return Fleet([node], speech, None, around, channel)

    return _engine(fleet, guarantees, node_timeout)


def _redlock(addresses: Sequence[Address], options: Options) -> Engine:
    names = [address.name for address in addresses]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"url: a quorum is of independent nodes, got {name} twice")
    keep = options.number("fence_keep", HOUR, 1, 366 * DAY)
    guarded = options.switch("restart_guard", default=True)
    max_ttl = options.number("max_ttl", MAX_TTL if guarded else DAY, 0.01, DAY)
    options.end()

    def fleet(around: Surroundings) -> Fleet:
        channel = _new_channel()
        speech = Speech(quorum=True, keep=keep, channel=channel)
        longest = max_ttl + drift(max_ttl)
        guards = [RestartGuard(longest, on=guarded) for _ in addresses]
        quorum = Quorum(names, guards, around.clock, time.time, random.uniform, drift)
        nodes = [
            Node(index, address, guard, around, max_ttl=max_ttl if guarded else None)
            for index, (address, guard) in enumerate(zip(addresses, guards, strict=True))
        ]
        return Fleet(nodes, speech, quorum, around, channel)

    forgets = () if guarded else ("a restart of a node without persistence: it forgets",)
    promises = replace(REDLOCK, max_ttl=max_ttl, broken_by=(*forgets, *REDLOCK.broken_by))
    return _engine(fleet, promises, quorum_patience)


def _engine(
    fleet: Callable[[Surroundings], Fleet],
    guarantees: Guarantees,
    patience: Callable[[float], float],
) -> Engine:
    def connect(around: Surroundings) -> Store:
        from holdfast.engines.redis.blocking import RedisStore

        return RedisStore(fleet(around))

    def connect_async(around: Surroundings) -> AsyncStore:
        from holdfast.engines.redis.aio import AsyncRedisStore

        return AsyncRedisStore(fleet(around))

    return Engine(guarantees, drift, connect, connect_async, patience)


def _new_channel() -> str:
    return f"holdfast:{secrets.token_hex(12)}"


def _database(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise ValueError(f"url: the path is the number of a database, got {text!r}")
    return int(text or 0)
