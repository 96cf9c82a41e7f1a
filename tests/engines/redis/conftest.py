"""Real servers, started once for a test process, and made whole and emptied for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.party import Bare, Mode, Party
from tests.equipment.servers.masters import RedisMasters

Invite = Callable[..., Party]


HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts these servers is left out of the quick tests."""
    for item in items:
        servers = {"_server", "_three", "_five"}.intersection(getattr(item, "fixturenames", ()))
        if servers and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="session")
def _server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def _three() -> Iterator[RedisMasters]:
    with RedisMasters(count=3) as masters:
        yield masters


@pytest.fixture(scope="session")
def _five() -> Iterator[RedisMasters]:
    with RedisMasters(count=5) as masters:
        yield masters


def _whole(server: RedisServer) -> None:
    server.start()
    server.thaw()
    server.command("FLUSHALL")


@pytest.fixture
def server(_server: RedisServer) -> RedisServer:
    _whole(_server)
    return _server


def _all_whole(masters: RedisMasters) -> Iterator[RedisMasters]:
    for server in masters.servers:
        _whole(server)
    yield masters
    for server in masters.servers:
        if server.alive:
            server.thaw()


@pytest.fixture
def three(_three: RedisMasters) -> Iterator[RedisMasters]:
    yield from _all_whole(_three)


@pytest.fixture
def five(_five: RedisMasters) -> Iterator[RedisMasters]:
    yield from _all_whole(_five)


@pytest.fixture
def invite(mode: Mode) -> Iterator[Invite]:
    """Makes clients, and closes them."""
    parties: list[Party] = []

    def make(url: str, **options: Any) -> Party:
        parties.append(Party(mode, url, **options))
        return parties[-1]

    yield make
    for party in parties:
        party.close()


@pytest.fixture
def bare(server: RedisServer) -> Iterator[Bare]:
    connection = Bare(server)
    yield connection
    connection.close()
