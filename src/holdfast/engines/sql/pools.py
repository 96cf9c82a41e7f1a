"""A user's own way of connecting: an `Engine` of SQLAlchemy or a pool of psycopg instead of a URL,
or a function beside it.

A lock keeps its connection, so a pool gives it nothing but its way of connecting, and that is what
is used: holdfast opens connections of its own, and takes none out of the pool.

- A pool of psycopg: its `conninfo` and `kwargs`.
- An `Engine` with psycopg or PyMySQL: what a fresh pool of the engine makes, detached from it. So
  a `creator` and the engine's listeners are called, for example to add a token.
- Any other `Engine`, and every `AsyncEngine`: the arguments that it connects with, given to psycopg
  or PyMySQL.
- A function, called for each connection: it gives one of psycopg or PyMySQL, or arguments for one,
  which go before those of the URL.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from importlib import import_module
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

from holdfast.core.ports import Engine
from holdfast.engines import refuse_options
from holdfast.engines.sql.connection import BrokenError, RefusedError, SqlError
from holdfast.engines.sql.engine import OPTIONS

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
    arguments = dialect.arguments(url, options)
    return _engine(url, options, lambda: _called(connect, arguments, dialect.LIBRARY))


def _called(connect: Callable[[], Any], arguments: Mapping[str, Any], library: str) -> Any:
    """What a user's function gives now: a connection, or arguments for one."""
    found = connect()
    if isinstance(found, Mapping):
        return {**arguments, **found}
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(found).__mro__}
    if (library, "Connection") not in kinds:
        if iscoroutine(found):
            found.close()  # else it complains that it was never awaited
        raise RefusedError(
            f"connect: must give a connection of {library}, or a dict of arguments for one, "
            f"got a {type(found).__module__}.{type(found).__qualname__}",
            is_final=True,
        )
    return found


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

    def arguments() -> dict[str, Any]:
        conninfo, kwargs = (_now(given, awaits) for given in (pool.conninfo, pool.kwargs))
        return conninfo_to_dict(conninfo or "") | dict(kwargs or {})

    shown = arguments() if not callable(pool.conninfo) and not callable(pool.kwargs) else {}
    return _opening("postgresql", shown, arguments)


def _now(given: Any, awaits: bool) -> Any:
    """What a pool connects with may be a function, called for each connection."""
    if not callable(given):
        return given
    if awaits:
        raise RefusedError(
            "the pool finds out by a coroutine how to connect, which holdfast cannot run in a "
            "thread; give a URL, or a ConnectionPool with a plain function",
            is_final=True,
        )
    return given()


def _of_sqlalchemy(engine: Any, *, awaits: bool) -> tuple[str, Opening]:
    check_engine(engine, awaits=awaits, argument="url")
    scheme, url = engine.dialect.name, engine.url
    if scheme not in ("postgresql", "mysql", "mariadb"):
        raise ValueError(f"url: must lead to PostgreSQL, MariaDB or MySQL, got one to {scheme}")
    if not awaits and engine.dialect.driver == _dialect(scheme).LIBRARY:
        given = partial(_detached, engine)
    else:
        given = partial(_arguments, engine, awaits=awaits)
    shown = {"user": url.username, "host": url.host, "port": url.port, "dbname": url.database}
    return _opening(scheme, shown, given)


def _detached(engine: Any) -> Any:
    """A connection of the library's, made as the engine makes them, that no pool knows of."""
    pooled = engine.pool.recreate().connect()
    connection = pooled.driver_connection
    pooled.detach()
    return connection


class _ArgumentsError(Exception):
    """Carries what a connection was to be made with."""


def _arguments(engine: Any, *, awaits: bool) -> dict[str, Any]:
    """What an engine calls its library with, after all that its user has arranged: the URL does not
    have `connect_args`. Nothing is connected, since we leave at the last moment."""
    from sqlalchemy import event

    engine = engine.sync_engine if awaits else engine
    me = threading.get_ident()

    def leave(dialect: Any, record: Any, args: Any, arguments: Mapping[str, Any]) -> None:
        if threading.get_ident() == me:  # others may be connecting
            raise _ArgumentsError(arguments)

    event.listen(engine, "do_connect", leave)
    try:
        engine.pool.recreate().connect().close()
    except _ArgumentsError as caught:
        return dict(caught.args[0])
    finally:
        event.remove(engine, "do_connect", leave)
    raise RefusedError(
        "the Engine's connections are made by a creator for a library that holdfast does not use; "
        "give a URL, or an Engine with psycopg or PyMySQL",
        is_final=True,
    )


def _opening(
    scheme: str, shown: Mapping[str, Any], given: Callable[[], Any]
) -> tuple[str, Opening]:
    """The URL to show, without a password, and the engine behind it."""
    user, host, port, name = (
        quote(str(shown.get(part) or ""), safe=":,") for part in ("user", "host", "port", "dbname")
    )
    login = f"{user}@" if user else ""
    url = f"{scheme}://{login}{host}{':' if port else ''}{port}/{name}"

    def opening(options: dict[str, str]) -> Engine:
        refuse_options([name for name in options if name not in OPTIONS], *OPTIONS)
        return _engine(urlsplit(url), options, given)

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
    """What `given` gives, which may be a connection, within that many seconds. The library may take
    longer, so it runs in a thread; what comes too late is closed."""
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

    threading.Thread(target=run, name="holdfast-connecting", daemon=True).start()
    try:
        wait([outcome], max(0.0, seconds))
    finally:
        is_late = outcome.cancel()
    if is_late:
        raise BrokenError(f"the user's own way of connecting took longer than {seconds:.3g} s")
    found = outcome.result()
    if isinstance(found, SqlError):
        raise found
    if isinstance(found, Exception):
        lines = str(getattr(found, "orig", None) or found).strip().splitlines()
        raise BrokenError(lines[0] if lines else type(found).__name__)
    return found


def _check_kind(pool: Any, wanted: type, argument: str = "url") -> None:
    if not isinstance(pool, wanted):
        kind = type(pool)
        raise TypeError(
            f"{argument}: this client needs a {wanted.__module__}.{wanted.__qualname__}, "
            f"got a {kind.__module__}.{kind.__qualname__}"
        )
