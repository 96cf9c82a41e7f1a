"""Backends on a real ZooKeeper server, which is emptied for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

from .server import ServerBackend, started

ROOT = "/holdfast"


class ZooKeeperBackend(ServerBackend):
    """One server, without anything of ours on it."""

    server: ZooKeeperServer

    def __init__(self, server: ZooKeeperServer) -> None:
        self.server, self.url = server, server.url
        with self._client() as client:
            client.delete(ROOT, recursive=True)
        wait_for(lambda: not self._sessions())  # the server notices somewhat later

    def untouched(self) -> bool:
        return not self._sessions() and not self._nodes()

    def residue(self) -> list[str]:
        # The server removes empty queues by itself, and at last what they were in.
        wait_for(lambda: f"{ROOT}/locks" not in self._nodes())
        return self._nodes()

    def _sessions(self) -> int:
        # The connection that asks is among those that it counts.
        found = re.search(r"^Connections: (\d+)$", self.server.command("srvr"), re.MULTILINE)
        assert found is not None
        return int(found[1]) - 1

    def _nodes(self) -> list[str]:
        with self._client() as client:
            return sorted(_below(client, ROOT))

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        client = KazooClient(self.server.address, timeout=10)
        client.start()
        try:
            yield client
        finally:
            client.stop()
            client.close()


def _below(client: KazooClient, path: str) -> Iterator[str]:
    try:
        names = client.get_children(path)
    except NoNodeError:
        return
    for name in names:
        yield f"{path}/{name}"
        yield from _below(client, f"{path}/{name}")


def zookeeper_backend(folder: Path) -> ZooKeeperBackend:
    return ZooKeeperBackend(_server())


@cache
def _server() -> ZooKeeperServer:
    return started(ZooKeeperServer())
