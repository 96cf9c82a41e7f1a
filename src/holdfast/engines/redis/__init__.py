"""Redis and Valkey: one master, Sentinel, Cluster, or a Redlock quorum of independent masters.

A URL names the servers. What is sent to them is in `commands`, one connection is in
`connection`, and there are two stores: `threads` and `aio`.
"""

import random
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import SplitResult, unquote

import hiredis  # noqa: F401 - so that its absence is an error before anything else happens

from holdfast.core.ports import AsyncStore, Engine, Store, StoreHost, node_timeout
from holdfast.core.quorum import Quorum
from holdfast.core.records import Finding, Guarantees, NodeInfo
from holdfast.core.restart_guard import RestartGuard
from holdfast.engines.redis.addresses import (
    DEFAULT_PORT,
    SENTINEL_PORT,
    Address,
    ClusterOf,
    Settings,
    read_client,
    sentinel,
    server,
)
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.getset import Getset
from holdfast.engines.redis.guarantees import CLUSTER, DAY, REDLOCK, SENTINEL, SINGLE, getset
from holdfast.engines.redis.handshake import Handshake, NodeHandshake
from holdfast.engines.redis.nodes import Nodes, Route, Voting, single
from holdfast.engines.urls import Endpoint, Options, read_endpoints

FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")

NAMES = (
    *("client_name", "db", "fence_keep", "max_ttl", "node_timeout", "protocol", "replicas"),
    *("restart_guard", "sentinel_password", "sentinel_username", "ssl_cert_reqs"),
    *("ssl_check_hostname", *FILES),
)
"""All of them, to suggest one for a misspelt one."""

MOST_DATABASES = 10**6


class RedisOptions(Options):
    """The options of a client."""

    def connection(self) -> Settings:
        """The name of the connections, for redis-py."""
        name = self._left.pop("client_name", "")
        if any(not "!" <= letter <= "~" for letter in name):
            raise ValueError(f"client_name: must be ASCII without spaces, got {name!r}")
        return {"client_name": name} if name else {}

    def security(self, encrypted: bool) -> Settings:
        """The settings of TLS for redis-py; none unless `encrypted`, or an option needs them."""
        words: Settings = {name: self.file(name) for name in FILES if name in self}
        if "ssl_cert_reqs" in self:
            words["ssl_cert_reqs"] = self.choice("ssl_cert_reqs", "required", "optional", "none")
        if encrypted or words or "ssl_check_hostname" in self:
            words["ssl_check_hostname"] = self.switch("ssl_check_hostname", default=True)
        return words

    def sentinel_login(self) -> Settings:
        """How to log in at sentinels, which have users of their own."""
        words = ("username", "password")
        given = {word: self._left.pop(f"sentinel_{word}", "") for word in words}
        return {word: value for word, value in given.items() if value}

    def database(self) -> int:
        """The number of a database."""
        return self.count("db", 0, MOST_DATABASES)

    def end(self, *names: str) -> None:
        """Refuse what is left."""
        super().end(*NAMES, *names)


def read_login(url: SplitResult) -> Settings:
    """User name and password."""
    login, _, _ = url.netloc.rpartition("@")
    user, _, password = login.partition(":")
    found = {"username": unquote(user), "password": unquote(password)}
    return {name: value for name, value in found.items() if value}


Parts: TypeAlias = tuple[Nodes, Route]
"""What a store is made of."""

HOUR = 3600.0
MAX_TTL = 60.0
LEAST_NODE_TIMEOUT, MOST_NODE_TIMEOUT = 0.005, 0.05

CLOCK_TOLERANCE = 120.0
"""Nodes of a quorum grant fences within 60 s of their own clock, so two may lie twice that apart. A
counter must be kept for as long, or a fence could be lower than one that was granted before."""


NO_COUNTING = (
    "majorities cannot count: with nodes A, B and C and two slots, three clients can have AB, AC "
    "and BC, though each node gave out two; use one server for it (redis://), or another engine"
)


def drift(ttl: float) -> float:
    """How far apart the clocks of a holder and of the servers may come within a ttl."""
    return ttl * 0.01 + 0.002


def quorum_node_timeout(ttl: float) -> float:
    """How long one node of several may take to answer, without the option `node_timeout`."""
    return min(max(ttl / 200, LEAST_NODE_TIMEOUT), MOST_NODE_TIMEOUT)


