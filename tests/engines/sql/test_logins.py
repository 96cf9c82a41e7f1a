"""A wrong password, or a missing right: waiting does not help, and the engine says so."""

from collections.abc import Iterator
from math import inf

import pytest

from holdfast.core.messages import Acquire, Failed, Granted
from tests.engines.sql.databases import Database
from tests.engines.sql.test_waiters import Asker
from tests.equipment.servers.postgres import PostgresServer

pytestmark = pytest.mark.slow


def refusal(url: str) -> str:
    """What is said of it."""
    ask = Asker(url)
    answer = ask(Acquire("job", "ann", 60.0))
    ask.close()
    assert isinstance(answer, Failed)
    assert answer.heals_in == inf, "it would be tried again"
    return str(answer)


@pytest.fixture
def with_passwords(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """The server, and a role `guest` that needs a password."""
    hba = postgres.data / "pg_hba.conf"
    usual = hba.read_text()
    postgres.query("DROP ROLE IF EXISTS guest")
    postgres.query("CREATE ROLE guest LOGIN PASSWORD 'right'")
    hba.write_text(f"host all guest all scram-sha-256\n{usual}")
    postgres.query("SELECT pg_reload_conf()")
    yield postgres
    hba.write_text(usual)
    postgres.query("SELECT pg_reload_conf()")


def test_postgresql(with_passwords: PostgresServer) -> None:
    address = f"{with_passwords.address}/postgres"
    assert "password" in refusal(f"postgresql://guest:wrong@{address}")
    assert "password" in refusal(f"postgresql://guest@{address}")
    assert "does not exist" in refusal(f"postgresql://nobody@{address}")
    assert "permission denied" in refusal(f"postgresql://guest:right@{address}")


def test_a_server_that_is_full_is_not_final(with_passwords: PostgresServer) -> None:
    """It says so only after the password."""
    settings = {"max_connections": "3", "superuser_reserved_connections": "2"}
    usual, with_passwords.settings = with_passwords.settings, with_passwords.settings | settings
    try:
        with_passwords.restart()
        with_passwords.query("GRANT CREATE ON SCHEMA public TO guest")
        url = f"postgresql://guest:right@{with_passwords.address}/postgres"
        ann, ben = Asker(url), Asker(url)
        assert isinstance(ann(Acquire("job", "ann", 60.0)), Granted)
        answer = ben(Acquire("job", "ben", 60.0))
        assert isinstance(answer, Failed)
        assert "reserved" in str(answer)
        assert answer.heals_in is None
        ann.close()
        ben.close()
    finally:
        with_passwords.settings = usual
        with_passwords.restart()
        with_passwords.query("DROP OWNED BY guest")


@pytest.mark.parametrize("kind", ["mariadb"])
def test_mariadb(database: Database) -> None:
    address = database.url.rpartition("@")[2]
    database.query("CREATE OR REPLACE USER guest@'127.0.0.1' IDENTIFIED BY 'right'")
    assert "login was refused" in refusal(f"mariadb://guest:wrong@{address}")
    assert "may not use" in refusal(f"mariadb://guest:right@{address}")
    database.query("GRANT SELECT ON holdfast.* TO guest@'127.0.0.1'")
    assert "lacks a right" in refusal(f"mariadb://guest:right@{address}")
