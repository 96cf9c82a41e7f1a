"""One connection to MariaDB or MySQL, by PyMySQL's cursors.

Values are written into the text of a statement as numbers or hexadecimal digits: nothing in them
depends on the session's character set or `sql_mode`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from holdfast.core.ports import Clock
from holdfast.engines.sql.connection import (
    SILENT,
    BrokenError,
    ConflictError,
    MissingError,
    RefusedError,
    SqlError,
)
from holdfast.engines.sql.dialect import Row, Statement
from holdfast.engines.sql.mysql.commands import (
    HANDSHAKE,
    MARIADB_SESSION_SETTING,
    SESSION_SETTINGS,
    Statements,
)

CLIENT_ERRORS = 2000
"""From this number on, an error is not the server's, but PyMySQL's."""

IDLE = 1.0
"""A connection that was idle for longer is pinged before it is used; the ping takes no longer."""

FLAGS = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
"""UPDATE counts the rows that it finds, and a transaction is sent at once."""

STEP = 0.05
"""Timeouts are multiples of this: setting another one costs two system calls."""


class LockedError(ConflictError):
    """Another transaction has held a lock on the row, or the table, for longer than we wait."""


_KINDS: dict[int, type[SqlError]] = {
    1205: LockedError,
    1969: LockedError,  # within max_statement_time, which we set for a statement that may meet one
    1020: ConflictError,  # the row has changed since it was read
    1213: ConflictError,  # deadlock; and a node of a cluster that was not the first to commit
    1062: ConflictError,  # two made the same row at once
    1317: ConflictError,  # an operator ended the statement
    1146: MissingError,
    1047: BrokenError,  # a node of a cluster that is not ready
    1053: BrokenError,  # the server shuts down
    1927: BrokenError,  # an operator killed the connection
    1036: BrokenError,  # read only: another connection may lead to another server
    1290: BrokenError,
    1792: BrokenError,
    1836: BrokenError,
}
"""By the server's number; everything else is a `RefusedError`."""

_READ_ONLY = "this server is read-only: it is a replica, or read_only is on; name the primary"
_LAYOUT = "the tables have another layout: another version of holdfast made or changed them"

_MEANINGS = {
    1036: _READ_ONLY,
    1290: _READ_ONLY,
    1792: _READ_ONLY,
    1836: _READ_ONLY,
    1040: "the server has no connection left; see max_connections",
    1203: "this user has no connection left; see max_user_connections",
    1665: "binlog_format is STATEMENT, which does not allow READ COMMITTED; make it MIXED",
    1045: "the login was refused",
    1698: "the login was refused",
    1044: "this user may not use the database",
    1049: "there is no such database",
    1054: _LAYOUT,
    1142: "this user lacks a right",
    1143: "this user lacks a right",
    1227: "this user lacks a right",
    1406: "the name is too long, with its prefix",
}

_FINAL = frozenset((1044, 1045, 1049, 1054, 1142, 1143, 1227, 1251, 1406, 1698))
"""What waiting does not heal: logins, missing databases and rights, wrong tables."""


def read_error(number: int, message: str) -> SqlError:
    """The error for a number of the server's."""
    meaning = _MEANINGS.get(number)
    text = f"{meaning} ({message})" if meaning else message
    kind = _KINDS.get(number, RefusedError)
    return RefusedError(text, is_final=number in _FINAL) if kind is RefusedError else kind(text)