def engine(url: SplitResult, given: dict[str, str]) -> Engine:
    """The engine behind a URL of Redis."""
    options = RedisOptions(given)
    login, path = read_login(url), unquote(url.path)
    if url.scheme == "unix":
        if url.netloc.rpartition("@")[2] or not path.strip("/"):
            raise ValueError("url: unix:///path/of/socket names a socket by its whole path")
        settings = login | options.connection() | {"path": path, "db": options.database()}
        return _single(server(settings), SINGLE, options)
    if "@" in url.path:
        raise ValueError("url: a password with / in it must be percent-encoded")
    secure = options.security(options.switch("tls", default=False) or url.scheme == "rediss")
    settings = login | options.connection() | secure
    if url.scheme == "redis+sentinel":
        endpoints = read_endpoints(url, SENTINEL_PORT)
        service, _, number = path.strip("/").partition("/")
        if not service:
            raise ValueError("url: redis+sentinel://host/service names a service, got none")
        asking = options.sentinel_login() | secure
        address = sentinel(endpoints, service, settings | {"db": _database(number)}, asking)
        return _single(address, SENTINEL, options)
    endpoints = read_endpoints(url, DEFAULT_PORT)
    number = path.strip("/")
    if url.scheme == "redis+cluster":
        if number not in ("", "0"):
            raise ValueError(f"url: a cluster has no database but 0, got {number!r}")
        return _cluster(endpoints, settings, options)
    settings |= {"db": _database(number)}
    addresses = [server(settings | endpoint._asdict()) for endpoint in endpoints]
    if url.scheme == "redlock":
        return _redlock(addresses, options)
    if len(addresses) > 1:
        raise ValueError(f"url: {url.scheme}:// is one server; for a quorum write redlock://")
    return _single(addresses[0], SINGLE, options)


def of_clients(
    clients: Sequence[Any], *, awaits: bool
) -> tuple[str, Callable[[dict[str, str]], Engine]]:
    """A user's own redis-py clients: the URL to show, and the engine behind them, given options.
    One is one server (or a cluster), several are a quorum."""
    found = [read_client(client, awaits=awaits) for client in clients]
    clusters = [each for each in found if isinstance(each, ClusterOf)]
    servers = [each for each in found if not isinstance(each, ClusterOf)]
    if clusters:
        if len(found) > 1:
            raise TypeError("url: a quorum is of independent servers, got a cluster among them")
        seeds, settings = clusters[0]
        shown = f"redis+cluster://{','.join(endpoint.name for endpoint in seeds)}"
        return shown, lambda given: _cluster(seeds, settings, RedisOptions(given))
    if len(servers) > 1:
        addresses = [each.address for each in servers]
        shown = f"redlock://{','.join(address.name for address in addresses)}"
        return shown, lambda given: _redlock(addresses, RedisOptions(given))
    address, shown = servers[0]
    promises = SENTINEL if address.fails_over else SINGLE
    return shown, lambda given: _single(address, promises, RedisOptions(given))


def _single(address: Address, guarantees: Guarantees, options: RedisOptions) -> Engine:
    if options.choice("protocol", "holdfast", "getset") == "getset":
        return _getset(address, guarantees, options)
    keep = options.number("fence_keep", HOUR, 1, 366 * DAY)
    replicas = options.count("replicas", 0, 100)
    options.end()

    def parts(host: StoreHost) -> Parts:
        channel = _new_channel()
        commands = Commands(quorum=False, keep=keep, channel=channel, replicas=replicas)
        nodes = Nodes(host, commands.exchange, channel)
        nodes.add(address, Handshake())
        nodes.add(address, Handshake(), exclusive=True)
        return nodes, single

    made = _engine(parts, guarantees, [address], replicas=replicas)
    return replace(made, joins_at_once=True, no_sharing="")


def _getset(address: Address, guarantees: Guarantees, options: RedisOptions) -> Engine:
    keep = options.number("fence_keep", HOUR, 1, 366 * DAY)
    options.end()

    def parts(host: StoreHost) -> Parts:
        commands = Getset(keep=keep, wall_clock=time.time)
        nodes = Nodes(host, commands.exchange, "")
        nodes.add(address, Handshake())
        return nodes, single

    why = "protocol=getset is for the locks of old clients; leave it out of the URL for cells"
    return replace(_engine(parts, getset(guarantees), [address]), no_cells=why)


