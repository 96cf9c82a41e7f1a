"""One connection to PostgreSQL, by libpq. Every wait for the server ends at a given instant, which
psycopg's own connections cannot promise.

Values and results are sent in PostgreSQL's binary format where text would depend on a setting of
the session: `bytea_output`, `client_encoding`, `DateStyle`.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from holdfast.core.ports import Clock
from holdfast.engines.processes import detach
from holdfast.engines.sql.connection import (
    SILENT,
    BrokenError,
    ConflictError,
    MissingError,
    RefusedError,
    SqlError,
    wait_for,
)
from holdfast.engines.sql.dialect import Row, Statement, Text
from holdfast.engines.sql.postgres.commands import HANDSHAKE, SESSION_SETTINGS, Statements

_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY)

_LOADERS: dict[int, Callable[[bytes], object]] = {
    16: lambda value: value == b"\1",  # boolean
    17: bytes,  # bytea
    20: lambda value: int.from_bytes(value, "big", signed=True),  # bigint
    23: lambda value: int.from_bytes(value, "big", signed=True),  # integer
}
"""By type; everything else is text."""

_KINDS: dict[str, type[SqlError]] = {
    "08": BrokenError,  # connection exceptions
    "57P": BrokenError,  # the server, or an operator, ended the connection
    "25006": BrokenError,  # read only: another connection may lead to another server
    "26000": BrokenError,  # prepared statements were deallocated
    "0A000": BrokenError,  # the table was altered under a prepared statement
    "40001": ConflictError,  # could not serialise
    "40P01": ConflictError,  # deadlock
    "55P03": ConflictError,  # lock_timeout
    "23505": ConflictError,  # two made the same row, or the same table, at once
    "42P01": MissingError,
}
"""By the beginning of the SQLSTATE; everything else is a `RefusedError`."""

_MEANINGS = {
    "25006": (
        "this server is read-only: it is a standby, or default_transaction_read_only is on; "
        "name the primary, or several hosts with target_session_attrs=read-write"
    ),
    "53300": "the server has no connection left; see max_connections",
    "57014": "the server cancelled the statement; see statement_timeout",
    "28P01": "the password was refused",
    "28000": "the login was refused",
    "3D000": "there is no such database",
    "3F000": "there is no such schema, or this role may not use it; see the option table",
    "42501": "this role lacks a right",
    "42703": "the tables have another layout: another version of holdfast made or changed them",
}

_FINAL = ("28", "3D000", "3F000", "42")
"""What waiting does not heal: logins, missing databases and rights, wrong tables."""


def read_error(state: str, message: str) -> SqlError:
    """The error for an SQLSTATE; without one the connection is gone."""
    text = first_line(message)
    if not state:
        return BrokenError(text or "the connection is gone")
    meaning = _MEANINGS.get(state)
    text = f"{meaning} ({text})" if meaning else text
    kind = next((_KINDS[state[:n]] for n in (5, 3, 2) if state[:n] in _KINDS), RefusedError)
    return (
        RefusedError(text, is_final=state.startswith(_FINAL))
        if kind is RefusedError
        else kind(text)
    )


def first_line(message: str) -> str:
    """The first line of a message of libpq."""
    lines = message.strip().splitlines()
    return lines[0].strip() if lines else ""


class PostgresConnection:
    """A connection that is made."""

    def __init__(self, connection: pq.abc.PGconn, clock: Clock) -> None:
        self._connection, self._clock = connection, clock
        connection.nonblocking = 1
        self.fd: int = connection.socket
        self.is_direct = False
        """Whether the session is ours alone: then statements are prepared, and it can listen."""
        self._prepared: dict[Text, bytes] = {}
        self._names = count()

    @property
    def pid(self) -> int:
        """The server process, as the server named it at the login."""
        return self._connection.backend_pid

    def prepare_session(self, until: float) -> int:
        """Find out whether the session is ours alone, and prepare it then; gives the server's
        clock. A pooler is known by the server process that answers: it is not that of the login."""
        [[(pid, now)]] = self.run((HANDSHAKE(),), until)
        is_direct = pid == self.pid
        if is_direct:
            self.run_text(SESSION_SETTINGS, until)
        self.is_direct = is_direct
        assert isinstance(now, int)  # noqa: S101 - a bigint
        return now

    def create(self, statements: Statements, until: float) -> None:
        """Make the tables."""
        self.run_text(statements.create, until)

    def is_usable(self, until: float) -> bool:
        """Whether the server has not closed it."""
        try:
            self._connection.consume_input()
        except psycopg.Error:
            return False
        return self._connection.status == pq.ConnStatus.OK

    def run(self, statements: Sequence[Statement], until: float) -> list[list[Row]]:
        """Run one statement, or several as one transaction, in one round trip."""
        try:
            if self.is_direct:
                self._prepare(statements, until)
            if len(statements) == 1:
                self._send(*statements[0])
                return [self._rows(until)]
            return self._run_all(statements, until)
        except psycopg.Error as error:
            raise _broken(error) from error

    def run_text(self, sql: str, until: float) -> None:
        """Run statements without values, separated by semicolons, as one transaction."""
        try:
            self._connection.send_query(sql.encode())
            self._rows(until)
        except psycopg.Error as error:
            raise _broken(error) from error

    def notifications(self) -> list[str]:
        """The payloads of notifications that have arrived."""
        found = []
        try:
            self._connection.consume_input()
            while (notification := self._connection.notifies()) is not None:
                found.append(bytes.fromhex(notification.extra.decode()).decode())
        except psycopg.Error as error:
            raise _broken(error) from error
        return found

    def close(self) -> None:
        """Close it. What is under way may be carried out all the same."""
        self._connection.finish()

    def forget(self) -> None:
        """In a forked child: close it here, and leave the parent's connection open."""
        detach(self.fd)
        self._connection.finish()

    def _prepare(self, statements: Sequence[Statement], until: float) -> None:
        for text, _ in statements:
            if text not in self._prepared:
                name = b"holdfast_%d" % next(self._names)
                self._connection.send_prepare(name, text.sql.encode())
                self._rows(until)
                self._prepared[text] = name

    def _run_all(self, statements: Sequence[Statement], until: float) -> list[list[Row]]:
        connection = self._connection
        connection.enter_pipeline_mode()
        for text, values in statements:
            self._send(text, values)
        connection.pipeline_sync()
        results, error = [], None
        for _ in statements:
            try:
                results.append(self._rows(until))
            except BrokenError:
                raise
            except SqlError as caught:
                error = error or caught  # those behind it are skipped
        self._rows(until, synced=True)
        connection.exit_pipeline_mode()
        if error is not None:
            raise error
        return results

    def _send(self, text: Text, values: Sequence[object]) -> None:
        dumped = [_dumped(value) for value in values]
        formats = [1 if isinstance(value, (str, bytes)) else 0 for value in values]
        if self.is_direct:
            self._connection.send_query_prepared(
                self._prepared[text], dumped, formats, result_format=1
            )
        else:
            self._connection.send_query_params(
                text.sql.encode(), dumped, param_formats=formats, result_format=1
            )

    def _rows(self, until: float, *, synced: bool = False) -> list[Row]:
        """The rows of one statement, once all of its answer is there. `synced`: the answer is that
        of a synchronisation point, which nothing follows."""
        connection = self._connection
        rows: list[Row] = []
        error: SqlError | None = None
        while True:
            is_unsent = connection.flush() == 1
            while connection.is_busy():
                _wait(self.fd, until, self._clock, write=is_unsent)
                connection.consume_input()
                is_unsent = is_unsent and connection.flush() == 1
            result = connection.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                if synced:
                    return rows
            elif result.status in _DONE:
                rows = _read_rows(result)
            elif result.status != pq.ExecStatus.PIPELINE_ABORTED:
                error = error or _read_failure(result)
        if error is not None:
            raise error
        return rows


