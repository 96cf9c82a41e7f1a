"""Real servers, started once for a test process, and made whole and emptied for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.lab.servers.pgbouncer import PgBouncer
from holdfast.lab.servers.postgres import PostgresServer
from tests.engines.redis.party import Party

Invite = Callable[..., Party]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts these servers is left out of the quick tests."""
    for item in items:
        if item.path.is_relative_to(HERE) and "_postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="session")
def _postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(_postgres: PostgresServer) -> PostgresServer:
    _postgres.start()
    _postgres.thaw()
    _postgres.query("DROP TABLE IF EXISTS holdfast_leases, holdfast_cells")
    return _postgres


@pytest.fixture
def pgbouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(postgres) as pooler:
        yield pooler


@pytest.fixture
def invite(colour: Any) -> Iterator[Invite]:
    """Makes parties of one colour, and closes them at the end."""
    parties: list[Party] = []

    def make(url: str, **options: Any) -> Party:
        party = Party(colour, url, **options)
        parties.append(party)
        return party

    yield make
    for party in parties:
        party.close()
