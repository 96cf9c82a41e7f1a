"""Asking an SQL server, as both stores do it: what to say, when to say it again, when to give up.

What can happen to a statement, and what then:

- It met another one, and was undone: it is said again, after a short pause, until its time is over.
- The table is not there: it is made, once, and the statement is said again.
- The connection broke: a request that is harmless to repeat is asked once more, on another one. The
  server may still carry out the first. An acquire is the same holder's, so both find one grant; if
  it comes so late that nobody waits for it any more, it does nothing. Everything else has failed,
  and nobody knows whether it was done.
- The server refuses it: that has failed.
"""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

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
from holdfast.engines.sql.links import (
    BrokenError,
    ConflictError,
    MissingError,
    RefusedError,
    Row,
    SqlError,
)

REPEATABLE = (Acquire, Extend, Inspect, List, Read)

CONNECTING = 0.3
"""How long making a connection may take at the least."""

LEAST_PATIENCE = 0.05
"""How long a statement of one who waits may take at the least."""

FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.05


@dataclass(frozen=True, slots=True)
class Pause:
    """Stand back for so many seconds."""

    seconds: float


T = TypeVar("T")

Step: TypeAlias = Pause | Any
"""A pause, or a statement of the dialect, which gives rows or raises an `SqlError`."""
Steps: TypeAlias = Generator[Step, list[Row], list[Answer]]


class Speech(Protocol):
    """A dialect: what to say for each request. The generators yield statements."""

    node: str

    def answer(self, request: Request, until: float) -> Generator[Any, list[Row], Answer]:
        """Answer one request."""
        ...

    def extend_all(self, requests: Sequence[Extend]) -> Generator[Any, list[Row], list[Answer]]:
        """Answer many extensions at once."""
        ...

    def create(self) -> Generator[Any, list[Row], None]:
        """Make the tables."""
        ...

    @property
    def ddl(self) -> str:
        """What makes the tables."""
        ...


def converse(speech: Speech, requests: Sequence[Request], until: float, clock: Clock) -> Steps:
    """Answer each request, in order."""
    if len(requests) > 1:
        extensions = [request for request in requests if isinstance(request, Extend)]
        if len(extensions) == len(requests):
            return (yield from _extend_all(speech, extensions, until, clock))
    answers: list[Answer] = []
    for request in requests:
        insistence = _Insistence(speech, until, clock, isinstance(request, REPEATABLE))
        try:
            answers.append((yield from insistence.say(speech.answer(request, until))))
        except SqlError as error:
            answers.append(Failed.at(speech.node, str(error)))
    return answers


def _extend_all(speech: Speech, requests: Sequence[Extend], until: float, clock: Clock) -> Steps:
    insistence = _Insistence(speech, until, clock, may_repeat=True)
    try:
        return (yield from insistence.say(speech.extend_all(requests)))
    except SqlError as error:
        return [Failed.at(speech.node, str(error))] * len(requests)


def holder_of(requests: Sequence[Request]) -> str | None:
    """Whose lock a request may make, or end: what is asked next about it must not overtake it."""
    request = requests[0]
    return request.holder if isinstance(request, (Acquire, Release)) else None


def time_to_answer(until: float, now: float) -> float:
    """Until when to wait for the answer to one who waits for a lock. Their own time may be as good
    as over, and that is no failure of the server's, nor of the connection."""
    return max(until, now + LEAST_PATIENCE)


def connecting_until(until: float, now: float) -> float:
    """Until when a connection may be made. It may take longer than what it is made for: then the
    next request finds it."""
    return max(until, now + CONNECTING)


def all_busy(connections: int) -> str:
    """Why nothing could be said."""
    if connections == 1:
        return "the one connection of this client was busy all the time"
    return f"all {connections} connections of this client are busy"


def check_time(until: float, now: float) -> None:
    """Nothing is said any more if nobody would wait for the answer."""
    if now >= until:
        raise RefusedError("there was no connection in time")


@dataclass(slots=True)
class _Insistence:
    """Says the statements of a script, each of them again where that makes sense."""

    speech: Speech
    until: float
    clock: Clock
    may_repeat: bool
    """Whether what may have been done already may be done again."""
    may_create: bool = True

    def say(self, script: Generator[Any, list[Row], T]) -> Generator[Step, list[Row], T]:
        """Say the script to its end; raises what could not be helped."""
        statement = next(script)
        tries = 0
        while True:
            try:
                rows = yield statement
            except SqlError as error:
                if self.clock() >= self.until:
                    raise
                yield from self._help(error, tries)
                tries += 1
                continue
            try:
                statement = script.send(rows)
                tries = 0
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # it is a T

    def _help(self, error: SqlError, tries: int) -> Generator[Step, list[Row], None]:
        """Do what lets the statement be said again; or raise, if there is nothing."""
        if isinstance(error, ConflictError):
            yield Pause(_pause(tries))
        elif isinstance(error, MissingError) and self.may_create:
            self.may_create = False
            yield from self._create(error)
        elif isinstance(error, BrokenError) and self.may_repeat:
            self.may_repeat = False
        else:
            raise error

    def _create(self, missing: MissingError) -> Generator[Step, list[Row], None]:
        try:
            yield from self.say(self.speech.create())
        except RefusedError as refusal:
            raise RefusedError(
                f"{missing}, and this role may not make it ({refusal}); have somebody say:\n"
                f"{self.speech.ddl}"
            ) from None


def _pause(tries: int) -> float:
    ceiling = min(FIRST_PAUSE * 2 ** min(tries, 10), LONGEST_PAUSE)
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - no secret