class MySqlConnection:
    """A connection that is made."""

    def __init__(
        self, connection: pymysql.Connection, clock: Clock, *, needs_mariadb: bool = False
    ) -> None:
        self._connection: pymysql.Connection | None = connection
        self._clock, self._needs_mariadb = clock, needs_mariadb
        self._cursor = connection.cursor(pymysql.cursors.Cursor)
        self._used_at = clock()

    def prepare_session(self, until: float) -> int:
        """Make the session ours; gives the server's clock in microseconds."""
        connection = self._connection
        assert connection is not None  # noqa: S101 - it was just made
        version = connection.get_server_info()
        is_mariadb = "mariadb" in version.lower()
        if self._needs_mariadb and not is_mariadb:
            raise RefusedError(
                f"mariadb:// needs MariaDB 10.5 or later, and this server is {version}; for MySQL, "
                "the URL begins with mysql://",
                is_final=True,
            )
        for sql in SESSION_SETTINGS:
            self.run_text(sql, until)
        if is_mariadb:
            self.run_text(MARIADB_SESSION_SETTING, until)
        [(now,)] = self.run_text(HANDSHAKE, until)
        assert isinstance(now, int)  # noqa: S101 - a bigint
        return now

    def create(self, statements: Statements, until: float) -> None:
        """Make the tables. The version comes last: what was interrupted is done again."""
        for sql in statements.create:
            self.run_text(sql, until)

    def is_usable(self, until: float) -> bool:
        """Whether the server has not closed it."""
        if self._connection is None or not self._connection.open:
            return False
        if self._clock() < self._used_at + IDLE:
            return True
        try:
            self._end_at(min(until, self._clock() + IDLE))
            self._connection.ping(reconnect=False)
        except (pymysql.MySQLError, OSError):
            return False
        return True

    def run(self, statements: Sequence[Statement], until: float) -> list[list[Row]]:
        """Run one statement, or several as one transaction."""
        if len(statements) == 1:
            return [self._execute(statements[0], until)]
        try:
            return self._run_all(statements, until)
        except BrokenError:
            raise
        except SqlError:
            self.run_text("ROLLBACK", until)
            raise

    def run_text(self, sql: str, until: float) -> list[Row]:
        """Run a statement without values."""
        try:
            self._end_at(until)
            self._cursor.execute(sql)
            self._used_at = self._clock()
            return self._rows()
        except _ERRORS as error:
            raise _why(error) from error

    def close(self) -> None:
        """Close it. What is under way may be carried out all the same."""
        if self._connection is not None and self._connection.open:
            self._connection.close()

    def forget(self) -> None:
        """In a forked child: PyMySQL closes a connection that is not referenced any more, and sends
        nothing."""
        self._connection = None
        del self._cursor

    def _execute(self, statement: Statement, until: float) -> list[Row]:
        text, values = statement
        try:
            return self.run_text(_with_values(text.sql, values), until)
        except LockedError:
            if not text.skips_locked:
                raise
            return []

    def _run_all(self, statements: Sequence[Statement], until: float) -> list[list[Row]]:
        """All in one round trip: a client that is stopped in between would keep the row locked. The
        server stops at the first error; if that is no error here, the rest is sent."""
        texts = [
            "BEGIN",
            *(_with_values(text.sql, values) for text, values in statements),
            "COMMIT",
        ]
        skips_locked = (False, *(text.skips_locked for text, _ in statements), False)
        results: list[list[Row]] = []
        while len(results) < len(texts):
            try:
                results.append(self.run_text("; ".join(texts[len(results) :]), until))
                while self._next(until):
                    results.append(self._rows())
            except LockedError:
                if not skips_locked[len(results)]:
                    raise
                results.append([])
        return results[1:-1]

    def _next(self, until: float) -> bool:
        """Go on to the rows of the next statement; False if there is none."""
        try:
            self._end_at(until)
            return bool(self._cursor.nextset())
        except _ERRORS as error:
            raise _why(error) from error

    def _rows(self) -> list[Row]:
        if self._cursor.description is None:
            return [(1,)] * self._cursor.rowcount
        return list(self._cursor.fetchall())

    def _end_at(self, until: float) -> None:
        """Have PyMySQL give up at that instant. There is no other way to it than private names."""
        connection = self._connection
        assert connection is not None  # noqa: S101 - only after a fork, when it is not used
        seconds = max(1, -int((self._clock() - until) // STEP)) * STEP
        connection._read_timeout = connection._write_timeout = seconds  # noqa: SLF001 # pyright: ignore[reportAttributeAccessIssue]


def open_connection(address: Mapping[str, Any], seconds: float) -> pymysql.Connection:
    """Connect, by blocking for at most that time."""
    seconds = max(0.001, seconds)
    try:
        return pymysql.connect(
            **{
                **address,
                "charset": "utf8mb4",
                "client_flag": FLAGS,
                "connect_timeout": seconds,
                "read_timeout": seconds,
                "write_timeout": seconds,
                "autocommit": True,
            }
        )
    except _ERRORS as error:
        raise _why(error) from error


def _with_values(sql: str, values: Sequence[object]) -> str:
    """A statement with its values written into it.

    >>> _with_values("SELECT %s, %s, %s", (7, "it's", None))
    "SELECT 7, x'69742773', NULL"
    """
    return sql % tuple([_literal(value) for value in values])


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f"x'{value.encode().hex()}'"
    if isinstance(value, (int, float)):
        return str(value + 0)  # a bool as a number, too
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return ", ".join(map(_literal, value))
    return f"x'{bytes(value).hex()}'"  # type: ignore[call-overload]


_ERRORS = (pymysql.MySQLError, OSError, RuntimeError)
"""What PyMySQL raises; the last if a way to log in needs a library."""


def _why(error: Exception) -> SqlError:
    """An error of PyMySQL's as ours."""
    if not isinstance(error, pymysql.MySQLError):
        return BrokenError(str(error) or type(error).__name__)
    if isinstance(error.__context__, TimeoutError):
        return BrokenError(SILENT)
    match error.args:
        case (0, _):  # PyMySQL's own, after an error that ended the connection
            return BrokenError("the connection is closed")
        case (int(number), str(message)) if number < CLIENT_ERRORS:
            return read_error(number, message)
        case (_, message):
            return BrokenError(str(message))
        case _:
            return BrokenError(str(error) or type(error).__name__)
