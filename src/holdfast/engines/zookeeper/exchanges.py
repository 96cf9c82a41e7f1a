"""Which exchange with the servers there is for which request, and what runs it: what both stores
share.

If there is no reply because a connection was lost, the exchange begins again, unless what may have
been done must not be done again.

`side_by_side` runs exchanges. It yields what they wait for, one after the other: a `Sleep` or an
`Await`, which a store performs by blocking, or by awaiting.
"""

import random
from collections.abc import Callable, Generator, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)

from holdfast.core.effects import Sleep
from holdfast.core.messages import (
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Inspect,
    List,
    Read,
    Release,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.queue import Rejected
from holdfast.engines.zookeeper import inspect
from holdfast.engines.zookeeper.commands import Tree
from holdfast.engines.zookeeper.connection import Connection
from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Claim, Registry
from holdfast.engines.zookeeper.sessions import (
    HEARTBEATS,
    Calls,
    Send,
    Session,
    Sessions,
    Terms,
)

T = TypeVar("T")

CHANCE = random.Random()  # noqa: S311 - not a secret

ANSWERS = (NoNodeError, NodeExistsError, BadVersionError)
"""Errors that are answers to every call; a call may have more of them. After any other error, the
outcome is unknown."""

LOST = (ConnectionLoss, SessionExpiredError)
"""Errors after which there will be another connection."""

FOR_GOOD = (NoAuthError, AuthFailedError, InvalidACLError)
"""Errors that waiting does not heal."""

OTHERS: dict[type, Callable[..., Calls[Answer]]] = {
    Inspect: inspect.inspect,
    List: inspect.list_locks,
    Break: inspect.break_lock,
    Read: inspect.read_cell,
    Write: inspect.write_cell,
}

TOO_LATE = "did not answer in time"


class NoAnswer(Exception):
    """No server has answered: the outcome is unknown. To begin again may find it out."""

    def __init__(
        self, why: str, heals_in: float | None = None, *, may_begin_again: bool = False
    ) -> None:
        super().__init__(why)
        self.heals_in, self.may_begin_again = heals_in, may_begin_again


class Await(NamedTuple):
    """Wait until one of kazoo's results is there, or that instant has come."""

    result: Any
    until: float


Waits: TypeAlias = Generator[Await | Sleep, None, T]


class Exchanges:
    """All exchanges of one client."""

    def __init__(
        self,
        terms: Terms,
        chroot: str,
        host: StoreHost,
        connect: Callable[..., Connection] = Connection,
        chance: random.Random = CHANCE,
    ) -> None:
        self.clock, self.emit = host.clock, host.emit
        self.sessions = Sessions(terms, host.clock, self._lose, connect, chance)
        self.registry = Registry(host.notify)
        self._host = host
        self._tree = Tree(chroot)
        self._locks = Locks(self._tree, self.sessions, self.registry, host.clock, chance)

    def ask(self, requests: Sequence[Request], until: float) -> Waits[list[Answer]]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        asked_at = self.clock()
        return side_by_side([self._answer(request, asked_at, until) for request in requests])

    @property
    def pause(self) -> float:
        """Seconds between two heartbeats."""
        return self.sessions.terms.tick / HEARTBEATS

    def beat(self) -> Waits[None]:
        """Send the heartbeats of all sessions, and release what is overdue."""
        for session in self.sessions:
            session.heartbeat()
        until = self.clock() + self.sessions.terms.tick / 4
        overdue = self.registry.overdue(self.clock())
        yield from side_by_side([self._release(claim, until) for claim in overdue])

    def _answer(self, request: Request, asked_at: float, until: float) -> Waits[Answer]:
        begin: Callable[[], Calls[Answer]]
        if isinstance(request, (Extend, Release)):
            claim = self.registry.find(request.holder)
            if claim is None:
                return NOT_YOURS
            if isinstance(request, Release):
                return (yield from self._release(claim, until))
            if claim.ends_at <= asked_at:
                return NOT_YOURS
            begin = partial(self._locks.extend, request, claim, asked_at)
        elif isinstance(request, Acquire):
            begin = partial(self._locks.acquire, request, asked_at)
        else:
            begin = partial(OTHERS[type(request)], self._tree, self.sessions, request)
        once = isinstance(request, (Break, Write))
        return (yield from self._exchange(begin, until, once=once))

    def _release(self, claim: Claim, until: float) -> Waits[Answer]:
        # Once: a place that is gone the second time was deleted the first time, or was lost before.
        return self._exchange(partial(self._locks.release, claim), until, once=True)

    def _lose(self, session: Session) -> None:
        """A session has ended, and with it all its leases."""
        if holders := self.registry.held_in(session):
            self._host.lose(holders)

    def _exchange(
        self, begin: Callable[[], Calls[Answer]], until: float, *, once: bool = False
    ) -> Waits[Answer]:
        """Have an exchange with the servers, until it is over, or its time is. `once`: it must not
        begin again."""
        name = self.sessions.terms.servers.name
        while True:
            try:
                return (yield from self._run(begin(), until))
            except Rejected as error:
                return Failed.at(name, str(error), error.heals_in)
            except NoAnswer as error:
                if once or not error.may_begin_again:
                    return Failed.at(name, str(error), error.heals_in)

    def _run(self, steps: Calls[Answer], until: float) -> Waits[Answer]:
        try:
            step = next(steps)
            while True:
                replies: list[Any] = []
                if isinstance(step, Send):
                    replies = yield from self._replies(step, until)
                else:
                    yield Sleep(min(step.until, until))
                    if self.clock() >= until:
                        raise NoAnswer(TOO_LATE)
                step = steps.send(replies)
        except StopIteration as stop:
            return cast("Answer", stop.value)
        finally:
            steps.close()

    def _replies(self, step: Send, until: float) -> Waits[list[Any]]:
        """Send some calls; returns their replies."""
        session = step.session
        while not (ready := session.ready).ready():
            if not (yield from _is_there(ready, until)):
                raise _too_late(session)
        if ready.exception is not None:
            raise Rejected(str(ready.exception), inf)
        sent_at = self.clock()
        sent = [session.send(call) for call in step.calls]
        for result in reversed(sent):  # they come in order: after the last, hardly any is missing
            if not (yield from _is_there(result, until)):
                raise _too_late(session)
        replies = []
        for call, result in zip(step.calls, sent, strict=True):
            error: BaseException | None = result.exception
            if error is not None and not isinstance(error, (*ANSWERS, *call.answers)):
                raise _no_answer(error)
            replies.append(result.value if error is None else error)
        if any(call.by_leader for call in step.calls):
            session.answered(sent_at)
        return replies


def _is_there(result: Any, until: float) -> Waits[bool]:
    """Wait for a result, or an error; False if that comes too late."""
    if not result.ready():
        yield Await(result, until)
    return bool(result.ready())


def side_by_side(exchanges: Sequence[Waits[T]]) -> Waits[list[T]]:
    """Run exchanges; returns their results. Each sends its calls before those of any are waited
    for."""
    results: dict[int, T] = {}
    waiting: dict[int, Await | Sleep] = {}

    def go_on(number: int) -> None:
        waiting.pop(number, None)
        try:
            waiting[number] = next(exchanges[number])
        except StopIteration as stop:
            results[number] = stop.value

    try:
        for number in range(len(exchanges)):
            go_on(number)
        while waiting:
            for number, wait in list(waiting.items()):
                yield wait
                go_on(number)
    finally:
        for each in exchanges:
            each.close()
    return [results[number] for number in range(len(exchanges))]


def _too_late(session: Session) -> NoAnswer:
    return NoAnswer(f"{TOO_LATE} ({session.last_error})" if session.last_error else TOO_LATE)


def _no_answer(error: BaseException) -> NoAnswer:
    # kazoo's errors seldom have a text
    text = (
        (str(error) or type(error).__name__) if isinstance(error, KazooException) else repr(error)
    )
    heals_in = inf if isinstance(error, FOR_GOOD) else None
    for_good = isinstance(error, ConnectionClosedError)  # which kazoo takes for an expiry
    return NoAnswer(text, heals_in, may_begin_again=isinstance(error, LOST) and not for_good)
