"""Adapters for a user's own connections: statements of ours run inside the user's transaction.

The connection is neither committed nor closed. Two kinds of connection are refused, since what a
statement locks or writes there would not last until the user's commit: one that commits each
statement by itself, and one inside a savepoint, where that can be seen.

Statements are written with named values (`:name`) and return numbers. Names of locks go out in
hex: neither the connection's encoding nor its quoting rules can change ASCII digits.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from holdfast.core.effects import perform, perform_async
from holdfast.engines.sql.dialect import Row, with_marks

T = TypeVar("T")

Values: TypeAlias = Mapping[str, object]
Calls: TypeAlias = Generator[Callable[[], Any], Any, T]
"""Yields calls of a library, and receives what they return, or what that gives when it is awaited;
errors of the library are thrown in. So one text serves libraries of threads and of asyncio."""

POSTGRESQL, MYSQL, SQLITE = "PostgreSQL", "MariaDB or MySQL", "SQLite"


@dataclass(frozen=True, slots=True)
class Adapter:
    """A user's connection."""

    database: str
    autocommits: bool
    """Whether a statement would be a transaction of its own."""
    in_savepoint: bool
    execute: Callable[[str, Values], Calls[list[Row]]]


def execute(connection: object, work: Callable[[Adapter], Calls[T]]) -> T:
    """Do this work on a connection that blocks and has a transaction open, or opens one with the
    next statement. `TypeError`: not such a connection. `ValueError`: autocommit, or a savepoint."""
    calls = _work(connection, work, awaits=False)
    return perform(calls, lambda call: call(), Exception)


async def execute_async(connection: object, work: Callable[[Adapter], Calls[T]]) -> T:
    """The same for asyncio."""
    calls = _work(connection, work, awaits=True)
    return await perform_async(calls, lambda call: call(), Exception)


def _work(connection: object, work: Callable[[Adapter], Calls[T]], *, awaits: bool) -> Calls[T]:
    make = (_ASYNC if awaits else _SYNC).get(_library(connection))
    adapter = (yield from make(connection, awaits)) if make else None
    if adapter is None:
        wanted = (
            "an asyncio connection of psycopg, asyncpg, asyncmy, aiomysql, aiosqlite or SQLAlchemy "
            "(or an AsyncSession)"
            if awaits
            else "a connection of psycopg, psycopg2, PyMySQL, mysqlclient, sqlite3, SQLAlchemy (or "
            "a Session) or Django, not of asyncio"
        )
        raise TypeError(f"connection: must be {wanted}; got a {_class_name(connection)}")
    if adapter.autocommits:
        raise ValueError(
            "connection: it commits each statement by itself (autocommit), so there is no "
            "transaction to protect; begin one first"
        )
    if adapter.in_savepoint:
        raise ValueError(
            "connection: it is inside a savepoint (a nested transaction), whose rollback would "
            "undo the protection while the transaction goes on; call it in the outermost block"
        )
    return (yield from work(adapter))


def render(
    sql: str, values: Values, paramstyle: str
) -> tuple[str, tuple[object, ...] | dict[str, object]]:
    """A statement with named values in another style, and its values as that style needs them."""
    text, names = with_marks(sql, paramstyle)
    if paramstyle in ("named", "pyformat"):
        return text, {name: values[name] for name in names}
    return text, tuple(values[name] for name in names)


def _used(sql: str, values: Values) -> dict[str, object]:
    """Those of the values that a statement names: SQLAlchemy wants no others."""
    return {name: values[name] for name in with_marks(sql, "named")[1]}


def is_missing_table(error: Exception) -> bool:
    """Whether it means that there is no such table."""
    return any(
        _sqlstate(cause) == "42P01"
        or cause.args[:1] == (1146,)
        or str(cause).startswith("no such table")
        for cause in _causes(error)
    )


def is_overtaken(error: Exception) -> bool:
    """Whether it means that a row, or a table, has changed since the transaction's snapshot.
    PostgreSQL has one code for this and for failed serialisation, which has a detail as well."""
    for cause in _causes(error):
        if cause.args[:1] in (
            (1020,),
            (1412,),
        ):  # MariaDB; the first with innodb_snapshot_isolation
            return True
        diag = getattr(cause, "diag", cause)  # asyncpg has it on the error itself
        detail = getattr(diag, "message_detail", None) or getattr(diag, "detail", None)
        if _sqlstate(cause) == "40001" and not detail:
            return True
    return False


def _causes(error: BaseException | None) -> "Generator[BaseException]":
    """An error, and what SQLAlchemy or Django have wrapped in it."""
    while error is not None:
        yield error
        error = getattr(error, "orig", None) or error.__cause__


