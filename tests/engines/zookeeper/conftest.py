"""Real servers, started once for all these tests, and made whole for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.equipment.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

HERE = Path(__file__).parent
SERVERS = {"server", "secure_server", "ensemble", "parted"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts these servers is left out of the quick tests."""
    for item in items:
        if SERVERS.intersection(getattr(item, "fixturenames", ())) and item.path.is_relative_to(
            HERE
        ):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def _server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="package")
def _ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble() as ensemble:
        yield ensemble


@pytest.fixture
def server(_server: ZooKeeperServer) -> ZooKeeperServer:
    _server.start()
    _server.thaw()
    return _server


@pytest.fixture(scope="package")
def _parted() -> Iterator[ZooKeeperEnsemble]:
    """Members that can be cut off, and that take their time to notice it."""
    with ZooKeeperEnsemble(partable=True, settings={"syncLimit": "1000"}) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble(_ensemble: ZooKeeperEnsemble) -> ZooKeeperEnsemble:
    for member in _ensemble.servers:
        if member.alive:
            member.thaw()
    _ensemble.start()
    make_whole(_ensemble)
    return _ensemble


@pytest.fixture
def parted(_parted: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    make_whole(_parted)
    yield _parted
    _parted.heal()


def make_whole(ensemble: ZooKeeperEnsemble) -> None:
    """Wait until there is one leader, and everybody follows."""
    ensemble.leader()
    ensemble.wait_until(lambda: all(each.answers() for each in ensemble.servers), "whole")
