"""A user's own pool of connections instead of a URL: what is taken for one, and shown of it."""

from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

import holdfast
from holdfast.lab.servers.postgres import PostgresServer
from tests.engines.redis.party import Colour, Party
from tests.engines.sql.users import sqlalchemy_url

SECRET = "hush:h@sh"


def engine_of(colour: Colour, url: str, **options: Any) -> Any:
    make = sqlalchemy.create_engine if colour == "sync" else create_async_engine
    return make(sqlalchemy_url(url, colour), **options)


def pool_of(colour: Colour, conninfo: str, **kwargs: Any) -> Any:
    kind = psycopg_pool.ConnectionPool if colour == "sync" else psycopg_pool.AsyncConnectionPool
    return kind(conninfo, kwargs=kwargs, open=False)


@pytest.mark.slow
def test_an_engine_with_a_schema_of_its_own(postgres: PostgresServer) -> None:
    postgres.query("CREATE SCHEMA IF NOT EXISTS apart")
    own = engine_of("sync", postgres.url, connect_args={"options": "-csearch_path=apart"})
    ann, ben = Party("sync", own, ttl=7), Party("sync", postgres.url)
    assert ann.client.url == postgres.url
    lease = ann.takes()
    assert lease.ttl == 7
    assert postgres.query("SELECT fence FROM apart.holdfast_leases") == [(lease.fence,)]
    assert ben.tries(), "which is in another schema"
    ann.close()
    ben.close()
    own.dispose()
    postgres.query("DROP SCHEMA apart CASCADE")


def client_of(colour: Colour) -> Any:
    return holdfast.Client if colour == "sync" else holdfast.AsyncClient


def test_an_engine_by_name(colour: Colour) -> None:
    own = engine_of(colour, "postgresql://ann@db.example/shop")
    client = client_of(colour).from_sqlalchemy(own, ttl=7)
    assert client.url == "postgresql://ann@db.example/shop"
    assert client.lock("job").ttl == 7
    assert type(client) is client_of(colour)


def test_nothing_but_an_engine_by_name(colour: Colour) -> None:
    other: Colour = "async" if colour == "sync" else "sync"
    url = "postgresql://h/db"
    for thing in (url, None, pool_of(colour, url), engine_of(other, url), [engine_of(colour, url)]):
        with pytest.raises(TypeError, match=rf"^engine: .* got a .*{type(thing).__name__}$"):
            client_of(colour).from_sqlalchemy(thing)


def test_a_password_is_taken_over_and_not_shown(colour: Colour) -> None:
    arguments = {"password": SECRET, "sslmode": "require"}
    own = engine_of(colour, "postgresql://ann@db.example/shop", connect_args=arguments)
    client = client_of(colour)(own)
    assert client.url == "postgresql://ann@db.example/shop"
    assert SECRET not in repr(client)


def test_where_a_pool_of_psycopg_leads(colour: Colour) -> None:
    own = pool_of(colour, f"host=db.example password={SECRET}", dbname="shop", user="ann")
    client = client_of(colour)(own)
    assert client.url == "postgresql://ann@db.example/shop"
    assert SECRET not in repr(client)
    late = psycopg_pool.ConnectionPool(lambda: "host=h", open=False)
    assert holdfast.Client(late).url == "postgresql:///", "it is not asked before it is needed"


def test_what_a_listener_of_the_user_s_adds(colour: Colour) -> None:
    own = engine_of(colour, "postgresql://ann@db.example/shop", poolclass=StaticPool)
    sync = own if colour == "sync" else own.sync_engine

    @event.listens_for(sync, "do_connect")
    def add(dialect: Any, record: Any, args: Any, arguments: dict[str, Any]) -> None:
        arguments["host"] = "other.example"

    assert client_of(colour)(own).url == "postgresql://ann@other.example/shop"


def test_options_of_the_engine_can_be_given_too(colour: Colour) -> None:
    own = engine_of(colour, "postgresql://h/db")
    with pytest.raises(ValueError, match=r"^table: "):
        client_of(colour)(own, table="no name")
    with pytest.raises(ValueError, match=r"^connections: "):
        client_of(colour)(own, connections=3)


def test_one_of_the_other_colour(colour: Colour) -> None:
    other: Colour = "async" if colour == "sync" else "sync"
    for own in (engine_of(other, "postgresql://h/db"), pool_of(other, "host=h")):
        with pytest.raises(TypeError, match=rf"^url: .* got a .*{type(own).__name__}"):
            client_of(colour)(own)


def test_an_engine_to_what_we_keep_no_locks_in(colour: Colour) -> None:
    with pytest.raises(ValueError, match=r"^url: .*sqlite"):
        client_of(colour)(engine_of(colour, "sqlite:///x.db"))


def test_what_cannot_be_taken_over() -> None:
    tls = {"ssl": {"ca": "x"}}
    assert holdfast.Client(engine_of("sync", "mariadb://h/db", connect_args=tls))
    with pytest.raises(ValueError, match=r"^url: ssl cannot be taken over"):
        holdfast.Client(engine_of("sync", "mariadb://h/db", connect_args=tls, poolclass=StaticPool))
    own = engine_of("sync", "postgresql://h/db")
    with pytest.raises(TypeError, match=r"^url: .* one database, got 2 pools"):
        holdfast.Client([own, own])


@pytest.mark.slow
def test_a_creator_of_connections_that_are_for_all(postgres: PostgresServer) -> None:
    own = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(postgres.url),
        poolclass=StaticPool,
    )
    with pytest.raises(ValueError, match=r"^url: .*creator"):
        holdfast.Client(own)
