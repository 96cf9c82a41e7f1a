"""What is to be said, in steps, and how far one has come with it: the same for both colours.

A *talk* is a generator. It yields a `Round` of calls that go out together in one session, or a
`Rest`, and is sent what was answered: a result, or one of the errors that are `ANSWERS`. It is
closed in the middle if there is no answer. If that is because a connection was lost, it is had once
more from the beginning, unless what may have been done must not be done again.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

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

from holdfast.core.messages import Failed
from holdfast.core.ports import Clock
from holdfast.engines.zookeeper.phrases import Call
from holdfast.engines.zookeeper.session import Refused, Session

T = TypeVar("T")

ANSWERS = (NoNodeError, NodeExistsError, BadVersionError)
"""Errors that tell how things are, whatever was said; a call may have more of them. Whatever else
is raised means that nobody knows."""

LOST = (ConnectionLoss, SessionExpiredError)
"""Errors after which there will be another connection."""

FOR_GOOD = (NoAuthError, AuthFailedError, InvalidACLError)
"""Errors that waiting does not change."""

TOO_LATE = "did not answer in time"

STOOD_STILL = 0.5
"""Whoever looks at the clock so long after it was to be woken was stopped, or its machine slept."""

GRACE = 1.0
"""Seconds for an answer that nobody could take while we stood still."""


def request_timeout(until: float, now: float) -> float:
    """Seconds to wait for an answer that is wanted by `until`. If we have stood still until long
    after that, a little more: the answer may be there, or the word that a session has ended."""
    late = now - until
    return GRACE if late > STOOD_STILL else max(0.0, -late)


class Rejected(Exception):
    """It makes no sense to go on; the text says why."""

    def __init__(self, why: str, heals_in: float | None = inf) -> None:
        super().__init__(why)
        self.heals_in = heals_in


class Round(NamedTuple):
    """What is said together."""

    session: Session
    calls: list[Call]


class Rest(NamedTuple):
    """Say nothing for a while."""

    seconds: float


Talk: TypeAlias = Generator[Round | Rest, list[Any], T]


@dataclass(slots=True)
class Conversation(Generic[T]):
    """A talk under way."""

    begin: Callable[[], Talk[T]]
    clock: Clock
    name: str
    """With whom, as an error says."""
    once: bool = False
    """Whether it must not be begun again."""
    outcome: "T | Failed | None" = None
    """What came of it, when it is `over`."""
    over: bool = False
    _talk: Talk[T] | None = None
    _step: Round | Rest | None = None
    _sent: list[Any] | None = None
    _sent_at: float = 0.0

    def awaited(self) -> list[Any]:
        """Say what is to be said now. Gives kazoo's promises that must be kept before it goes on;
        none: see `rest`."""
        if self._talk is None:
            self._talk = self.begin()
            self._go_on(None)
        step = self._step
        if self.over or not isinstance(step, Round):
            return []
        if self._sent is None:
            ready = step.session.ready
            if not ready.ready():
                return [ready]
            if ready.exception is not None:
                self.give_up(str(ready.exception), inf)
                return []
            self._sent_at = self.clock()
            self._sent = [step.session.send(call) for call in step.calls]
        return self._sent

    @property
    def rest(self) -> float:
        """Seconds to wait before it goes on."""
        return self._step.seconds if isinstance(self._step, Rest) else 0.0

    def go_on(self) -> None:
        """Whatever was awaited is there."""
        step = self._step
        if isinstance(step, Rest):
            self._go_on([])
        elif self._sent is not None and isinstance(step, Round):
            replies = []
            for call, promise in zip(step.calls, self._sent, strict=True):
                error = promise.exception
                if error is not None and not isinstance(error, (*ANSWERS, *call.answers)):
                    self._broken(error)
                    return
                replies.append(promise.value if error is None else error)
            if any(call.by_leader for call in step.calls):
                step.session.answered(self._sent_at)
            self._go_on(replies)

    def run_out(self) -> None:
        """There is no time left for it."""
        trouble = self._step.session.trouble if isinstance(self._step, Round) else ""
        self.give_up(f"{TOO_LATE} ({trouble})" if trouble else TOO_LATE)

    def give_up(self, why: str, heals_in: float | None = None) -> None:
        """Nobody knows what came of it."""
        self._end()
        self.outcome, self.over = Failed.at(self.name, why, heals_in), True

    def _broken(self, error: BaseException) -> None:
        """Nobody knows what came of it, but there may be a way to find out."""
        for_good = isinstance(error, ConnectionClosedError)  # which kazoo takes for an expiry
        if self.once or for_good or not isinstance(error, LOST):
            self.give_up(_shown(error), inf if isinstance(error, FOR_GOOD) else None)
        else:
            self._end()

    def _end(self) -> None:
        if self._talk is not None:
            self._talk.close()
        self._talk = self._sent = None

    def _go_on(self, replies: "list[Any] | None") -> None:
        self._sent = None
        if self._talk is None:
            return
        try:
            self._step = self._talk.send(replies) if replies is not None else next(self._talk)
        except StopIteration as stop:
            self.outcome, self.over = stop.value, True
        except Rejected as refusal:
            self.give_up(str(refusal), refusal.heals_in)


def _shown(error: BaseException) -> str:
    """kazoo's errors seldom have a text."""
    if isinstance(error, (KazooException, Refused)):
        return str(error) or type(error).__name__
    return repr(error)
