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
    make = _factory(connection, _ASYNC if awaits else _SYNC)
    if make is None:
        wanted = (
            "an asyncio connection of psycopg, asyncpg, asyncmy, aiomysql, aiosqlite or SQLAlchemy "
            "(or an AsyncSession)"
            if awaits
            else "a connection of psycopg, psycopg2, PyMySQL, mysqlclient, sqlite3, SQLAlchemy (or "
            "a Session) or Django, not of asyncio"
        )
        raise TypeError(f"connection: must be {wanted}; got a {_class_name(connection)}")
    made = make(connection)
    adapter = made if isinstance(made, Adapter) else (yield from made)
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


def _factory(connection: object, factories: "dict[str, _Make]") -> "_Make | None":
    """What makes its adapter: that of its class, or of a base of it. The type is looked at, since
    a look at the attributes of Django's lazy objects may fail in many ways."""
    kinds = type(connection).__mro__
    names = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds)
    return next((factories[name] for name in names if name in factories), None)


def _class_name(connection: object) -> str:
    """Shown instead of the connection, whose text may contain a password."""
    own = type(connection)
    kind: Any = connection if issubclass(own, type) else own
    return f"{kind.__module__}.{kind.__qualname__}"


def _by_cursor(make_cursor: Callable[[], Any]) -> Callable[[str, Values], Calls[list[Row]]]:
    """How statements are executed where there are cursors as in PEP 249, also of asyncio."""

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        cursor = make_cursor()
        yield partial(cursor.execute, *render(sql, values, "pyformat"))
        rows = (yield cursor.fetchall) if cursor.description else []
        yield cursor.close
        return list(rows)

    return execute


# The factories. Each gives the adapter of a connection, or the calls that give it.
# `autocommits`: after a BEGIN, a statement is not a transaction of its own.


def _psycopg(connection: Any) -> Adapter:
    from psycopg import AsyncConnection, AsyncCursor, Cursor
    from psycopg.rows import tuple_row

    kind: Any = AsyncCursor if isinstance(connection, AsyncConnection) else Cursor
    if connection.pgconn.pipeline_status:
        raise ValueError(
            "connection: it is in pipeline mode, where results come later; call it before that"
        )
    is_nested = getattr(connection, "_num_transactions", 0) > 1  # there is no public way to know
    make_cursor = partial(kind, connection, row_factory=tuple_row)
    return Adapter(
        POSTGRESQL, _postgres_autocommits(connection), is_nested, _by_cursor(make_cursor)
    )


def _psycopg2(connection: Any) -> Adapter:
    usual = import_module("psycopg2.extensions").cursor
    make_cursor = partial(connection.cursor, cursor_factory=usual)
    return Adapter(POSTGRESQL, _postgres_autocommits(connection), False, _by_cursor(make_cursor))


def _postgres_autocommits(connection: Any) -> bool:
    return bool(connection.autocommit) and connection.info.transaction_status == 0  # idle


def _asyncpg(connection: Any) -> Adapter:
    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        text, parameters = render(sql, values, "numeric_dollar")
        return [tuple(record) for record in (yield partial(connection.fetch, text, *parameters))]

    return Adapter(POSTGRESQL, not connection.is_in_transaction(), False, execute)


def _mysql(library: str, connection: Any) -> Adapter:
    """PyMySQL, mysqlclient, asyncmy and aiomysql."""
    make_cursor = partial(import_module(f"{library}.cursors").Cursor, connection)
    autocommits = connection.get_autocommit() and not _mysql_in_transaction(connection, make_cursor)
    return Adapter(MYSQL, autocommits, False, _by_cursor(make_cursor))


def _mysql_in_transaction(connection: Any, make_cursor: Callable[[], Any]) -> bool:
    if hasattr(connection, "get_transaction_status"):  # aiomysql
        return bool(connection.get_transaction_status())
    if hasattr(connection, "server_status"):  # PyMySQL, asyncmy: a flag of each reply
        return bool(connection.server_status & 1)
    with make_cursor() as cursor:  # mysqlclient has no flag; MySQL has no such variable
        cursor.execute("SHOW SESSION VARIABLES LIKE 'in_transaction'")
        return [row[1] for row in cursor.fetchall()] == ["1"]