def _cluster(seeds: Sequence[Endpoint], settings: Settings, options: RedisOptions) -> Engine:
    keep = options.number("fence_keep", HOUR, 1, 366 * DAY)
    replicas = options.count("replicas", 0, 100)
    options.end()

    def address(endpoint: Endpoint) -> Address:
        return server(settings | endpoint._asdict())

    def parts(host: StoreHost) -> Parts:
        from holdfast.engines.redis.cluster import Cluster

        channel = _new_channel()
        commands = Commands(
            quorum=False, keep=keep, channel=channel, in_cluster=True, replicas=replicas
        )
        nodes = Nodes(host, commands.exchange, channel)
        return nodes, Cluster(seeds, address, nodes).ask

    addresses = list(map(address, seeds))
    made = _engine(parts, CLUSTER, addresses, replicas=replicas)
    return replace(made, joins_at_once=True, no_sharing="")


def _redlock(addresses: Sequence[Address], options: RedisOptions) -> Engine:
    names = [address.name for address in addresses]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"url: a quorum is of independent nodes, got {name} twice")
    keep = options.number("fence_keep", HOUR, CLOCK_TOLERANCE, 366 * DAY)
    guarded = options.switch("restart_guard", default=True)
    max_ttl = options.number("max_ttl", MAX_TTL if guarded else DAY, 0.01, DAY)
    timeout = options.optional("node_timeout", 0.001, 60)
    options.end()

    longest = max_ttl + drift(max_ttl)

    def request_timeout(ttl: float) -> float:
        return quorum_node_timeout(ttl) if timeout is None else min(timeout, ttl / 3)

    def parts(host: StoreHost) -> Parts:
        channel = _new_channel()
        commands = Commands(quorum=True, keep=keep, channel=channel)
        guards = [RestartGuard(longest, on=guarded) for _ in addresses]
        quorum = Quorum(names, guards, host.clock, time.time, random.uniform, drift)
        nodes = Nodes(host, commands.exchange, channel, quorum=quorum.size)
        for address, guard in zip(addresses, guards, strict=True):
            nodes.add(address, NodeHandshake(guard, host.clock, max_ttl, guarded=guarded))
        return nodes, Voting(quorum).ask

    restart = () if guarded else ("a restart of a node without persistence: it loses its locks",)
    promises = replace(REDLOCK, max_ttl=max_ttl, broken_by=(*restart, *REDLOCK.broken_by))
    quarantine = longest if guarded else 0.0
    made = _engine(parts, promises, addresses, request_timeout, quorum=True, quarantine=quarantine)
    why = "nothing can be compared and set on independent masters in one step"
    return replace(made, no_cells=why, no_sharing="", no_counting=NO_COUNTING)


def _engine(
    parts: Callable[[StoreHost], Parts],
    guarantees: Guarantees,
    addresses: Sequence[Address],
    request_timeout: Callable[[float], float] = node_timeout,
    **terms: Any,
) -> Engine:
    """What all have in common; `terms` are those of `examine.Terms`."""

    def connect(host: StoreHost) -> Store:
        from holdfast.engines.redis.threads import RedisStore

        return RedisStore(*parts(host))

    def connect_async(host: StoreHost) -> AsyncStore:
        from holdfast.engines.redis.aio import AsyncRedisStore

        return AsyncRedisStore(*parts(host))

    def examine(ttl: float) -> Iterable[Finding]:
        from holdfast.engines.redis.examine import Terms, examine

        return examine(addresses, Terms(**terms), request_timeout(ttl))

    def nodes() -> Sequence[NodeInfo]:
        from holdfast.engines.redis.examine import Terms, nodes

        return nodes(addresses, Terms(**terms))

    made = Engine(guarantees, drift, connect, connect_async, request_timeout)
    return replace(made, examine=examine, nodes=nodes)


def _new_channel() -> str:
    return f"holdfast:{secrets.token_hex(12)}"


def _database(text: str) -> int:
    if text and not (
        text.isascii() and text.isdigit() and int(text.lstrip("0")[:9] or 0) <= MOST_DATABASES
    ):
        raise ValueError(f"url: the path is the number of a database, got {text!r}")
    return int(text or 0)