def _sqlstate(error: BaseException) -> object:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _library(connection: object) -> str:
    """The library in which its class, or a base of it, is defined."""
    for kind in type(connection).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in _SYNC or library in _ASYNC:
            return library
    return ""


def _class_name(connection: object) -> str:
    """Shown instead of the connection, whose text may contain a password."""
    own = type(connection)
    kind: Any = connection if issubclass(own, type) else own
    return f"{kind.__module__}.{kind.__qualname__}"


def _psycopg(connection: Any, awaits: bool) -> Calls[Adapter | None]:
    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
    from psycopg.rows import tuple_row

    wanted: Any = AsyncConnection if awaits else Connection
    if not isinstance(connection, wanted):
        return None

    def synchronise() -> None:
        with connection.pipeline() as pipeline:
            pipeline.sync()

    async def synchronise_async() -> None:
        async with connection.pipeline() as pipeline:
            await pipeline.sync()

    def synchronised() -> Calls[None]:
        """In pipeline mode results, and the transaction's status, arrive with the next sync."""
        if connection.pgconn.pipeline_status:
            yield synchronise_async if awaits else synchronise

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        text, parameters = render(sql, values, "pyformat")
        kind: Any = AsyncCursor if awaits else Cursor
        cursor = kind(connection, row_factory=tuple_row)
        yield partial(cursor.execute, text.encode(), parameters)
        yield from synchronised()
        rows = (yield cursor.fetchall) if cursor.description else []
        yield cursor.close
        return list(rows)

    yield from synchronised()
    return Adapter(POSTGRESQL, _autocommits(connection), _is_nested(connection), execute)


def _is_nested(connection: Any) -> bool:
    """Whether psycopg's `transaction()` was entered twice. There is no public way to know."""
    return getattr(connection, "_num_transactions", 0) > 1


def _psycopg2(connection: Any, awaits: bool) -> Calls[Adapter | None]:
    library = import_module("psycopg2.extensions")
    if not isinstance(connection, library.connection):
        return None

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        with connection.cursor(cursor_factory=library.cursor) as cursor:
            yield partial(cursor.execute, *render(sql, values, "pyformat"))
            return list(cursor.fetchall()) if cursor.description else []

    yield from ()  # nothing has to be asked first
    return Adapter(POSTGRESQL, _autocommits(connection), False, execute)


def _asyncpg(connection: Any, awaits: bool) -> Calls[Adapter | None]:
    if not hasattr(connection, "is_in_transaction"):
        return None

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        text, parameters = render(sql, values, "numeric_dollar")
        return [tuple(record) for record in (yield partial(connection.fetch, text, *parameters))]

    yield from ()  # nothing has to be asked first
    return Adapter(POSTGRESQL, not connection.is_in_transaction(), False, execute)


def _mysql(connection: Any, awaits: bool) -> Calls[Adapter | None]:
    """PyMySQL, mysqlclient, asyncmy and aiomysql."""
    cursors = _mysql_cursors(connection)
    if cursors is None:
        return None

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        cursor = cursors.Cursor(connection)
        yield partial(cursor.execute, *render(sql, values, "pyformat"))
        rows = yield cursor.fetchall
        yield cursor.close
        return list(rows)

    yield from ()  # nothing has to be asked first
    return Adapter(MYSQL, _autocommits(connection), False, execute)


def _mysql_cursors(connection: object) -> Any:
    """The library's module of cursors; None if it is no connection of it."""
    library = _library(connection)
    for kind in type(connection).__mro__:
        if kind.__name__ == "Connection" and kind.__module__.partition(".")[0] == library:
            return import_module(f"{library}.cursors")
    return None


def _sqlite(connection: Any, awaits: bool) -> Calls[Adapter | None]:
    """sqlite3 and aiosqlite."""
    if not hasattr(connection, "in_transaction"):
        return None

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        cursor = yield connection.cursor
        cursor.row_factory = None
        yield partial(cursor.execute, sql, values)
        rows = yield cursor.fetchall
        yield cursor.close
        return list(rows)

    yield from ()  # nothing has to be asked first
    return Adapter(SQLITE, _autocommits(connection), False, execute)


