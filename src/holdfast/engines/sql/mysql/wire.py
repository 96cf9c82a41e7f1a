"""One connection to MariaDB or MySQL, without any waiting: whoever has it waits.

PyMySQL makes the connection, which is the hard part: ways to log in, and TLS. From then on we speak
over its socket. Its own way of asking waits for each piece of an answer anew, puts values into the
text of statements, and closes the connection when a Ctrl-C comes; and it is for threads alone.

A Ctrl-C that strikes while somebody waits does no harm: the answer is read later. One that strikes
in the midst of sending or reading tears the wire: nobody knows what of it was done. Then the next
one to hear waits until the server has carried out what it was sent, and closes its end.
"""

import contextlib
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from holdfast.engines.inherited import detach
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.links import BrokenError, RefusedError, Row, SqlError
from holdfast.engines.sql.mysql.errors import LockedError, read_error
from holdfast.engines.sql.mysql.packets import (
    EXECUTE,
    PREPARE,
    QUERY,
    Incoming,
    Reply,
    executing,
    execution,
    framed,
    preparing,
)
from holdfast.engines.sql.mysql.statements import GREETING, SETTLE, Statement, Text
from holdfast.engines.sql.wired import SILENT

GONE = "the connection is gone"

_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_AT_A_TIME = 1 << 16

CLIENT_ERRORS = 2000
"""From this number on, an error is not the server's, but PyMySQL's."""


class Wire:
    """A connection that is made."""

    def __init__(self, connection: pymysql.Connection) -> None:
        self._connection = connection
        # There is no other way to it than its private name.
        self._socket: socket.socket = connection._sock  # noqa: SLF001 # pyright: ignore[reportAttributeAccessIssue]
        self._patience = self._socket.gettimeout()
        """PyMySQL's own."""
        self._socket.setblocking(False)
        self.fd = self._socket.fileno()
        self._prepared: dict[Text, int] = {}
        self._incoming = Incoming()
        self._outgoing = b""
        self._under_way: tuple[Statement, Reply] | None = None
        self._at_work = self._parting = False

    @property
    def owes(self) -> bool:
        """Whether an answer is to come, or at least an end."""
        return self._under_way is not None or self._at_work

    @property
    def unsent(self) -> bool:
        """Whether more is to be sent when it can be."""
        return bool(self._outgoing)

    def say(self, statement: Statement) -> None:
        """Send a statement, or as much as goes out now. One with values is prepared at first."""
        self._at_work = True
        self._say(statement)
        self._at_work = False

    def hear(self) -> list[Row] | None:
        """Send what is left to send, and read what has arrived: the rows, once all are there."""
        if self._at_work:
            self._part()
            return None
        self._at_work = True
        try:
            rows = self._hear()
        except SqlError:
            self._at_work = False
            raise
        self._at_work = False
        return rows

    def _say(self, statement: Statement) -> None:
        text, values = statement
        prepared = self._prepared.get(text)
        if not text.places:
            command, reply = framed(QUERY, text.sql), executing()
        elif prepared is not None:
            command, reply = framed(EXECUTE, execution(prepared, values)), executing()
        else:
            command, reply = framed(PREPARE, text.sql), preparing()
        next(reply)
        self._under_way = statement, reply
        self._outgoing = command
        self._flush()

    def _hear(self) -> list[Row] | None:
        self._flush()
        while (data := self._read()) is not None:
            for packet in self._incoming.feed(data):
                if (rows := self._take(packet)) is not None:
                    return rows
        return None

    def _part(self) -> None:
        """The wire is torn: tell the server that this was all, and wait for its end."""
        if not self._parting:
            self._parting = True
            self._outgoing = b""
            with contextlib.suppress(OSError):  # it is gone already
                self._socket.shutdown(socket.SHUT_WR)
        while self._read() is not None:
            pass

    def _read(self) -> bytes | None:
        """What has arrived; None if there is nothing (yet)."""
        try:
            data = self._socket.recv(_AT_A_TIME)
        except _NOT_NOW:
            return None
        except OSError as error:
            raise BrokenError(f"{GONE} ({error})") from error
        if not data:
            raise BrokenError(GONE)
        return data

    def is_whole(self) -> bool:
        """Whether the other end is still there: it says nothing unasked, but for a farewell."""
        try:
            self._socket.recv(_AT_A_TIME)
        except _NOT_NOW:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Close it. What it still owes may be carried out all the same."""
        if self._connection.open:
            self._connection.close()

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        detach(self.fd)
        self.close()

    def _flush(self) -> None:
        while self._outgoing:
            try:
                sent = self._socket.send(self._outgoing)
            except _NOT_NOW:
                return
            except OSError as error:
                raise BrokenError(f"{GONE} ({error})") from error
            self._outgoing = self._outgoing[sent:]

    def _take(self, packet: bytes) -> list[Row] | None:
        """One more packet: gives the rows if it was the last one."""
        if self._under_way is None:
            raise BrokenError(f"the server says what it was not asked: {packet[:80]!r}")
        (text, values), reply = self._under_way
        try:
            reply.send(packet)
        except StopIteration as stop:
            self._under_way = None
            rows: list[Row] = stop.value
        except SqlError as error:
            self._under_way = None
            if isinstance(error, LockedError) and text.skips_locked:
                return []
            raise
        else:
            return None
        if text.places and text not in self._prepared:
            [(self._prepared[text],)] = rows
            self._say((text, values))
            return None
        return rows


def dial(address: Mapping[str, Any], clock: ServerClock, until: float, *, returns: bool) -> Wire:
    """Connect, by blocking, begin a session, and learn the server's clock."""
    request_timeout = max(0.001, until - clock.ours())
    try:
        connection = pymysql.connect(
            **address,
            charset="utf8mb4",
            client_flag=CLIENT.FOUND_ROWS,  # a lease that is not made longer was found all the same
            connect_timeout=request_timeout,
            read_timeout=request_timeout,
            write_timeout=request_timeout,
        )
        try:
            _settle(connection, clock, returns=returns)
            return Wire(connection)
        except BaseException:
            connection.close()
            raise
    except pymysql.MySQLError as error:
        raise _why(error) from error
    except (OSError, RuntimeError) as error:  # so it says that a way to log in needs a library
        raise BrokenError(str(error)) from error


def _settle(connection: pymysql.Connection, clock: ServerClock, *, returns: bool) -> None:
    if returns:
        insist_on_mariadb(connection.get_server_info())
    with connection.cursor() as cursor:
        for sql in SETTLE:
            cursor.execute(sql)
        asked_at = clock.ours()
        cursor.execute(GREETING)
        [(now,)] = cursor.fetchall()
        clock.learn(asked_at, now / 1_000_000)


def insist_on_mariadb(version: str) -> None:
    """Raise unless the server knows what we say to MariaDB."""
    found = re.search(r"(\d+)\.(\d+)\.\d+-MariaDB", version)
    if found is None or (int(found[1]), int(found[2])) < (10, 5):
        raise RefusedError(
            f"mariadb:// needs MariaDB 10.5 or later, and this server says that it is {version}; "
            "for MySQL, and for an older MariaDB, the URL begins with mysql://"
        )


def _why(error: pymysql.MySQLError) -> BrokenError:
    """Why a connection was not made."""
    if isinstance(error.__context__, TimeoutError):
        return BrokenError(SILENT)
    match error.args:
        case (int(number), str(message)) if number < CLIENT_ERRORS:
            return BrokenError(str(read_error(number, message)))
        case (_, message):
            return BrokenError(str(message))
        case _:
            return BrokenError(str(error))
