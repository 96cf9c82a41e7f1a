"""Backends on real etcd servers. They are started once for each test process, and emptied for each
test."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import grpc
import grpc.aio

from tests.contract import Backend
from tests.equipment.servers.etcd import EtcdServer, find_etcd, find_etcd_wheel


class EtcdBackend(Backend):
    """One server. It keeps what it is told on the disk, so a restart is no loss."""

    def __init__(self, server: EtcdServer) -> None:
        self.server = server
        self.url = server.url
        if not server.alive:
            server.start()
        server.clear()
        self._calls = server.calls()
        _keep_grpc_running()

    def untouched(self) -> bool:
        return self.server.calls() == self._calls

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.server.freeze()
        try:
            yield
        finally:
            self.server.thaw()

    def restart(self) -> None:
        self.server.restart()

    def residue(self) -> list[str]:
        keys = map(repr, self.server.keys())
        return sorted([*keys, f"{len(self.server.leases())} leases"])


def debian_backend(folder: Path) -> EtcdBackend:
    return EtcdBackend(_server(find_etcd()))


def wheel_backend(folder: Path) -> EtcdBackend:
    return EtcdBackend(_server(find_etcd_wheel()))


@cache
def _server(program: str) -> EtcdServer:
    server = EtcdServer(program=program).start()
    atexit.register(server.close)
    return server


@cache
def _keep_grpc_running() -> list[object]:
    """gRPC has threads and files of its own from its first channel to its last. They are not the
    client's: one channel of each mode is kept, so that they are there from the beginning."""

    async def channel() -> object:
        return grpc.aio.insecure_channel("127.0.0.1:1")

    return [grpc.insecure_channel("127.0.0.1:1"), asyncio.run(channel())]
