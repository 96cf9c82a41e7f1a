"""Backends on real etcd servers, which are emptied for each test."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import grpc

from tests.equipment.servers.etcd import EtcdServer, find_etcd, find_etcd_wheel

from .server import ServerBackend, started


class EtcdBackend(ServerBackend):
    server: EtcdServer

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

    def residue(self) -> list[str]:
        keys = map(repr, self.server.keys())
        return sorted([*keys, f"{len(self.server.leases())} leases"])


def debian_backend(folder: Path) -> EtcdBackend:
    return EtcdBackend(_server(find_etcd()))


def wheel_backend(folder: Path) -> EtcdBackend:
    return EtcdBackend(_server(find_etcd_wheel()))


@cache
def _server(program: str) -> EtcdServer:
    return started(EtcdServer(program=program))


@cache
def _keep_grpc_running() -> list[object]:
    """gRPC has threads and files of its own from its first channel to its last. They are not the
    client's: one channel is kept, so that they are there from the beginning."""
    return [grpc.insecure_channel("127.0.0.1:1")]
