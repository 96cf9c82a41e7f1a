"""Backends on real Redis servers, which are emptied for each test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from holdfast.engines.redis import nodes as redis_nodes
from tests.contract import Backend
from tests.equipment.servers.cluster import RedisCluster
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.redis import RedisServer, find_valkey
from tests.equipment.servers.sentinel import SentinelSet

from .server import started

FLEETING = 1000
"""What goes within so many milliseconds is not left behind."""
NEVER = -1
"""What Redis says of a key that does not go by itself."""


class RedisBackend(Backend):
    """Servers without persistence, so that they are quick. None of them remembers a restart by
    itself, so the orderly one saves before."""

    def __init__(self, url: str, servers: Sequence[RedisServer]) -> None:
        self.url = url
        self.servers = servers
        for server in servers:
            if not server.alive:
                server.start()
            server.command("FLUSHALL")
            server.command("CONFIG", "RESETSTAT")

    def untouched(self) -> bool:
        # Our own look, and nothing else, has connected since the beginning of the test.
        return all(
            server.info("stats")["total_connections_received"] == "1" for server in self.servers
        )

    @contextmanager
    def outage(self) -> Iterator[None]:
        for server in self.servers:
            server.freeze()
        try:
            yield
        finally:
            for server in self.servers:
                server.thaw()

    def restart(self) -> None:
        for server in self.servers:
            server.restart(keep_data=True)

    def residue(self) -> list[str]:
        found = []
        for number, server in enumerate(self.servers):
            found += [f"{number}: {key}" for key in lasting_keys(server)]
            found += [f"{number}: {server.info('clients')['connected_clients']} clients"]
        return sorted(found)


class RedlockBackend(RedisBackend):
    """Several masters. One that is slow is not waited for long, so that a silent one costs little;
    but on a busy machine all of them are slow, and that is no outage."""

    def __init__(self, url: str, servers: Sequence[RedisServer]) -> None:
        super().__init__(url, servers)
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(redis_nodes, "FIRST_CONTACT", 5.0)

    def close(self) -> None:
        self._patch.undo()


class ClusterBackend(RedisBackend):
    """A cluster whose nodes do not give each other up because a test has frozen them."""

    def __init__(self, cluster: RedisCluster) -> None:
        super().__init__(cluster.url, cluster.nodes)
        self.cluster = cluster

    def restart(self) -> None:
        super().restart()
        patient(self.cluster)
        self.cluster.settle()


class SentinelBackend(RedisBackend):
    """A master behind sentinels, which do not give it up because a test has frozen it."""

    def __init__(self, watched: SentinelSet) -> None:
        super().__init__(watched.url, [watched.master])
        self.watched = watched

    def restart(self) -> None:
        super().restart()
        self.watched.settle()

    def residue(self) -> list[str]:
        [master] = self.servers
        clients = str(master.command("CLIENT", "LIST", "TYPE", "NORMAL")).splitlines()
        ours = [client for client in clients if " name=sentinel-" not in client]
        return [f"{len(ours)} clients", *sorted(lasting_keys(master))]


def lasting_keys(server: RedisServer) -> list[str]:
    """All but those that are about to go by themselves, like that of whoever stands ready."""
    keys = server.command("KEYS", "*")
    assert isinstance(keys, list)
    left = {str(key): int(str(server.command("PTTL", str(key)))) for key in keys}
    return [key for key, ms in left.items() if ms == NEVER or ms > FLEETING]


def single_backend(folder: Path) -> RedisBackend:
    server = _single()
    return RedisBackend(server.url, [server])


def getset_backend(folder: Path) -> RedisBackend:
    server = _single()
    return RedisBackend(f"{server.url}?protocol=getset", [server])


def valkey_backend(folder: Path) -> RedisBackend:
    server = _valkey()
    return RedisBackend(server.url, [server])


def redlock_backend(folder: Path) -> RedlockBackend:
    # Young nodes would be in quarantine for a minute; the guard has tests of its own.
    masters = _masters()
    return RedlockBackend(f"{masters.url}?restart_guard=off&node_timeout=0.5", masters.servers)


def cluster_backend(folder: Path) -> ClusterBackend:
    return ClusterBackend(_cluster())


def sentinel_backend(folder: Path) -> SentinelBackend:
    return SentinelBackend(_watched())


def patient(cluster: RedisCluster) -> RedisCluster:
    for node in cluster.nodes:
        node.command("CONFIG", "SET", "cluster-node-timeout", 60_000)
    return cluster


@cache
def _single() -> RedisServer:
    return started(RedisServer())


@cache
def _valkey() -> RedisServer:
    return started(RedisServer(program=find_valkey()))


@cache
def _masters() -> RedisMasters:
    return started(RedisMasters(count=3))


@cache
def _cluster() -> RedisCluster:
    return patient(started(RedisCluster()))


@cache
def _watched() -> SentinelSet:
    return started(SentinelSet(down_after=60.0))
