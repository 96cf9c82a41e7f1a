"""A user's own connection to a database, of whatever library, on which something is said within the
user's own transaction. It is neither committed nor closed here.

Statements have named values (`:name`), and give numbers: what a connection makes of text is the
user's business.
"""

from collections.abc import Generator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar

from holdfast.engines.sql.links import Row

T = TypeVar("T")

Values: TypeAlias = Mapping[str, object]
Steps: TypeAlias = Generator[tuple[str, Values], list[Row], T]
"""Yields statements and is sent their rows; what a library raises is thrown in."""

POSTGRESQL, MYSQL, SQLITE = "PostgreSQL", "MariaDB or MySQL", "SQLite"

_HOMES = {
    "psycopg": "of_psycopg",
    "pymysql": "of_mysql",
    "asyncmy": "of_mysql",
    "aiomysql": "of_mysql",
    "sqlite3": "of_sqlite",
    "aiosqlite": "of_sqlite",
    "sqlalchemy": "of_sqlalchemy",
}
"""Which module knows the connections of which library. It is imported when one is met."""


class Borrowed(Protocol):
    """A connection that blocks."""

    database: str

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        ...

    def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        ...


class AsyncBorrowed(Protocol):
    """One of asyncio."""

    database: str

    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own."""
        ...

    async def say(self, sql: str, values: Values) -> list[Row]:
        """Say a statement and give its rows."""
        ...


def borrow(connection: Any) -> Borrowed:
    """A connection that blocks, with a transaction open, or to be opened by the first statement.
    Anything else is a `TypeError`, and one that commits each statement a `ValueError`."""
    home = home_of(connection)
    borrowed: Borrowed | None = home.borrow(connection) if home else None
    if borrowed is None:
        raise TypeError(
            "connection: must be a connection of psycopg, PyMySQL, sqlite3 or SQLAlchemy, "
            f"or a Session, that blocks; got {_shown(connection)}"
        )
    _refuse_autocommit(borrowed)
    return borrowed


async def borrow_async(connection: Any) -> AsyncBorrowed:
    """The same for asyncio."""
    home = home_of(connection)
    borrowed: AsyncBorrowed | None = await home.borrow_async(connection) if home else None
    if borrowed is None:
        raise TypeError(
            "connection: must be a connection of psycopg, asyncmy, aiomysql, aiosqlite or "
            f"SQLAlchemy, or a Session, for asyncio; got {_shown(connection)}"
        )
    _refuse_autocommit(borrowed)
    return borrowed


def home_of(connection: object) -> ModuleType | None:
    """The module that knows the library in which its class, or a base of it, is."""
    for kind in type(connection).__mro__:
        home = _HOMES.get(kind.__module__.partition(".")[0])
        if home is not None:
            return import_module(f"{__name__}.{home}")
    return None


def perform(steps: Steps[T], borrowed: Borrowed) -> T:
    """Say each statement, by blocking."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = borrowed.say(*statement)
            except Exception as error:  # noqa: BLE001 - raised again by whoever yielded it
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is a T


async def perform_async(steps: Steps[T], borrowed: AsyncBorrowed) -> T:
    """Say each statement, by awaiting."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = await borrowed.say(*statement)
            except Exception as error:  # noqa: BLE001 - raised again by whoever yielded it
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is a T


def _refuse_autocommit(borrowed: Borrowed | AsyncBorrowed) -> None:
    if borrowed.autocommits():
        raise ValueError(
            "connection: it commits each statement by itself (autocommit), so there is no "
            "transaction to rely on; begin one first"
        )


def _shown(connection: object) -> str:
    """Its class: the connection itself might tell a password."""
    kind = connection if isinstance(connection, type) else type(connection)
    return f"a {kind.__module__}.{kind.__qualname__}"
