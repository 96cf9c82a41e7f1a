"""Real servers, started once for a test process, and made whole and emptied for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.mysql import mariadb_backend
from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database, MariaDb, Postgres
from tests.engines.sql.users import REPEATABLE_READ, Transaction, Way
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.equipment.servers.postgres import PostgresServer

Invite = Callable[..., Party]

HERE = Path(__file__).parent

TABLES = (
    "holdfast_leases, holdfast_leases_waiters, holdfast_leases_members, holdfast_leases_version,"
    " holdfast_cells"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts these servers is left out of the quick tests."""
    for item in items:
        servers = {"_postgres", "database"}.intersection(getattr(item, "fixturenames", ()))
        if servers and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="session")
def _postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(_postgres: PostgresServer) -> PostgresServer:
    _postgres.start()
    _postgres.thaw()
    _postgres.query(f"DROP TABLE IF EXISTS {TABLES}")
    return _postgres


@pytest.fixture
def pgbouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(postgres) as pooler:
        yield pooler


@pytest.fixture
def invite(mode: Any) -> Iterator[Invite]:
    """Makes parties of one mode, and closes them at the end."""
    parties: list[Party] = []

    def make(url: str, **options: Any) -> Party:
        party = Party(mode, url, **options)
        parties.append(party)
        return party

    yield make
    for party in parties:
        party.close()


@pytest.fixture
def database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if kind == "postgres":
        return Postgres(request.getfixturevalue("postgres"))
    return MariaDb(mariadb_backend(tmp_path).server)


@pytest.fixture
def level() -> str:
    """The isolation level of the user's transaction, unless a test says which."""
    return REPEATABLE_READ


@pytest.fixture
def ann(database: Database, way: Way) -> Iterator[Party]:
    party = Party(way.mode, database.url)
    yield party
    party.close()


@pytest.fixture
def ben(database: Database) -> Iterator[Party]:
    party = Party("sync", database.url)
    yield party
    party.close()


@pytest.fixture
def transaction(database: Database, way: Way, ann: Party, level: str) -> Iterator[Transaction]:
    """Ann's."""
    opened = way.begin(ann, database.url, level)
    yield opened
    opened.close()
