"""A user's own way of connecting: an `Engine` of SQLAlchemy or a pool of psycopg instead of a URL,
or a function beside it.

A lock keeps its connection, so a pool gives it nothing but its way of connecting, and that is what
is used: holdfast opens connections of its own, and takes none out of the pool.

- A pool of psycopg: its `conninfo` and `kwargs`.
- An `Engine`, or an `AsyncEngine`, with any library: the arguments that it connects with, given to
  psycopg or PyMySQL.
- A function, called for each connection: it gives arguments, which go before those of the URL, or
  a connection of psycopg or PyMySQL.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from importlib import import_module
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

from holdfast.core.ports import Engine
from holdfast.engines import refuse_options
from holdfast.engines.sql.connection import BrokenError, RefusedError, SqlError
from holdfast.engines.sql.engine import OPTIONS, refuse_nul

Opening: TypeAlias = Callable[[dict[str, str]], Engine]


def of_clients(clients: list[Any], *, awaits: bool) -> tuple[str, Opening]:
    """The URL to show for a pool, and the engine behind it."""
    if len(clients) != 1:
        raise TypeError(f"url: a lock is kept in one database, got {len(clients)} pools")
    [pool] = clients
    if type(pool).__module__.startswith("psycopg_pool"):
        return _of_psycopg_pool(pool, awaits=awaits)
    return _of_sqlalchemy(pool, awaits=awaits)


def of_function(url: SplitResult, options: dict[str, str], connect: Callable[[], Any]) -> Engine:
    """The engine of a URL whose connections are made by `connect`, or with what it gives."""
    if not callable(connect) or iscoroutinefunction(connect):
        raise TypeError(f"connect: must be a plain function without arguments, got {connect!r}")
    dialect = _dialect(url.scheme)
    defaults = dialect.arguments(url, options)

    def given() -> Any:
        found = connect()
        if isinstance(found, Mapping):
            return {**defaults, **found}
        if isinstance(found, dialect.LIBRARY.Connection):
            return found
        if iscoroutine(found):
            found.close()  # else it complains that it was never awaited
        raise RefusedError(
            f"connect: must give a connection of {dialect.LIBRARY.__name__}, or a dict of "
            f"arguments for one, got a {type(found).__module__}.{type(found).__qualname__}",
            is_final=True,
        )

    return _engine(url, options, given)


def check_engine(engine: Any, *, awaits: bool, argument: str = "engine") -> Any:
    """The same, if it is an `Engine` of SQLAlchemy, or an `AsyncEngine`; else a `TypeError`."""
    if awaits:  # which needs greenlet
        from sqlalchemy.ext.asyncio import AsyncEngine

        _check_kind(engine, AsyncEngine, argument)
    else:
        from sqlalchemy import Engine

        _check_kind(engine, Engine, argument)
    return engine


def _of_psycopg_pool(pool: Any, *, awaits: bool) -> tuple[str, Opening]:
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

    _check_kind(pool, AsyncConnectionPool if awaits else ConnectionPool)
    given = (pool.conninfo, pool.kwargs)
    refusal = (
        "the pool finds out by a coroutine how to connect; give a URL, and a plain function as "
        "connect="
    )
    if any(map(iscoroutinefunction, given)):
        raise TypeError(f"url: {refusal}")

    def arguments() -> dict[str, Any]:
        found: list[Any] = [each() if callable(each) else each for each in given]
        coroutines = [each for each in found if iscoroutine(each)]
        for each in coroutines:
            each.close()  # else it complains that it was never awaited
        if coroutines:
            raise RefusedError(refusal, is_final=True)
        conninfo, kwargs = found
        refuse_nul("conninfo", conninfo)
        return conninfo_to_dict(conninfo or "") | (kwargs or {})

    shown = arguments() if not any(map(callable, given)) else {}
    return _opening("postgresql", shown, arguments)


def _of_sqlalchemy(engine: Any, *, awaits: bool) -> tuple[str, Opening]:
    check_engine(engine, awaits=awaits, argument="url")
    scheme, url = engine.dialect.name, engine.url
    if scheme not in ("postgresql", "mysql", "mariadb"):
        raise ValueError(f"url: must lead to PostgreSQL, MariaDB or MySQL, got one to {scheme}")
    shown = {"user": url.username, "host": url.host, "port": url.port, "dbname": url.database}
    own = engine.sync_engine if awaits else engine
    return _opening(scheme, shown, lambda: _arguments_of(own))


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
        "the Engine has a creator, or a listener that connects; give a URL, and that function as "
        "connect=",
        is_final=True,
    )


def _opening(
    scheme: str, shown: Mapping[str, Any], arguments: Callable[[], dict[str, Any]]
) -> tuple[str, Opening]:
    """The URL to show, without a password, and the engine behind it."""
    user, host, port, name = (
        quote(str(shown.get(part) or ""), safe=":,") for part in ("user", "host", "port", "dbname")
    )
    login = f"{user}@" if user else ""
    url = f"{scheme}://{login}{host}{':' if port else ''}{port}/{name}"

    def opening(options: dict[str, str]) -> Engine:
        refuse_options([name for name in options if name not in OPTIONS], *OPTIONS)
        return _engine(urlsplit(url), options, arguments)

    return url, opening


def _engine(url: SplitResult, options: dict[str, str], given: Callable[[], Any]) -> Engine:
    """The engine that connects with what `given` gives: a connection, or arguments for one."""
    make_engine = _dialect(url.scheme).make_engine
    engine: Engine = make_engine(url, options, lambda seconds: _within(seconds, given))
    return engine


def _dialect(scheme: str) -> Any:
    """The module of a dialect, which needs its library."""
    name = "mysql" if scheme in ("mysql", "mariadb") else "postgres"
    return import_module(f"holdfast.engines.sql.{name}")


def _within(seconds: float, given: Callable[[], Any]) -> Any:
    """What a user's function gives within that many seconds. It may take longer, so it runs in a
    thread; a connection that comes too late is closed."""
    outcome: Future[Any] = Future()

    def run() -> None:
        found: Any
        try:
            found = given()
        except Exception as error:  # noqa: BLE001 - raised below
            found = error
        if outcome.set_running_or_notify_cancel():
            outcome.set_result(found)
        elif hasattr(found, "close"):
            found.close()

    try:
        threading.Thread(target=run, name="holdfast-connecting", daemon=True).start()
        wait([outcome], max(0.0, seconds))
    except RuntimeError as error:  # no thread can be started
        raise BrokenError(str(error)) from error
    finally:
        is_late = outcome.cancel()
    if is_late:
        raise BrokenError(f"the user's own way of connecting took longer than {seconds:.3g} s")
    found = outcome.result()
    if isinstance(found, SqlError):
        raise found
    if isinstance(found, Exception):
        lines = str(found).strip().splitlines()
        raise BrokenError(lines[0] if lines else type(found).__name__)
    return found


def _check_kind(pool: Any, wanted: type, argument: str = "url") -> None:
    if not isinstance(pool, wanted):
        kind = type(pool)
        raise TypeError(
            f"{argument}: this client needs a {wanted.__module__}.{wanted.__qualname__}, "
            f"got a {kind.__module__}.{kind.__qualname__}"
        )
