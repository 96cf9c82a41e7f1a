"""An exchange with the servers, step by step: the same for threads and asyncio.

The steps are a generator. It yields a `Round` of calls that go out together in one session, or a
`Pause`, and is sent the replies: a result, or one of the errors that are `ANSWERS`. It is closed in
the middle if there is no reply. If that is because a connection was lost, the exchange begins
again, unless what may have been done must not be done again.

`run` runs exchanges side by side. It yields each `Wait`, which a store performs by blocking, or by
awaiting.
"""

from collections.abc import Callable, Generator, Sequence
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
from holdfast.engines.zookeeper.commands import Call
from holdfast.engines.zookeeper.sessions import Refused, Session

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


def request_timeout(until: float, now: float) -> float:
    """Seconds to wait for an answer that is wanted by `until`. If the process was stopped until
    long after that, a little more: the answer may be there, or that a session has ended."""
    late = now - until
    return GRACE if late > STOPPED else max(0.0, -late)


class Rejected(Exception):
    """The request is refused; the text is the reason."""

    def __init__(self, why: str, heals_in: float | None = inf) -> None:
        super().__init__(why)
        self.heals_in = heals_in


class Round(NamedTuple):
    """Calls that are sent together."""

    session: Session
    calls: list[Call]


class Pause(NamedTuple):
    """Wait for a while."""

    seconds: float


class Wait(NamedTuple):
    """Wait for so many seconds, or until a result is there."""

    seconds: float
    result: Any = None
    """kazoo's, or None: just wait."""


Steps: TypeAlias = Generator[Round | Pause, list[Any], T]
Waits: TypeAlias = Generator[Wait, None, T]


@dataclass(slots=True)
class Exchange(Generic[T]):
    """An exchange in progress."""

    begin: Callable[[], Steps[T]]
    clock: Clock
    name: str
    """The servers, as errors name them."""
    once: bool = False
    """Whether it must not begin again."""
    outcome: "T | Failed | None" = None
    """Its result, when it is `over`."""
    over: bool = False
    _steps: Steps[T] | None = None
    _step: Round | Pause | None = None
    _sent: list[Any] | None = None
    _sent_at: float = 0.0

    def awaited(self) -> list[Any]:
        """Send the next calls; the results that must be there before it goes on. None: see
        `pause`."""
        if self._steps is None:
            self._steps = self.begin()
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
    def pause(self) -> float:
        """Seconds to wait before it goes on."""
        return self._step.seconds if isinstance(self._step, Pause) else 0.0

    def go_on(self) -> None:
        """The results are there, or the pause is over."""
        step = self._step
        if isinstance(step, Pause):
            self._go_on([])
        elif self._sent is not None and isinstance(step, Round):
            replies = []
            for call, result in zip(step.calls, self._sent, strict=True):
                error = result.exception
                if error is not None and not isinstance(error, (*ANSWERS, *call.answers)):
                    self._failed(error)
                    return
                replies.append(result.value if error is None else error)
            if any(call.by_leader for call in step.calls):
                step.session.answered(self._sent_at)
            self._go_on(replies)

    def run_out(self) -> None:
        """There is no time left."""
        error = self._step.session.last_error if isinstance(self._step, Round) else ""
        self.give_up(f"{TOO_LATE} ({error})" if error else TOO_LATE)

    def give_up(self, why: str, heals_in: float | None = None) -> None:
        """End it without a result."""
        self._end()
        self.outcome, self.over = Failed.at(self.name, why, heals_in), True

    def _failed(self, error: BaseException) -> None:
        """A call has failed: its outcome is unknown. Begin again, if that may find it out."""
        for_good = isinstance(error, ConnectionClosedError)  # which kazoo takes for an expiry
        if self.once or for_good or not isinstance(error, LOST):
            self.give_up(_shown(error), inf if isinstance(error, FOR_GOOD) else None)
        else:
            self._end()

    def _end(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self._steps = self._sent = None

    def _go_on(self, replies: "list[Any] | None") -> None:
        self._sent = None
        if self._steps is None:
            return
        try:
            self._step = self._steps.send(replies) if replies is not None else next(self._steps)
        except StopIteration as stop:
            self.outcome, self.over = stop.value, True
        except Rejected as refusal:
            self.give_up(str(refusal), refusal.heals_in)


def run(exchanges: "Sequence[Exchange[Any]]", until: float, clock: Clock) -> Waits[None]:
    """Run exchanges side by side: each sends its calls before the results are waited for. If this
    is closed in the middle, they end without a result."""
    running = list(exchanges)
    try:
        while running:
            awaited = [(exchange, exchange.awaited()) for exchange in running]
            for exchange, results in awaited:
                if not exchange.over:
                    yield from _go_on(exchange, results, until, clock)
            running = [exchange for exchange in running if not exchange.over]
    finally:
        for exchange in running:
            exchange.give_up("was cancelled")


def _go_on(
    exchange: Exchange[Any], results: Sequence[Any], until: float, clock: Clock
) -> Waits[None]:
    if exchange.pause:
        yield Wait(max(0.0, min(exchange.pause, until - clock())))
        there = clock() < until
    else:
        there = True
        # They come in order: after the last, hardly any is missing.
        for result in reversed(results):
            there = there and (yield from _is_there(result, until, clock))
    if there:
        exchange.go_on()
    else:
        exchange.run_out()


def _is_there(result: Any, until: float, clock: Clock) -> Waits[bool]:
    """Wait for a result, or an error; False if that comes too late."""
    for _ in range(2):  # the second time for 0 s, unless the process was stopped
        if result.ready():
            break
        yield Wait(request_timeout(until, clock()), result)
    return bool(result.ready())


def _shown(error: BaseException) -> str:
    """kazoo's errors seldom have a text."""
    if isinstance(error, (KazooException, Refused)):
        return str(error) or type(error).__name__
    return repr(error)
