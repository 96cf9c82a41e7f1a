"""A real server, started once for a test process, and made whole and emptied for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.sql.conftest import TABLES
from tests.equipment.servers.mariadb import MariaDbServer

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts a server is left out of the quick tests."""
    for item in items:
        if item.path.is_relative_to(HERE) and "_mariadb" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def _mariadb() -> Iterator[MariaDbServer]:
    with MariaDbServer() as server:
        yield server


@pytest.fixture
def mariadb(_mariadb: MariaDbServer) -> MariaDbServer:
    _mariadb.start()
    _mariadb.thaw()
    _mariadb.query("SET GLOBAL read_only = OFF")
    _mariadb.query(f"DROP TABLE IF EXISTS {TABLES}")
    return _mariadb
