"""A user's own way of connecting: an `Engine` of SQLAlchemy or a pool of psycopg instead of a URL,
or a function beside it. All give the arguments that psycopg or PyMySQL connects with.

A lock keeps its connection, so holdfast opens connections of its own, and takes none out of the
pool.
"""

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

from holdfast.core.ports import Engine
from holdfast.engines import refuse_options
from holdfast.engines.sql.connection import BrokenError, RefusedError, SqlError
from holdfast.engines.sql.engine import OPTIONS, Given

Opening: TypeAlias = Callable[[dict[str, str]], Engine]


def of_function(url: SplitResult, options: dict[str, str], connect: Callable[[], Any]) -> Engine:
    """The engine of a URL; what `connect` gives goes before the URL's own arguments."""
    if not callable(connect) or iscoroutinefunction(connect):
        raise TypeError(f"connect: must be a plain function without arguments, got {connect!r}")
    dialect = _dialect(url.scheme)
    defaults = dialect.arguments(url, options)

    def given() -> dict[str, Any]:
        found = connect()
        if not isinstance(found, Mapping):
            kind = type(found)
            raise RefusedError(
                "connect: must give a dict of arguments to connect with, got a "
                f"{kind.__module__}.{kind.__qualname__}",
                is_final=True,
            )
        return {**defaults, **found}

    return _engine(url, options, given)


def of_clients(clients: list[Any], *, awaits: bool) -> tuple[str, Opening]:
    """The URL to show for an engine of SQLAlchemy, or a pool of psycopg, and ours behind it. They
    may be for threads or for asyncio: nothing but their arguments is used."""
    if len(clients) != 1:
        raise TypeError(f"url: a lock is kept in one database, got {len(clients)}")
    [own] = clients
    if hasattr(own, "conninfo"):
        return _of_psycopg_pool(own)
    return _of_sqlalchemy(getattr(own, "sync_engine", own))


def _of_psycopg_pool(pool: Any) -> tuple[str, Opening]:
    from psycopg.conninfo import conninfo_to_dict

    from holdfast.engines.sql.postgres import refuse_nul

    given = pool.conninfo, pool.kwargs
    if any(map(iscoroutinefunction, given)):
        raise TypeError(
            "url: the pool finds out by a coroutine how to connect; give a URL, and as connect= a "
            "plain function that gives the arguments"
        )

    def arguments() -> dict[str, Any]:
        found: list[Any] = [each() if callable(each) else each for each in given]
        conninfo, kwargs = found
        refuse_nul("conninfo", conninfo)
        return conninfo_to_dict(conninfo or "") | (kwargs or {})

    shown = {} if any(map(callable, given)) else arguments()
    return _opening("postgresql", shown, arguments)


def _of_sqlalchemy(engine: Any) -> tuple[str, Opening]:
    import sqlalchemy

    if not isinstance(engine, sqlalchemy.Engine):
        kind = type(engine)
        raise TypeError(
            "url: must be an Engine of SQLAlchemy or a pool of psycopg, got a "
            f"{kind.__module__}.{kind.__qualname__}"
        )
    scheme, url = engine.dialect.name, engine.url
    if scheme not in ("postgresql", "mysql", "mariadb"):
        raise ValueError(f"url: must lead to PostgreSQL, MariaDB or MySQL, got one to {scheme}")
    shown = {"user": url.username, "host": url.host, "port": url.port, "dbname": url.database}
    return _opening(scheme, shown, lambda: _arguments_of(engine))


def _opening(scheme: str, shown: Mapping[str, Any], arguments: Given) -> tuple[str, Opening]:
    """The URL to show, without a password, and the engine behind it."""
    user, host, port, database = (
        quote(str(shown.get(part) or ""), safe=":,") for part in ("user", "host", "port", "dbname")
    )
    login, colon = f"{user}@" if user else "", ":" if port else ""
    url = f"{scheme}://{login}{host}{colon}{port}/{database}"

    def opening(options: dict[str, str]) -> Engine:
        refuse_options([name for name in options if name not in OPTIONS], *OPTIONS)
        return _engine(urlsplit(url), options, arguments)

    return url, opening


class _EnoughError(Exception):
    """Ends the connecting of an engine."""


class _Connecting(threading.local):
    """What an engine's dialect connects by, in the place of its own method. A thread that asks for
    the arguments gets them noted, and connects nothing. (A listener of ours would not do: to add
    one while a thread of the user's goes through the listeners is an error there.)"""

    noted: dict[str, Any] | None = None

    def __init__(self, connect: Callable[..., Any]) -> None:
        self._connect = connect

    def __call__(self, *args: Any, **arguments: Any) -> Any:
        if self.noted is None:
            return self._connect(*args, **arguments)
        self.noted.update(arguments)
        raise _EnoughError


_replacing = threading.Lock()


def _arguments_of(engine: Any) -> dict[str, Any]:
    """What an engine calls its library with: the URL has neither `connect_args` nor what listeners
    to `do_connect` add."""
    from sqlalchemy import exc

    dialect = engine.dialect
    with _replacing:
        if not isinstance(dialect.connect, _Connecting):
            dialect.connect = _Connecting(dialect.connect)
    connecting = dialect.connect
    connecting.noted = found = dict[str, Any]()
    try:
        engine.pool.recreate().connect().invalidate()
    except _EnoughError:
        return found
    except exc.MissingGreenlet:
        pass  # what connects needs a loop
    finally:
        connecting.noted = None
    raise RefusedError(
        "the Engine has a creator, or a listener that connects; give a URL, and as connect= a "
        "function that gives the arguments",
        is_final=True,
    )


def _engine(url: SplitResult, options: dict[str, str], arguments: Given) -> Engine:
    """The engine that connects with what the user's own function, `Engine` or pool gives."""

    def given() -> dict[str, Any]:
        try:
            return arguments()
        except SqlError:
            raise
        except Exception as error:
            why = f"the user's own way of connecting failed: {type(error).__name__}: {error}"
            raise BrokenError(why) from error

    engine: Engine = _dialect(url.scheme).make_engine(url, options, given)
    return engine


def _dialect(scheme: str) -> Any:
    """The module of a dialect, which needs its library."""
    name = "mysql" if scheme in ("mysql", "mariadb") else "postgres"
    return import_module(f"holdfast.engines.sql.{name}")
