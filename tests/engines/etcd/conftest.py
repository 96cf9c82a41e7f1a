"""A server for these tests, started once for each test process. The contract plays both lines."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import holdfast
from holdfast.drivers.common import clock
from holdfast.lab.servers.process import ServerFailed
from tests.equipment.servers.etcd import EtcdCluster, EtcdServer, find_etcd, find_etcd_wheel

from .unreliable import UnreliableStore, store_on

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


@pytest.fixture
def store(server: EtcdServer) -> Iterator[UnreliableStore]:
    with store_on(server) as store:
        yield store


BOUND = 60.0
"""Seconds in which elections are over, and leases and sessions of the dead have ended, also on a
machine that is very busy."""
A_LOOK = 0.05
"""Seconds between two looks: more of them would keep the members from their work."""


def in_the_end(condition: Callable[[], object]) -> None:
    """Wait until it holds. A member that cannot be asked, as in an election, has not come to it."""

    give_up_at = clock() + BOUND
    while clock() < give_up_at:
        with suppress(OSError, ServerFailed):
            if condition():
                return
        time.sleep(A_LOOK)
    pytest.fail("it did not happen")


def give_back(lease: holdfast.Lease) -> None:
    """Release it. A cluster may elect a leader at any moment, for a busy machine is enough: then
    that cannot be told, and the lease ends by itself."""
    with suppress(holdfast.EngineUnavailable):
        lease.release()


def make_whole(cluster: EtcdCluster) -> None:
    """All members run, and nothing is in them."""
    for server in cluster.servers:
        if server.alive:
            server.thaw()
    cluster.start()
    in_the_end(lambda: _is_empty(cluster))


def _is_empty(cluster: EtcdCluster) -> bool:
    server = cluster.leader()
    server.clear()
    return not server.keys() and not server.leases()
