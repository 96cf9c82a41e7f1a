"""The steps of an exchange with the servers, and what runs them: the same for threads and asyncio.

The steps are a generator. It yields a `Send` of calls that go out together in one session, or a
`Sleep`, and is sent the replies: a result, or one of the errors that are `ANSWERS`. It is closed in
the middle if there is no reply. If that is because a connection was lost, the exchange begins
again, unless what may have been done must not be done again.

`side_by_side` runs exchanges. It yields what they wait for, one after the other: a `Sleep` or an
`Await`, which a store performs by blocking, or by awaiting.
"""

from collections.abc import Callable, Generator, Sequence
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar

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
    UnimplementedError,
)

from holdfast.core.effects import Sleep
from holdfast.core.messages import Failed
from holdfast.core.ports import Clock
from holdfast.engines.zookeeper.commands import Call
from holdfast.engines.zookeeper.sessions import Session

T = TypeVar("T")

ANSWERS = (NoNodeError, NodeExistsError, BadVersionError)
"""Errors that are answers to every call; a call may have more of them. After any other error, the
outcome is unknown."""

LOST = (ConnectionLoss, SessionExpiredError)
"""Errors after which there will be another connection."""

FOR_GOOD = (NoAuthError, AuthFailedError, InvalidACLError)
"""Errors that waiting does not heal."""

TOO_LATE = "did not answer in time"

STOPPED = 0.5
"""Seconds: a process that is woken so much later than planned was stopped, or the machine slept."""

GRACE = 1.0
"""Seconds for an answer that may have come while the process was stopped."""


class Rejected(Exception):
    """The request is refused; the text is the reason."""

    def __init__(self, why: str, heals_in: float | None = inf) -> None:
        super().__init__(why)
        self.heals_in = heals_in


class Send(NamedTuple):
    """Calls that are sent together."""

    session: Session
    calls: list[Call]


class Await(NamedTuple):
    """Wait until one of kazoo's results is there, or that instant has come."""

    result: Any
    until: float


Steps: TypeAlias = Generator[Send | Sleep, list[Any], T]
Waits: TypeAlias = Generator[Await | Sleep, None, T]
Exchange: TypeAlias = Waits[T | Failed]


def exchange(
    begin: Callable[[], Steps[T]], until: float, clock: Clock, name: str, *, once: bool = False
) -> Exchange[T]:
    """Have an exchange with the servers, whom errors call `name`, until it is over, or its time is.
    `once`: it must not begin again."""
    while True:
        steps = begin()
        try:
            step = next(steps)
            while True:
                if isinstance(step, Sleep):
                    yield Sleep(min(step.until, until))
                    replies: Any = [] if clock() < until else TOO_LATE
                else:
                    replies = yield from _replies(step, until, clock)
                if not isinstance(replies, list):
                    break
                step = steps.send(replies)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # it is a T
        except Rejected as refusal:
            return Failed.at(name, str(refusal), refusal.heals_in)
        finally:
            steps.close()
        # Its outcome is unknown. Begin again, if that may find it out.
        for_good = isinstance(replies, ConnectionClosedError)  # which kazoo takes for an expiry
        if once or for_good or not isinstance(replies, LOST):
            heals_in = inf if isinstance(replies, FOR_GOOD) else None
            return Failed.at(name, _shown(replies), heals_in)


def _replies(step: Send, until: float, clock: Clock) -> Waits[list[Any] | BaseException | str]:
    """Send some calls; returns their replies, or why there are none."""
    session = step.session
    while not (ready := session.ready).ready():
        if not (yield from _is_there(ready, until)):
            return _too_late(session)
    if ready.exception is not None:
        raise Rejected(str(ready.exception))
    sent_at = clock()
    sent = [session.send(call) for call in step.calls]
    for result in reversed(sent):  # they come in order: after the last, hardly any is missing
        if not (yield from _is_there(result, until)):
            return _too_late(session)
    replies = []
    for call, result in zip(step.calls, sent, strict=True):
        error: BaseException | None = result.exception
        if error is not None and not isinstance(error, (*ANSWERS, *call.answers)):
            return error
        replies.append(result.value if error is None else error)
        if isinstance(error, UnimplementedError):  # after which the server closes the connection
            return replies + [error] * (len(sent) - len(replies))
    if any(call.by_leader for call in step.calls):
        session.answered(sent_at)
    return replies


def _is_there(result: Any, until: float) -> Waits[bool]:
    """Wait for a result, or an error; False if that comes too late."""
    for _ in range(2):  # the second time for 0 s, unless the process was stopped
        if result.ready():
            break
        yield Await(result, until)
    return bool(result.ready())


def side_by_side(exchanges: Sequence[Exchange[T]], clock: Clock) -> Waits[list[T | Failed]]:
    """Run exchanges; returns their results. Each sends its calls before those of any are waited
    for."""
    results: dict[int, T | Failed] = {}
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
                now = clock()
                if isinstance(wait, Await) and now - wait.until > STOPPED:
                    # The process was stopped until long after that: the answer may be there, or
                    # that a session has ended.
                    yield Await(wait.result, now + GRACE)
                else:
                    yield wait
                go_on(number)
    finally:
        for each in exchanges:
            each.close()
    return [results[number] for number in range(len(exchanges))]


def _too_late(session: Session) -> str:
    return f"{TOO_LATE} ({session.last_error})" if session.last_error else TOO_LATE


def _shown(error: BaseException | str) -> str:
    """kazoo's errors seldom have a text."""
    if isinstance(error, (KazooException, str)):
        return str(error) or type(error).__name__
    return repr(error)
