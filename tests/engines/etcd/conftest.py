"""Servers for these tests: one of each line, started once for each test process."""

from collections.abc import Iterator

import pytest

from holdfast.lab.servers.programs import find_etcd, find_etcd_wheel
from tests.equipment.servers.etcd import EtcdServer

LINES = {"3.4": find_etcd, "3.5": find_etcd_wheel}


@pytest.fixture(scope="session", params=LINES)
def running(request: pytest.FixtureRequest) -> Iterator[EtcdServer]:
    with EtcdServer(program=LINES[request.param]()) as server:
        yield server


@pytest.fixture
def server(running: EtcdServer) -> EtcdServer:
    """An empty server."""
    if not running.alive:
        running.start()
    running.clear()
    return running