def open_connection(
    hosts: Sequence[Mapping[str, str]], clock: Clock, until: float
) -> PostgresConnection:
    """Connect, by blocking, to the first address that will do, given the parameters for each host.
    An address has half of the time that is left, and the last one all of it. As with libpq, a login
    that was refused is refused by all, and a name is looked up when its turn has come.

    Left to itself, libpq waits for a host that is silent until the time for all is over; and while
    it looks a name up, no other thread of the program runs."""
    errors: list[str] = []
    for host in hosts:
        try:
            addresses = addresses_of(host)
        except BrokenError as error:
            addresses = []
            errors.append(str(error))
        for address in addresses:
            is_last = host is hosts[-1] and address is addresses[-1]
            try:
                return _connect(address, clock, until if is_last else (clock() + until) / 2)
            except BrokenError as error:
                errors.append(str(error))
    raise BrokenError("; ".join(dict.fromkeys(errors)))


def addresses_of(host: Mapping[str, str]) -> list[str]:
    """What libpq is given for each address of a host. None is looked up for a socket's folder, or
    an address of IPv6. Raises `BrokenError` if none is found."""
    name = host.get("host", "")
    if host.get("hostaddr") or name[:1] in ("", "/", "@") or ":" in name or "," in name:
        return [make_conninfo("", **host)]
    try:
        infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BrokenError(f"the address of {name} was not found: {error}") from error
    return [
        make_conninfo("", **{**host, "hostaddr": str(address)})
        for address in dict.fromkeys(info[4][0] for info in infos)
    ]


