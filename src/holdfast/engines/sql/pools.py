"""A user's own pool of connections, as a description of where the database is and how to log in: an
`Engine` of SQLAlchemy, or a pool of psycopg.

They themselves are neither used nor closed: holdfast makes connections like theirs. A renewal must
not have to wait until somebody gives a connection back.
"""

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from holdfast.core.ports import Engine

Opening = Callable[[dict[str, str]], Engine]

_SAME = {"database": "dbname", "db": "dbname", "unix_socket": "socket"}
"""What libraries call differently."""

_PLACE = ("host", "port", "user", "password", "dbname")

_OF_PYTHON = frozenset(
    (
        "autocommit", "charset", "client_flag", "command_timeout", "connect_timeout", "context",
        "conv", "cursor_factory", "cursorclass", "prepare_threshold", "read_timeout", "row_factory",
        "use_unicode", "write_timeout",
    )
)  # fmt: skip
"""What is of no consequence to where a connection leads."""


def of_clients(clients: list[Any], *, awaits: bool) -> tuple[str, Opening]:
    """The URL to show for a pool, and the engine behind it."""
    if len(clients) != 1:
        raise TypeError(f"url: a lock is kept in one database, got {len(clients)} pools")
    [pool] = clients
    if type(pool).__module__.startswith("psycopg_pool"):
        return _opening("postgresql", _of_psycopg_pool(pool, awaits=awaits))
    return _opening(*_of_sqlalchemy(pool, awaits=awaits))


def check_engine(engine: Any, *, awaits: bool, argument: str = "engine") -> Any:
    """The same, if it is an `Engine` of SQLAlchemy, or an `AsyncEngine`; else a `TypeError`."""
    import sqlalchemy
    from sqlalchemy.ext.asyncio import AsyncEngine

    _check_kind(engine, AsyncEngine if awaits else sqlalchemy.Engine, argument)
    return engine


def _of_psycopg_pool(pool: Any, *, awaits: bool) -> dict[str, Any]:
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

    _check_kind(pool, AsyncConnectionPool if awaits else ConnectionPool)
    if callable(pool.conninfo) or callable(pool.kwargs):
        raise ValueError("url: the pool finds out only by and by where it leads to; give a URL")
    return conninfo_to_dict(pool.conninfo) | dict(pool.kwargs or {})


def _of_sqlalchemy(engine: Any, *, awaits: bool) -> tuple[str, dict[str, Any]]:
    check_engine(engine, awaits=awaits, argument="url")
    scheme = engine.dialect.name
    if scheme not in ("postgresql", "mysql", "mariadb"):
        raise ValueError(f"url: must lead to PostgreSQL, MariaDB or MySQL, got one to {scheme}")
    return scheme, dict(_arguments(engine.sync_engine if awaits else engine))


class _ArgumentsError(Exception):
    """Carries what a connection was to be made with."""


def _arguments(engine: Any) -> Mapping[str, Any]:
    """What an engine calls its library with, after all that its user has arranged: its URL does not
    tell `connect_args`. Nothing is connected, since we leave at the last moment."""
    from sqlalchemy import event

    me = threading.get_ident()

    def leave(dialect: Any, record: Any, args: Any, arguments: Mapping[str, Any]) -> None:
        if threading.get_ident() == me:  # others may be connecting
            raise _ArgumentsError(arguments)

    pool = engine.pool.recreate()
    event.listen(engine, "do_connect", leave)
    try:
        pool.connect().close()
    except _ArgumentsError as caught:
        arguments: Mapping[str, Any] = caught.args[0]
        return arguments
    finally:
        event.remove(engine, "do_connect", leave)
        pool.dispose()
    raise ValueError("url: the Engine's connections are made by a creator of yours; give a URL")


def _check_kind(pool: Any, wanted: type, argument: str = "url") -> None:
    if not isinstance(pool, wanted):
        kind = type(pool)
        raise TypeError(
            f"{argument}: this client needs a {wanted.__module__}.{wanted.__qualname__}, "
            f"got a {kind.__module__}.{kind.__qualname__}"
        )


def _opening(scheme: str, arguments: Mapping[str, Any]) -> tuple[str, Opening]:
    settings = {
        _SAME.get(name, name): str(value)
        for name, value in arguments.items()
        if value is not None and name not in _OF_PYTHON
    }
    for name, value in arguments.items():
        if _SAME.get(name, name) in settings and not isinstance(value, (str, int)):
            raise ValueError(f"url: {name} cannot be taken over from the pool; give a URL")
    place = {name: settings.pop(name, "") for name in _PLACE}
    login = quote(place["user"], safe="")
    host = quote(place["host"], safe=":,") + (f":{place['port']}" if place["port"] else "")
    path = f"/{quote(place['dbname'])}"
    shown = f"{scheme}://{login}{'@' if login else ''}{host}{path}"
    if place["password"]:
        login += f":{quote(place['password'], safe='')}"
    url = urlsplit(f"{scheme}://{login}{'@' if login else ''}{host}{path}")
    home = "postgres" if scheme == "postgresql" else "mysql"

    def opening(options: dict[str, str]) -> Engine:
        engine: Engine = import_module(f"holdfast.engines.sql.{home}").engine(
            url, settings | options
        )
        return engine

    return shown, opening
