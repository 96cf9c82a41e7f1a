"""A user's own function that connects, or that knows what to connect with: `connect`."""

import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

import holdfast
from holdfast import Client, EngineUnavailable
from tests.engines.redis.party import Mode, Party
from tests.engines.sql.conftest import Invite
from tests.engines.sql.databases import Database
from tests.engines.sql.test_pools import engine_of, pool_of
from tests.engines.sql.users import sqlalchemy_url
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


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_pool_of_psycopg_whose_functions_are_called_for_each_connection(
    database: Database, kind: str, guest: str, invite: Invite, mode: Mode
) -> None:
    database.query(NEW_PASSWORD[kind].format("secret"))
    calls: list[str] = []

    def conninfo() -> str:
        calls.append("conninfo")
        return guest

    def arguments() -> dict[str, Any]:
        calls.append("kwargs")
        return {"password": "secret", "row_factory": psycopg.rows.dict_row}

    ann, ben = (invite(pool_of(mode, conninfo, arguments)) for _ in range(2))
    lease = ann.takes()
    assert sorted(set(calls)) == ["conninfo", "kwargs"]
    calls.clear()
    waiting = ben.begin(ben.client.lock("job").acquire, timeout=20)
    ann(lease.release)
    later = waiting.result(20)
    assert later.fence > lease.fence
    ben(later.release)
    assert sorted(set(calls)) == ["conninfo", "kwargs"]


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_pool_of_psycopg_without_functions(
    database: Database, kind: str, invite: Invite, mode: Mode
) -> None:
    own = pool_of(mode, database.url, {"application_name": "shop", "autocommit": True})
    assert invite(own).takes()
    found = database.query("SELECT 1 FROM pg_stat_activity WHERE application_name = 'shop'")
    assert found


async def coroutine() -> None:
    """Not a function that gives arguments."""


@BOTH
def test_what_it_gives_are_no_arguments(database: Database, kind: str, invite: Invite) -> None:
    for wrong in (lambda: None, lambda: 7, lambda: database):
        ann = invite(database.url, connect=wrong)
        with pytest.raises(EngineUnavailable, match="connect: must give a dict of arguments"):
            ann.takes(timeout=600)  # told at once, since waiting does not heal it


@BOTH
def test_what_it_raises_is_told(database: Database, kind: str, invite: Invite) -> None:
    def connect() -> Any:
        raise LookupError("no token today")

    ann = invite(database.url, connect=connect)
    with pytest.raises(EngineUnavailable, match="no token today"):
        ann.tries()


@pytest.mark.parametrize(
    ("scheme", "arguments"),
    [
        ("mariadb", {"host": "a" * 70}),
        ("mariadb", {"host": 5}),
        ("mariadb", {"port": "3306"}),
        ("mariadb", {"ssl": True}),
        ("postgresql", {"password": "hush\ud800"}),
        ("postgresql", {5: "x"}),
    ],
)
def test_arguments_that_cannot_be_used(
    scheme: str, arguments: dict[Any, Any], invite: Invite, caplog: pytest.LogCaptureFixture
) -> None:
    ann = invite(f"{scheme}://127.0.0.1:1/db", connect=lambda: arguments)
    with pytest.raises(EngineUnavailable, match="these arguments cannot be connected with: "):
        ann.takes(timeout=600)  # told at once, since waiting does not heal it
    assert "raised" not in caplog.text, "nor did the renewer meet anything else"
    assert "hush" not in caplog.text


@BOTH
def test_an_engine_whose_listener_adds_a_token(
    database: Database, kind: str, guest: str, invite: Invite, mode: Mode
) -> None:
    database.query(NEW_PASSWORD[kind].format("secret"))
    own = engine_of(mode, guest)
    sync_engine = own if mode == "sync" else own.sync_engine

    @event.listens_for(sync_engine, "do_connect")
    def add_token(dialect: Any, record: Any, args: Any, arguments: dict[str, Any]) -> None:
        arguments["password"] = "secret"

    ann = invite(own)
    assert ann.takes()


@BOTH
def test_an_engine_of_the_other_mode(
    database: Database, kind: str, invite: Invite, mode: Mode
) -> None:
    own = engine_of("async" if mode == "sync" else "sync", database.url)
    assert invite(own).takes()


@BOTH
def test_an_engine_that_connects_for_its_user_meanwhile(database: Database, kind: str) -> None:
    """Holdfast asks for the arguments while a thread of the user's is in one of the listeners."""
    own = engine_of("sync", database.url)
    begun, done = threading.Event(), threading.Event()

    @event.listens_for(own, "do_connect")
    def stay(dialect: Any, record: Any, args: Any, arguments: dict[str, Any]) -> None:
        if not begun.is_set():
            begun.set()
            done.wait(60)

    with ThreadPoolExecutor(1) as pool, Client(own) as client:
        connecting = pool.submit(own.connect)
        begun.wait(60)
        lease = client.lock("job").acquire(timeout=10)
        done.set()
        connecting.result(60).close()
        assert lease
    own.dispose()


def test_an_engine_with_a_creator(postgres: PostgresServer) -> None:
    url = sqlalchemy_url(postgres.url, "sync")
    own = sqlalchemy.create_engine(url, creator=lambda: psycopg.connect(postgres.url))
    with Client(own) as client, pytest.raises(EngineUnavailable, match="has a creator"):
        client.lock("job").acquire(timeout=600)


def test_an_engine_of_asyncio_with_a_creator() -> None:
    def connect() -> Any:
        return object()  # a coroutine would be left behind, never awaited, by SQLAlchemy

    own: Any = create_async_engine("postgresql+asyncpg://h/db", async_creator=connect)
    ann = Party("async", own)
    with pytest.raises(EngineUnavailable, match="has a creator"):
        ann.takes(timeout=600)
    ann.close()


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("postgresql+asyncpg://h/db", {"ssl": ssl.create_default_context()}),
        ("postgresql+asyncpg://h/db", {"ssl": True}),
        ("postgresql+asyncpg://h/db", {"ssl": False}),
        ("mysql+asyncmy://h/db", {"ssl_mode": "REQUIRED"}),
    ],
)
def test_tls_that_only_another_library_knows(url: str, arguments: dict[str, Any]) -> None:
    """It must not be left out."""
    own: Any = create_async_engine(url, connect_args=arguments)
    ann = Party("async", own)
    refusal = rf"cannot take the argument {next(iter(arguments))} .*; give a URL"
    with pytest.raises(EngineUnavailable, match=refusal):
        ann.takes(timeout=600)
    ann.close()


@pytest.mark.parametrize("kind", ["postgres"])
def test_tls_that_libpq_knows_need_not_be_texts(
    database: Database, invite: Invite, tmp_path: Path
) -> None:
    arguments = {"sslmode": "prefer", "sslrootcert": tmp_path / "ca.pem", "sslcompression": 0}
    assert invite(database.url, connect=lambda: arguments).takes()
    ben = invite(database.url, connect=lambda: arguments | {"sslmode": "require"})
    assert "does not support SSL" in str(ben.refused())


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