def _connect(conninfo: str, clock: Clock, until: float) -> PostgresConnection:
    connection = pq.PGconn.connect_start(conninfo.encode())
    try:
        while True:
            if connection.status == pq.ConnStatus.BAD:
                raise _why(connection)
            state = connection.connect_poll()
            if state == pq.PollingStatus.OK:
                return PostgresConnection(connection, clock)
            if state == pq.PollingStatus.READING:
                _wait(connection.socket, until, clock)
            elif state == pq.PollingStatus.WRITING:
                _wait(connection.socket, until, clock, read=False, write=True)
    except psycopg.Error as error:
        connection.finish()
        raise _broken(error) from error
    except BaseException:
        connection.finish()
        raise


def _wait(fd: int, until: float, clock: Clock, *, read: bool = True, write: bool = False) -> None:
    if not wait_for([fd] if read else [], [fd] if write else [], max(0.0, until - clock())):
        raise BrokenError(SILENT)


def _why(connection: pq.abc.PGconn) -> SqlError:
    """Why a connection was not made. libpq has no SQLSTATE then, only a text, which may be in any
    language: only a refusal that is known by its words is final."""
    text = first_line(connection.get_error_message())
    is_known = "FATAL:  " in text and any(words in text for words in _LOGIN_FAILED)
    if connection.needs_password or is_known:
        return RefusedError(text, is_final=True)
    return BrokenError(text)


_LOGIN_FAILED = (
    "authentication failed",
    "pg_hba.conf",
    "not permitted to log in",
    "does not exist",
    "no such database",  # of PgBouncer
    "permission denied",
)


def _broken(error: psycopg.Error) -> BrokenError:
    """An error of psycopg's own: the connection is gone."""
    return BrokenError(first_line(str(error)))


def _read_rows(result: pq.abc.PGresult) -> list[Row]:
    columns = [_LOADERS.get(result.ftype(n), bytes.decode) for n in range(result.nfields)]
    return [
        tuple(
            None if (value := result.get_value(row, n)) is None else load(value)
            for n, load in enumerate(columns)
        )
        for row in range(result.ntuples)
    ]


def _read_failure(result: pq.abc.PGresult) -> SqlError:
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    return read_error(state.decode(), message.decode(errors="replace"))


def _dumped(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, list):  # each as hexadecimal digits
        return b"{%s}" % b",".join(rb'"\\x%s"' % each.encode().hex().encode() for each in value)
    return str(value).encode()