_DATABASES = {"postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL, "sqlite": SQLITE}


def _sqlalchemy(connection: Any, awaits: bool) -> Calls[Adapter | None]:
    from sqlalchemy import text

    wanted: Any
    session: Any
    scoped: Any
    if awaits:  # which needs greenlet
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

        wanted, session, scoped = AsyncConnection, AsyncSession, async_scoped_session
    else:
        from sqlalchemy import Connection
        from sqlalchemy.orm import Session, scoped_session

        wanted, session, scoped = Connection, Session, scoped_session
    if isinstance(connection, scoped):
        connection = connection()
    # A Session that joins a test's transaction does so by a savepoint, which is no nested one: so
    # the Session is asked, and not its connection.
    own: Any = (yield connection.connection) if isinstance(connection, session) else connection
    if not isinstance(own, wanted):
        return None
    if awaits:
        yield own.get_raw_connection  # raises if it has not been started yet

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        result = yield partial(own.execute, text(sql), _used(sql, values))
        return [tuple(row) for row in result] if result.returns_rows else []

    return Adapter(
        _database(own.dialect.name),
        _autocommits_below(own.sync_connection if awaits else own),
        connection.in_nested_transaction(),
        execute,
    )


def _django(connection: Any, awaits: bool) -> Calls[Adapter | None]:
    """`django.db.connection`, or one of `django.db.connections`."""
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.utils.connection import ConnectionProxy

    # The type, since a look at the attributes of Django's lazy objects may fail in many ways.
    if not issubclass(type(connection), (BaseDatabaseWrapper, ConnectionProxy)):
        return None
    connection.ensure_connection()
    make = _SYNC.get(_library(connection.connection))
    below = (yield from make(connection.connection, False)) if make else None
    if below is None:
        raise TypeError(
            f"connection: must lead to {', '.join(_DATABASES)}; got one to {connection.vendor}"
        )

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        with connection.wrap_database_errors:  # the user expects errors of django.db
            return (yield from below.execute(sql, values))

    return replace(below, in_savepoint=_is_nested_atomic(connection), execute=execute)


def _is_nested_atomic(connection: Any) -> bool:
    """Whether an `atomic()` inside another one has made a savepoint. Those of Django's own
    `TestCase` do not count: under them, the test's outermost block is nested."""
    blocks = getattr(connection, "atomic_blocks", [])
    outer = [getattr(block, "_from_testcase", False) for block in blocks]
    return any(
        savepoint and not (n < len(outer) and outer[n])
        for n, savepoint in enumerate(connection.savepoint_ids)
    )


def _database(dialect: str) -> str:
    if dialect not in _DATABASES:
        raise TypeError(f"connection: must lead to {', '.join(_DATABASES)}; got one to {dialect}")
    return _DATABASES[dialect]


# Whether a statement would be a transaction of its own: after a BEGIN it is not.


def _autocommits(connection: Any) -> bool:
    library = _library(connection)
    if library in ("psycopg", "psycopg2"):
        return bool(connection.autocommit) and connection.info.transaction_status == 0  # idle
    if library in ("sqlite3", "aiosqlite"):
        if connection.in_transaction:
            return False
        mode = getattr(connection, "autocommit", None)  # from Python 3.12 on
        return mode if isinstance(mode, bool) else connection.isolation_level is None
    return bool(connection.get_autocommit()) and not _mysql_in_transaction(connection)


def _mysql_in_transaction(connection: Any) -> bool:
    """Whether a transaction is open on a connection of any library of MySQL's."""
    if hasattr(connection, "get_transaction_status"):  # aiomysql
        return bool(connection.get_transaction_status())
    if hasattr(connection, "server_status"):  # PyMySQL, asyncmy: a flag of each reply
        return bool(connection.server_status & 1)
    # mysqlclient has no flag; MySQL has no such variable. The user's own cursor may give dicts.
    with connection.cursor(_mysql_cursors(connection).Cursor) as cursor:
        cursor.execute("SHOW SESSION VARIABLES LIKE 'in_transaction'")
        return [row[1] for row in cursor.fetchall()] == ["1"]


def _autocommits_below(connection: Any) -> bool:
    """Of a connection of SQLAlchemy. asyncpg's begins its transaction with the first statement."""
    pooled = connection.connection
    if _library(pooled.driver_connection) in ({*_SYNC, *_ASYNC} - {"asyncpg"}):
        return _autocommits(pooled.driver_connection)
    return bool(getattr(pooled.dbapi_connection, "autocommit", False))


_Make: TypeAlias = Callable[[Any, bool], Calls[Adapter | None]]
"""Gives the adapter of a connection, which awaits or not; None if it is not a connection."""

_SYNC: dict[str, _Make] = {
    "psycopg": _psycopg,
    "psycopg2": _psycopg2,
    "pymysql": _mysql,
    "MySQLdb": _mysql,
    "sqlite3": _sqlite,
    "sqlalchemy": _sqlalchemy,
    "django": _django,
}

_ASYNC: dict[str, _Make] = {
    "psycopg": _psycopg,
    "asyncpg": _asyncpg,
    "asyncmy": _mysql,
    "aiomysql": _mysql,
    "aiosqlite": _sqlite,
    "sqlalchemy": _sqlalchemy,
}
