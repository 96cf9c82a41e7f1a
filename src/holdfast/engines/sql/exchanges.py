"""How an SQL server is asked: which connection a request gets, and what follows an error. Pure, so
that the store and the simulator share it: it yields effects, and is sent their results; an
`SqlError` is thrown in.

What can happen to a statement, or a transaction, and what then:

- It met another one, and was undone: it is sent again, after a short pause, until its time is over.
- A table does not exist: the tables are made, once, and it is sent again.
- The connection broke: those that are free are dropped with it, since the server may have been
  restarted; but not if it was only silent until the request's time was over. A request that is
  harmless to repeat is asked once more, on another connection. The server may still carry out the
  first. An acquire is the same holder's, so both find one grant; if it comes too late, it does
  nothing. Every other request has failed, and its outcome is unknown.
- The server refuses it: the request has failed.
- We are interrupted: the connection is closed, and the outcome is unknown.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from holdfast.core.effects import Sleep, Uniform, pause_after
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
from holdfast.engines.sql.commands import Commands
from holdfast.engines.sql.connection import (
    CLOSED,
    BrokenError,
    ConflictError,
    Connection,
    MissingError,
    RefusedError,
    SqlError,
)
from holdfast.engines.sql.dialect import VERSION, Command, ServerClock, Statement, Statements
from holdfast.engines.sql.waiters import Waiters

REPEATABLE = (Acquire, Inspect, List, Read)

CONNECTING = 0.3
"""How long opening a connection may take at the least. It may be longer than the time of what it is
opened for: then the next request finds it."""

LEAST_TIME = 0.05
"""How long an answer to a waiter may take at the least: that its own time is nearly over is no
failure of the server."""

FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.05
"""While another transaction is in the way."""


class Enter(NamedTuple):
    """Wait until one connection more may be used; gives False if none may by that instant."""

    until: float


class Open(NamedTuple):
    """Open a connection by that instant, and learn the server's clock; gives it."""

    until: float


class Run(NamedTuple):
    """Run one statement, or several as one transaction; gives the rows of each."""

    connection: Any
    statements: Sequence[Statement]
    until: float


class Create(NamedTuple):
    """Make the tables."""

    connection: Any
    until: float


T = TypeVar("T")
Effect: TypeAlias = Enter | Open | Run | Create | Sleep
Effects: TypeAlias = Generator[Effect, Any, T]


