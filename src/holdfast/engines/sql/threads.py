"""The store of an SQL server, for threads. A thread takes a free connection, or opens another.

What can happen to a statement, or a transaction, and what then:

- It met another one, and was undone: it is sent again, after a short pause, until its time is over.
- A table does not exist: the tables are made, once, and it is sent again.
- The connection broke: a request that is harmless to repeat is asked once more, on another one. The
  server may still carry out the first. An acquire is the same holder's, so both find one grant; if
  it comes too late, it does nothing. Every other request has failed, and its outcome is unknown.
- The server refuses it: the request has failed.
- We are interrupted: the connection is closed, and the outcome is unknown.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from holdfast.core.messages import (
    Acquire,
    Answer,
    Extend,
    Failed,
    Inspect,
    List,
    Read,
    Release,
    Request,
)
from holdfast.core.ports import Clock
from holdfast.engines.sql.commands import Commands, Steps
from holdfast.engines.sql.connection import (
    CLOSED,
    BrokenError,
    ConflictError,
    Connection,
    MissingError,
    RefusedError,
    SqlError,
)

REPEATABLE = (Acquire, Extend, Inspect, List, Read)

CONNECTIONS = 8
"""How many connections a client opens at the most, besides the one that listens."""

CONNECTING = 0.3
"""How long opening a connection may take at the least. It may be longer than the time of what it is
opened for: then the next request finds it."""

LEAST_TIME = 0.05
"""How long an answer to a waiter may take at the least: that its own time is nearly over is no
failure of the server."""

FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.05

T = TypeVar("T")


class Server(Protocol):
    """One server, as a dialect knows it."""

    clock: Clock
    commands: Commands
    waiters: Any
    """A `Waiters`."""
    ddl: str

    def connect(self, until: float) -> Any:
        """Open a connection; raises `SqlError`."""
        ...

    def create(self, connection: Any, until: float) -> None:
        """Make the tables, or bring them up to date; raises `SqlError`."""
        ...

    def check(self, connection: Any, until: float) -> None:
        """Raise unless the tables are of a version that we know: `MissingError` if they are not
        there, or of the first release."""
        ...

    def extend_all(self, requests: Sequence[Extend]) -> Steps[list[Answer]]:
        """The command for many extensions at once."""
        ...


class ServerStore:
    """One server, by so many connections at the most."""

    def __init__(self, server: Server, connections: int) -> None:
        self._server, self._connections = server, connections
        self._clock = server.clock
        self._begin()

    def _begin(self) -> None:
        self._free: list[Connection] = []
        self._all: set[Connection] = set()
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._connections):
            self._permits.put(None)
        self._closed = False

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request, waiters = requests[0], self._server.waiters
        if isinstance(request, Acquire) and request.queue:
            waiters.prepare(max(0.0, until - self._clock()) / 2)
            until = max(until, self._clock() + LEAST_TIME)
        try:
            self._permits.get(timeout=max(0.0, until - self._clock()))
        except Empty:
            return self._failed(requests, f"all {self._connections} connections are busy")
        try:
            answers = self._answer(requests, until)
        finally:
            self._permits.put(None)
        for each in requests:
            if isinstance(each, Release):
                waiters.released(each.holder)
        return answers

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        self._server.waiters.close()
        for connection in list(self._all):  # of which a thread may drop one meanwhile
            self._drop(connection)
        self._free.clear()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for connection in self._all:
            connection.forget()
        self._server.waiters.forget()
        self._begin()

    def _answer(self, requests: Sequence[Request], until: float) -> list[Answer]:
        extensions = [request for request in requests if isinstance(request, Extend)]
        if len(extensions) == len(requests) > 1:
            try:
                return self._run(self._server.extend_all(extensions), until, may_repeat=True)
            except SqlError as error:
                return self._failed(requests, str(error), error.heals_in)
        answers: list[Answer] = []
        for request in requests:
            command = self._server.commands.answer(request, until)
            try:
                answers.append(
                    self._run(command, until, may_repeat=isinstance(request, REPEATABLE))
                )
            except SqlError as error:
                answers += self._failed((request,), str(error), error.heals_in)
        return answers

    def _run(self, command: Steps[T], until: float, *, may_repeat: bool) -> T:
        """Run a command, and its statements again where that makes sense; see above."""
        connection: Connection | None = None
        retries = _Retries(may_repeat)
        statements = next(command)
        try:
            while True:
                try:
                    connection = connection or self._take(until)
                    if self._clock() >= until:
                        raise RefusedError("no connection in time")
                    results = connection.run(statements, until)
                except SqlError as error:
                    if isinstance(error, BrokenError) and connection is not None:
                        self._drop(connection)
                        connection = None
                    self._recover(error, connection, until, retries)
                else:
                    statements = command.send(results)
        except StopIteration as stop:
            self._put_back(connection)
            return stop.value  # type: ignore[no-any-return]  # it is a T
        except SqlError:
            self._put_back(connection)
            raise
        except BaseException:
            if connection is not None:
                self._drop(connection)
            raise

    def _recover(
        self, error: SqlError, connection: Connection | None, until: float, retries: "_Retries"
    ) -> None:
        """Do what lets the statements be sent again; raise if there is nothing."""
        if self._clock() >= until:
            raise error
        if isinstance(error, ConflictError):
            time.sleep(_pause(retries.conflicts))
            retries.conflicts += 1
        elif isinstance(error, MissingError) and retries.may_create and connection is not None:
            retries.may_create = False
            self._create(connection, until)
        elif isinstance(error, BrokenError) and retries.may_repeat:
            retries.may_repeat = False
        else:
            raise error

    def _take(self, until: float) -> Connection:
        """A free connection, or a new one."""
        if self._closed:
            raise RefusedError(CLOSED)
        while self._free:
            free = self._free.pop()
            if free.is_usable():
                return free
            self._drop(free)
        opening = max(until, self._clock() + CONNECTING)
        connection: Connection = self._server.connect(opening)
        self._all.add(connection)
        try:
            try:
                self._server.check(connection, opening)
            except MissingError:
                self._create(connection, opening)
        except BaseException:
            self._drop(connection)
            raise
        return connection

    def _put_back(self, connection: Connection | None) -> None:
        if connection is not None:
            self._free.append(connection)
            if self._closed:  # perhaps meanwhile
                self._drop(connection)

    def _create(self, connection: Connection, until: float) -> None:
        try:
            self._server.create(connection, until)
        except RefusedError as refusal:
            raise RefusedError(
                f"the tables could not be made ({refusal}); have them made by this:\n"
                f"{self._server.ddl}",
                is_final=True,
            ) from None
        self._server.check(connection, until)

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.close()

    def _failed(
        self, requests: Sequence[Request], why: str, heals_in: float | None = None
    ) -> list[Answer]:
        return [Failed.at(self._server.commands.node, why, heals_in)] * len(requests)


@dataclass(slots=True)
class _Retries:
    """What may still be tried for one request."""

    may_repeat: bool
    """Whether what may have been done already may be done again."""
    may_create: bool = True
    conflicts: int = 0


def read_count(options: dict[str, str]) -> int:
    """How many connections a client opens at the most: the option `connections`."""
    text = options.pop("connections", str(CONNECTIONS))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise ValueError(f"connections: must be a whole number from 1 to 1000, got {text!r}")
    return int(text)


def _pause(tries: int) -> float:
    ceiling = min(FIRST_PAUSE * 2 ** min(tries, 10), LONGEST_PAUSE)
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - no secret
