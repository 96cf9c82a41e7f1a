"""A user's own pool of connections for a URL: an `Engine` of SQLAlchemy, or a pool of psycopg.

Its connections are borrowed (`desk`) where we can speak on them: those of psycopg and PyMySQL, and
of asyncmy and aiomysql. Those of other libraries cannot be given up in time, and one of a pool that
gives the same to everybody is not ours alone: there we connect ourselves, to the same place
(`likeness`). The pool is never closed.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from holdfast.core.ports import Engine
from holdfast.engines.sql.pools.lenders import (
    AsyncPsycopgPool,
    AsyncSqlAlchemyPool,
    Lender,
    PsycopgPool,
    SqlAlchemyPool,
)
from holdfast.engines.sql.pools.likeness import address, connect_arguments, similar

Opening: TypeAlias = Callable[[dict[str, str]], Engine]

_HOMES = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}

_SPOKEN = {"psycopg", "pymysql", "asyncmy", "aiomysql"}
"""SQLAlchemy's names of the libraries on whose connections we can speak."""


def of_clients(clients: list[Any], *, awaits: bool) -> tuple[str, Opening]:
    """The URL to show for a pool, and the engine behind it."""
    if len(clients) != 1:
        raise TypeError(f"url: a lock is kept in one database, got {len(clients)} pools")
    [pool] = clients
    if type(pool).__module__.startswith("psycopg_pool"):
        return _of_psycopg_pool(pool, awaits=awaits)
    return _of_sqlalchemy(pool, awaits=awaits)


def check_engine(engine: Any, *, awaits: bool, argument: str = "engine") -> Any:
    """The same, if it is an `Engine` of SQLAlchemy, or an `AsyncEngine`; else a `TypeError`."""
    import sqlalchemy
    from sqlalchemy.ext.asyncio import AsyncEngine

    _check_kind(engine, AsyncEngine if awaits else sqlalchemy.Engine, argument)
    return engine


def _of_psycopg_pool(pool: Any, *, awaits: bool) -> tuple[str, Opening]:
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

    _check_kind(pool, AsyncConnectionPool if awaits else ConnectionPool)
    known: dict[str, Any] = {}
    for given in (pool.conninfo, pool.kwargs):
        if given and not callable(given):  # else the pool finds out by and by
            known |= conninfo_to_dict(given) if isinstance(given, str) else given
    lender = AsyncPsycopgPool(pool) if awaits else PsycopgPool(pool)
    return _borrowing(lender, address("postgresql", known))


def _of_sqlalchemy(engine: Any, *, awaits: bool) -> tuple[str, Opening]:
    from sqlalchemy.pool import AssertionPool, NullPool, QueuePool

    check_engine(engine, awaits=awaits, argument="url")
    scheme, driver = engine.dialect.name, engine.dialect.driver
    if scheme not in _HOMES:
        raise ValueError(f"url: must lead to PostgreSQL, MariaDB or MySQL, got one to {scheme}")
    gives_each_their_own = isinstance(engine.pool, (QueuePool, NullPool, AssertionPool))
    if driver not in _SPOKEN or not gives_each_their_own:
        return _connecting(scheme, connect_arguments(engine.sync_engine if awaits else engine))
    lender = AsyncSqlAlchemyPool(engine) if awaits else SqlAlchemyPool(engine)
    url = engine.url
    known = {"host": url.host, "port": url.port, "user": url.username, "dbname": url.database}
    return _borrowing(lender, address(scheme, known))


def _borrowing(lender: Lender, shown: str) -> tuple[str, Opening]:
    def opening(options: dict[str, str]) -> Engine:
        url = urlsplit(shown)
        engine: Engine = _home(url.scheme).lent_engine(lender, url, options)
        return engine

    return shown, opening


def _connecting(scheme: str, arguments: dict[str, Any]) -> tuple[str, Opening]:
    url, settings = similar(scheme, arguments)

    def opening(options: dict[str, str]) -> Engine:
        engine: Engine = _home(scheme).engine(url, settings | options)
        return engine

    return address(scheme, arguments), opening


def _home(scheme: str) -> Any:
    return import_module(f"holdfast.engines.sql.{_HOMES[scheme]}")


def _check_kind(pool: Any, wanted: type, argument: str = "url") -> None:
    if not isinstance(pool, wanted):
        kind = type(pool)
        raise TypeError(
            f"{argument}: this client needs a {wanted.__module__}.{wanted.__qualname__}, "
            f"got a {kind.__module__}.{kind.__qualname__}"
        )
