"""A server for these tests, started once for each test process. The contract plays both lines."""

from collections.abc import Iterator

import pytest

from tests.equipment.servers.etcd import EtcdServer, find_etcd, find_etcd_wheel

LINES = {"3.4": find_etcd, "3.5": find_etcd_wheel}
LINES_BY_TURNS = [pytest.param("3.4", marks=pytest.mark.full), "3.5"]
"""For what is slow."""


@pytest.fixture(scope="session")
def running() -> Iterator[EtcdServer]:
    with EtcdServer(program=find_etcd_wheel()) as server:
        yield server


@pytest.fixture
def server(running: EtcdServer) -> EtcdServer:
    """An empty server."""
    if not running.alive:
        running.start()
    running.clear()
    return running