def _sqlite(connection: Any) -> Adapter:
    """sqlite3 and aiosqlite."""

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        cursor = yield partial(connection.execute, sql, values)
        cursor.row_factory = None
        rows = yield cursor.fetchall
        yield cursor.close
        return list(rows)

    mode = getattr(connection, "autocommit", None)  # from Python 3.12 on
    begins = not mode if isinstance(mode, bool) else connection.isolation_level is not None
    return Adapter(SQLITE, not begins and not connection.in_transaction, False, execute)


def _django(connection: Any) -> Adapter:
    """`django.db.connection`, or one of `django.db.connections`."""
    connection.ensure_connection()
    make = _factory(connection.connection, _SYNC)
    below = make(connection.connection) if make else None
    if not isinstance(below, Adapter):
        raise _other_database(connection.vendor)

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


def _of_scoped_session(session: Any) -> Calls[Adapter]:
    return _of_session(session())


def _of_session(session: Any) -> Calls[Adapter]:
    """A Session of SQLAlchemy has to be asked for its connection. One that joins a test's
    transaction does so by a savepoint, which is no nested one: so the Session is asked for it."""
    connection = yield session.connection
    return (yield from _sqlalchemy(connection, session.in_nested_transaction))


def _sqlalchemy(connection: Any, is_nested: Callable[[], bool] | None = None) -> Calls[Adapter]:
    from sqlalchemy import text

    own, awaits = connection, hasattr(connection, "sync_connection")
    if awaits:
        yield own.get_raw_connection  # raises if it has not been started yet
    if own.dialect.name not in _DATABASES:
        raise _other_database(own.dialect.name)

    def execute(sql: str, values: Values) -> Calls[list[Row]]:
        named, used = render(sql, values, "named")
        result = yield partial(own.execute, text(named), used)
        return [tuple(row) for row in result] if result.returns_rows else []

    pooled = (own.sync_connection if awaits else own).connection
    # By the dialect: within `run_sync`, an AsyncConnection is one that blocks.
    make = _factory(pooled.driver_connection, _ASYNC if own.dialect.is_async else _SYNC)
    below = make(pooled.driver_connection) if make not in (None, _asyncpg) else None
    if isinstance(below, Adapter):
        autocommits = below.autocommits
    else:  # asyncpg begins with the first statement
        autocommits = bool(getattr(pooled.dbapi_connection, "autocommit", False))
    in_savepoint = (is_nested or own.in_nested_transaction)()
    return Adapter(_DATABASES[own.dialect.name], autocommits, in_savepoint, execute)


_DATABASES = {"postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL, "sqlite": SQLITE}


def _other_database(name: str) -> TypeError:
    return TypeError(f"connection: must lead to {', '.join(_DATABASES)}; got one to {name}")


_Make: TypeAlias = Callable[[Any], Adapter | Calls[Adapter]]

_SYNC: dict[str, _Make] = {
    "psycopg.Connection": _psycopg,
    "psycopg2.connection": _psycopg2,
    "pymysql.Connection": partial(_mysql, "pymysql"),
    "MySQLdb.Connection": partial(_mysql, "MySQLdb"),
    "sqlite3.Connection": _sqlite,
    "sqlalchemy.Connection": _sqlalchemy,
    "sqlalchemy.Session": _of_session,
    "sqlalchemy.scoped_session": _of_scoped_session,
    "django.BaseDatabaseWrapper": _django,
    "django.ConnectionProxy": _django,
}
"""By the library and the class."""

_ASYNC: dict[str, _Make] = {
    "psycopg.AsyncConnection": _psycopg,
    "asyncpg.Connection": _asyncpg,
    "asyncpg.PoolConnectionProxy": _asyncpg,
    "asyncmy.Connection": partial(_mysql, "asyncmy"),
    "aiomysql.Connection": partial(_mysql, "aiomysql"),
    "aiosqlite.Connection": _sqlite,
    "sqlalchemy.AsyncConnection": _sqlalchemy,
    "sqlalchemy.AsyncSession": _of_session,
    "sqlalchemy.async_scoped_session": _of_scoped_session,
}
