"""An engine of SQLAlchemy, or a pool of psycopg, instead of a URL: what is taken for one, and shown
of it."""

from typing import Any

import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import create_async_engine

import holdfast
from tests.engines.redis.party import Mode
from tests.engines.sql.users import sqlalchemy_url

SECRET = "hush:h@sh"


def engine_of(mode: Mode, url: str, **options: Any) -> Any:
    make = sqlalchemy.create_engine if mode == "sync" else create_async_engine
    return make(sqlalchemy_url(url, mode), **options)


def pool_of(mode: Mode, conninfo: Any, kwargs: Any = None) -> Any:
    kind = psycopg_pool.ConnectionPool if mode == "sync" else psycopg_pool.AsyncConnectionPool
    return kind(conninfo, kwargs=kwargs, open=False)


def client_of(mode: Mode) -> Any:
    return holdfast.Client if mode == "sync" else holdfast.AsyncClient


def test_an_engine_by_name(mode: Mode) -> None:
    own = engine_of(mode, "postgresql://ann@db.example/shop")
    client = client_of(mode).from_sqlalchemy(own, ttl=7)
    assert client.url == "postgresql://ann@db.example/shop"
    assert client.lock("job").ttl == 7
    assert type(client) is client_of(mode)


def test_nothing_but_an_engine_by_name(mode: Mode) -> None:
    """Neither None, which would be the default file of this host, nor a URL."""
    missing: Any = None
    for thing in (missing, "postgresql://h/db"):
        with pytest.raises(TypeError, match=rf"^engine: .* got a {type(thing).__name__}$"):
            client_of(mode).from_sqlalchemy(thing)


def test_a_password_is_taken_over_and_not_shown(mode: Mode) -> None:
    arguments = {"password": SECRET, "sslmode": "require"}
    own = engine_of(mode, "postgresql://ann@db.example/shop", connect_args=arguments)
    client = client_of(mode)(own)
    assert client.url == "postgresql://ann@db.example/shop"
    assert SECRET not in repr(client)


def test_where_a_pool_of_psycopg_leads(mode: Mode) -> None:
    own = pool_of(mode, f"host=db.example password={SECRET}", {"dbname": "shop", "user": "ann"})
    client = client_of(mode)(own)
    assert client.url == "postgresql://ann@db.example/shop"
    assert SECRET not in repr(client)
    late = pool_of(mode, lambda: "host=h")
    assert client_of(mode)(late).url == "postgresql:///", "it is not asked before it is needed"


def test_a_pool_whose_conninfo_has_a_nul(mode: Mode) -> None:
    """libpq would not see what follows."""
    own = pool_of(mode, "host=db.invalid dbname=shop\0 sslmode=require")
    with pytest.raises(ValueError, match=r"^conninfo: must not contain NUL characters$"):
        client_of(mode)(own)


@pytest.mark.parametrize("argument", ["conninfo", "kwargs"])
def test_a_pool_that_finds_out_by_a_coroutine(argument: str) -> None:
    async def find() -> Any: ...

    given: dict[str, Any] = {argument: find}
    own = psycopg_pool.AsyncConnectionPool(open=False, **given)
    with pytest.raises(TypeError, match=r"^url: .*coroutine.*connect="):
        holdfast.AsyncClient(own)


def test_options_of_the_engine_can_be_given_too(mode: Mode) -> None:
    own = engine_of(mode, "postgresql://h/db")
    with pytest.raises(ValueError, match=r"^table: "):
        client_of(mode)(own, table="no name")
    with pytest.raises(ValueError, match=r"^connections: "):
        client_of(mode)(own, connections=0)
    with pytest.raises(ValueError, match=r"^sslmode: "):
        client_of(mode)(own, sslmode="require")


def test_one_of_the_other_mode_will_do(mode: Mode) -> None:
    """Nothing is taken but the arguments to connect with."""
    other: Mode = "async" if mode == "sync" else "sync"
    for own in (engine_of(other, "postgresql://h/db"), pool_of(other, "host=h dbname=db")):
        assert client_of(mode)(own).url == "postgresql://h/db"


def test_what_is_no_engine_is_refused(mode: Mode) -> None:
    session: Any = orm.Session()
    with pytest.raises(TypeError, match=r"^url: must be an Engine .* got a sqlalchemy.*Session$"):
        client_of(mode)(session)


def test_an_engine_to_what_we_keep_no_locks_in(mode: Mode) -> None:
    with pytest.raises(ValueError, match=r"^url: .*sqlite"):
        client_of(mode)(engine_of(mode, "sqlite:///x.db"))
