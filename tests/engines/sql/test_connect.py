"""A user's own function that connects, or that knows what to connect with: `connect`."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
import sqlalchemy
from pymysql.constants import CLIENT
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

import holdfast
from holdfast import Client, EngineUnavailable
from tests.backends.mysql import mariadb_backend
from tests.engines.redis.party import Mode, Party
from tests.engines.sql.conftest import Invite
from tests.engines.sql.databases import Database, MariaDb
from tests.engines.sql.test_pools import engine_of
from tests.engines.sql.users import sqlalchemy_url
from tests.equipment.servers.postgres import PostgresServer
from tests.patience import wait_for

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


def opened(
    database: Database, client_flag: int = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
) -> Any:
    url = urlsplit(database.url)
    if url.scheme == "postgresql":
        return psycopg.connect(database.url)
    return pymysql.connect(
        host=url.hostname,
        port=url.port or 0,
        user=url.username,
        database=url.path.strip("/"),
        client_flag=client_flag,
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
def test_it_takes_too_long(database: Database, kind: str, invite: Invite) -> None:
    released = threading.Event()
    ann = invite(database.url, connect=lambda: released.wait(20))
    began = time.monotonic()
    with pytest.raises(EngineUnavailable, match=r"took longer|did not answer"):
        ann.takes(ttl=0.3, timeout=0)
    assert time.monotonic() < began + 5
    released.set()


def test_no_thread_can_be_started_for_it(invite: Invite, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "holdfast-connecting":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    ann = invite("postgresql://db.invalid/locks", connect=dict)
    assert "can't start new thread" in str(ann.refused())


@BOTH
def test_a_connection_that_comes_too_late_is_closed(
    database: Database, kind: str, invite: Invite
) -> None:
    calls: list[Any] = []
    late: list[Any] = []
    is_late = threading.Event()

    def connect() -> Any:
        calls.append(None)
        if len(calls) > 1:  # there is one connection at a time, so the first has been given up
            is_late.set()
            raise LookupError("once is enough")
        is_late.wait(60)
        late.append(opened(database))
        return late[0]

    def is_closed() -> bool:
        return bool(late) and (late[0].closed if kind == "postgres" else not late[0].open)

    ann = invite(database.url, connect=connect, connections=1)
    while not is_late.is_set():
        assert ann.refused(ttl=0.3)
    wait_for(is_closed)


def test_connections_of_pymysql_without_its_flags(tmp_path: Path, invite: Invite) -> None:
    database = MariaDb(mariadb_backend(tmp_path).server)
    ann = invite(database.url, connect=lambda: opened(database, client_flag=0))
    with pytest.raises(EngineUnavailable, match=r"make them with client_flag=CLIENT\.FOUND_ROWS"):
        ann.takes(timeout=600)


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


@BOTH
def test_an_engine_with_a_creator(database: Database, kind: str, invite: Invite) -> None:
    url = sqlalchemy_url(database.url, "sync")
    own = sqlalchemy.create_engine(url, creator=lambda: opened(database))
    with Client(own) as client, pytest.raises(EngineUnavailable, match="give a URL, and that"):
        client.lock("job").acquire(timeout=600)


def test_an_engine_of_asyncio_with_a_creator() -> None:
    def connect() -> Any:
        return object()  # a coroutine would be left behind, never awaited, by SQLAlchemy

    own: Any = create_async_engine("postgresql+asyncpg://h/db", async_creator=connect)
    ann = Party("async", own)
    with pytest.raises(EngineUnavailable, match="give a URL, and that"):
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
