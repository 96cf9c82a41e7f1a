"""A user's own function that connects, or that knows what to connect with: `connect`."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
from pymysql.constants import CLIENT

import holdfast
from holdfast import EngineUnavailable
from tests.engines.redis.party import Mode
from tests.engines.sql.conftest import Invite
from tests.engines.sql.databases import Database
from tests.equipment.servers.postgres import PostgresServer

BOTH = pytest.mark.parametrize("kind", ["postgres", "mariadb"])

NEW_PASSWORD = {
    "postgres": "ALTER ROLE guest PASSWORD '{}'",
    "mariadb": "ALTER USER guest@'127.0.0.1' IDENTIFIED BY '{}'",
}

SESSIONS = {
    "postgres": "SELECT pid FROM pg_stat_activity WHERE usename = 'guest'",
    "mariadb": "SELECT id FROM information_schema.processlist WHERE user = 'guest'",
}


@pytest.fixture
def guest(database: Database, kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a user who needs a password, which it does not tell."""
    if kind == "mariadb":
        database.query("CREATE OR REPLACE USER guest@'127.0.0.1'")
        database.query("GRANT ALL ON holdfast.* TO guest@'127.0.0.1'")
        yield f"mariadb://guest@{database.url.rpartition('@')[2]}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    hba = server.data / "pg_hba.conf"
    usual = hba.read_text()
    database.query("DROP ROLE IF EXISTS guest")
    database.query("CREATE ROLE guest LOGIN SUPERUSER")
    hba.write_text(f"host all guest all scram-sha-256\n{usual}")
    database.query("SELECT pg_reload_conf()")
    yield f"postgresql://guest@{server.address}/postgres"
    hba.write_text(usual)
    database.query("SELECT pg_reload_conf()")


@BOTH
def test_a_token_that_is_made_for_each_connection(
    database: Database, kind: str, guest: str, invite: Invite
) -> None:
    tokens: list[str] = []

    def connect() -> dict[str, str]:
        tokens.append(f"token {len(tokens)}")
        database.query(NEW_PASSWORD[kind].format(tokens[-1]))
        return {"password": tokens[-1]}

    ann = invite(guest, connect=connect, connections=1)
    ann(ann.takes().release)
    for (session,) in database.query(SESSIONS[kind]):
        database.kill_session(session)
    assert ann.takes("another")
    assert len(tokens) > 1
    assert "token" not in repr(ann.client)


def opened(database: Database) -> Any:
    url = urlsplit(database.url)
    if url.scheme == "postgresql":
        return psycopg.connect(database.url)
    return pymysql.connect(
        host=url.hostname,
        port=url.port or 0,
        user=url.username,
        database=url.path.strip("/"),
        client_flag=CLIENT.FOUND_ROWS,
    )


@BOTH
def test_connections_that_it_opens(database: Database, kind: str, invite: Invite) -> None:
    url = f"{urlsplit(database.url).scheme}://nowhere.invalid/db"
    ann, ben = (invite(url, connect=lambda: opened(database), table="own") for _ in range(2))
    lease = ann.takes()
    waiting = ben.begin(ben.client.lock("job").acquire, timeout=20)
    ann(lease.release)
    later = waiting.result(20)
    assert later.fence > lease.fence
    ben(later.release)
    assert database.query("SELECT COUNT(*) FROM own") == [(1,)]
    database.query("DROP TABLE own, own_waiters, own_version")


async def coroutine() -> None:
    """Not a function that gives a connection."""


@BOTH
def test_what_it_gives_is_no_connection(database: Database, kind: str, invite: Invite) -> None:
    for wrong in (lambda: None, lambda: 7, lambda: coroutine(), lambda: database):
        ann = invite(database.url, connect=wrong)
        with pytest.raises(EngineUnavailable, match="connect: must give a connection of "):
            ann.takes(timeout=600)  # told at once, since waiting does not heal it


@BOTH
def test_what_it_raises_is_told(database: Database, kind: str, invite: Invite) -> None:
    def connect() -> Any:
        raise LookupError("no token today")

    ann = invite(database.url, connect=connect)
    with pytest.raises(EngineUnavailable, match="no token today"):
        ann.tries()


@pytest.mark.parametrize(
    ("url", "connect", "error"),
    [
        ("postgresql://h/db", 7, TypeError),
        ("mariadb://h/db", "x", TypeError),
        ("postgresql://h/db", coroutine, TypeError),
        ("redis://h", dict, ValueError),
        ("sqlite:///x.db", dict, ValueError),
        (psycopg, dict, ValueError),
    ],
)
def test_what_cannot_be_is_refused_before_anything_happens(
    mode: Mode, url: Any, connect: Callable[[], Any], error: type[Exception]
) -> None:
    make: Any = holdfast.Client if mode == "sync" else holdfast.AsyncClient
    with pytest.raises(error, match=r"^connect: "):
        make(url, connect=connect)