class Exchanges:
    """All exchanges of one client with its server, and its connections."""

    def __init__(
        self,
        node: str,
        statements: Statements,
        clock: Clock,
        uniform: Uniform,
        waiters: Waiters,
        connections: int,
    ) -> None:
        """`connections`: how many it has at most."""
        self._node, self._clock, self._uniform, self._most = node, clock, uniform, connections
        self.statements, self.waiters = statements, waiters
        self.server_clock = ServerClock(clock)
        self._commands = Commands(node, statements.dialect, self.server_clock, waiters)
        self._read_version = statements.version()
        self.begin()

    def begin(self) -> None:
        """Have no connection: at first, and in a forked child."""
        self._free: list[Connection] = []
        self.connections: set[Connection] = set()
        self._closed = False

    def ask(self, requests: Sequence[Request], until: float) -> Effects[list[Answer]]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request = requests[0]
        if isinstance(request, Acquire) and request.queue:
            until = max(until, self._clock() + LEAST_TIME)
        if not (yield Enter(until)):
            return self._failed(requests, f"all {self._most} connections are busy")
        answers = yield from self._answer(requests, until)
        for each in requests:
            if isinstance(each, Release):
                self.waiters.released(each.holder)
        return answers

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        self.waiters.close()
        for connection in list(self.connections):  # of which a thread may drop one meanwhile
            self._drop(connection)
        self._free.clear()

    def _answer(self, requests: Sequence[Request], until: float) -> Effects[list[Answer]]:
        if isinstance(requests[0], Extend):  # all are
            extend_all = self._commands.extend_all(cast("Sequence[Extend]", requests))
            try:
                return (yield from self._run(extend_all, until, may_repeat=True))
            except SqlError as error:
                return self._failed(requests, str(error), error.heals_in)
        answers: list[Answer] = []
        for request in requests:
            command = self._commands.answer(request, until)
            may_repeat = isinstance(request, REPEATABLE)
            try:
                answers.append((yield from self._run(command, until, may_repeat=may_repeat)))
            except SqlError as error:
                answers += self._failed((request,), str(error), error.heals_in)
        return answers

    def _run(self, command: Command[T], until: float, *, may_repeat: bool) -> Effects[T]:
        """Run a command, and its statements again where that makes sense; see above."""
        connection: Connection | None = None
        retries = _Retries(may_repeat)
        statements: tuple[Statement, ...] = ()
        try:
            while True:
                try:
                    connection = connection or (yield from self._take(until))
                    if self._clock() >= until:
                        raise RefusedError("no connection in time")
                    # Not before there is a connection, which knows the server's clock.
                    statements = statements or next(command)
                    results = yield Run(connection, statements, until)
                except SqlError as error:
                    if isinstance(error, BrokenError) and connection is not None:
                        self._drop_broken(connection, until)
                        connection = None
                    yield from self._recover(error, connection, until, retries)
                else:
                    try:
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
    ) -> Effects[None]:
        """Do what lets the statements be sent again; raise if there is nothing."""
        if self._clock() >= until:
            raise error
        if isinstance(error, ConflictError):
            seconds = pause_after(retries.conflicts, self._uniform, FIRST_PAUSE, LONGEST_PAUSE)
            yield Sleep(self._clock() + seconds)
            retries.conflicts += 1
        elif isinstance(error, MissingError) and retries.may_create and connection is not None:
            retries.may_create = False
            yield from self._create(connection, until)
        elif isinstance(error, BrokenError) and retries.may_repeat:
            retries.may_repeat = False
        else:
            raise error

    def _take(self, until: float) -> Effects[Connection]:
        """A free connection, or a new one."""
        if self._closed:
            raise RefusedError(CLOSED)
        if self._free:
            free = self._free.pop()
            try:
                if free.is_usable(until):
                    return free
            except BaseException:
                self._drop(free)
                raise
            self._drop_broken(free, until)
        opening = max(until, self._clock() + CONNECTING)
        connection: Connection = yield Open(opening)
        self.connections.add(connection)
        try:
            try:
                yield from self._check(connection, opening)
            except MissingError:
                yield from self._create(connection, opening)
        except BaseException:
            self._drop(connection)
            raise
        return connection

    def _put_back(self, connection: Connection | None) -> None:
        if connection is not None:
            self._free.append(connection)
            if self._closed:  # perhaps meanwhile
                self._drop(connection)

    def _create(self, connection: Connection, until: float) -> Effects[None]:
        try:
            yield Create(connection, until)
        except RefusedError as refusal:
            raise RefusedError(
                f"the tables could not be made ({refusal}); have them made by this:\n"
                f"{self.statements.ddl}",
                is_final=True,
            ) from None
        yield from self._check(connection, until)

    def _check(self, connection: Connection, until: float) -> Effects[None]:
        """Raise unless the tables are of our version: `MissingError` if they are not there."""
        [rows] = yield Run(connection, (self._read_version,), until)
        if not rows:
            raise MissingError("the table of versions is empty")
        if rows[0][0] != VERSION:
            raise RefusedError(
                f"the tables are of version {rows[0][0]}, and this version of holdfast knows "
                f"{VERSION}: another version of holdfast made them; upgrade this client, or name "
                "another table",
                is_final=True,
            )

    def _drop(self, connection: Connection) -> None:
        """Close it, unless another thread does so just now."""
        try:
            self.connections.remove(connection)
        except KeyError:
            return
        connection.close()

    def _drop_broken(self, connection: Connection, until: float) -> None:
        """With those that are free, unless it was only silent for as long as the request had."""
        self._drop(connection)
        while self._free and self._clock() < until:
            self._drop(self._free.pop())

    def _failed(
        self, requests: Sequence[Request], why: str, heals_in: float | None = None
    ) -> list[Answer]:
        return [Failed.at(self._node, why, heals_in)] * len(requests)


@dataclass(slots=True)
class _Retries:
    """What may still be tried for one request."""

    may_repeat: bool
    """Whether what may have been done already may be done again."""
    may_create: bool = True
    conflicts: int = 0
