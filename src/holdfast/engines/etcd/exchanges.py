"""Which exchange there is for which request, and with which endpoint: what all stores share.

One endpoint is used until it fails; then the next one is.
"""

import secrets
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from holdfast.core.effects import Sleep
from holdfast.core.messages import (
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Held,
    Inspect,
    List,
    Read,
    Release,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd import inspect
from holdfast.engines.etcd.commands import Call, Calls
from holdfast.engines.etcd.connection import (
    PAUSE,
    Connection,
    Connections,
    NoAnswer,
    accepted,
)
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.registry import Claim, Registry
from holdfast.engines.etcd.waiters import TICK, Watches
from holdfast.engines.queue import Rejected

T = TypeVar("T")

OTHERS: dict[type, Callable[..., Calls[Sequence[Answer]]]] = {
    Inspect: inspect.inspect,
    List: inspect.list_locks,
    Read: inspect.read_cell,
    Write: inspect.write_cell,
}

CLOSE_WITHIN = 1.0
"""Seconds for the servers to answer when the client is closed."""


class Send(NamedTuple):
    """Send these to that endpoint by that instant. Gives the replies."""

    calls: list[Call]
    connection: Connection
    until: float


Effects: TypeAlias = Generator[Send | Sleep, Any, T]
"""What a store performs. It throws `NoAnswer` in."""


class Exchanges:
    """All exchanges of one client. `claims` is shared with `comparison`."""

    def __init__(
        self,
        connections: Connections,
        host: StoreHost,
        claims: dict[str, Claim],
        randbits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self.clock = host.clock
        self.registry = Registry(host, claims, randbits)
        self.watches = Watches(host.notify)
        self._connections = connections
        self._locks = Locks(self.registry, self.watches, host)

    def ask(self, requests: Sequence[Request], until: float) -> Effects[Sequence[Answer]]:
        """Answer each request, of which all are of a kind; `Failed` for what could not be answered
        by `until`."""
        first, now = requests[0], self.clock()
        begin: Callable[[], Calls[Sequence[Answer]]]
        if isinstance(first, Acquire):
            begin = partial(self._locks.acquire, first, now)
        elif isinstance(first, Release):
            begin = partial(self._locks.release, cast("Sequence[Release]", requests), set())
        elif isinstance(first, Extend):
            begin = partial(self._locks.extend, cast("Sequence[Extend]", requests), now)
        elif isinstance(first, Break):
            begin = partial(inspect.break_lock, first, [])
        else:
            begin = partial(OTHERS[type(first)], first)
        answers = yield from self._exchange(begin, until, once=isinstance(first, Write))
        return [answers] * len(requests) if isinstance(answers, Failed) else answers

    def keep_waiters(self) -> Effects[object]:
        """Keep the sessions alive that waiters need."""
        return self._exchange(self._locks.keep_waiters, self.clock() + 2 * TICK)

    def end(self) -> Effects[object]:
        """Revoke all etcd leases: the client is closed."""
        revoke = partial(self._locks.revoke, self.registry.take_all())
        return self._exchange(revoke, self.clock() + CLOSE_WITHIN)

    def _exchange(
        self, begin: Callable[[], Calls[T]], until: float, *, once: bool = False
    ) -> Effects[T | Failed]:
        """Have an exchange with one endpoint after the other, until one of them answers.

        1. The current one is the first. Each of several has half of the time left.
        2. Then the first once more: its connection may have been lost long ago, which is found out
           only by using it.
        3. A member that answers, but has no leader, is asked again and again: an election passes.

        `once`: only the first is asked, since what may have been done must not be done again.
        """
        order = self._connections.order
        names = deque(order[:1] if once else [*order, order[0]])
        alone = once or len(order) == 1
        errors = dict[str, str]()
        while names and not (errors and self.clock() >= until):
            name, now = names.popleft(), self.clock()
            if self._connections.closed:
                errors[name] = "the client was closed"
                break
            connection = self._connections[name]
            try:
                give_up_at = until if alone else now + (until - now) / 2
                result = yield from self._run(begin(), connection, give_up_at)
            except Rejected as error:
                return Failed.at(name, str(error), error.heals_in)
            except NoAnswer as error:
                errors[name], electing = str(error), error.electing
            else:
                self._connections.answered(connection)
                return result
            self._connections.failed(connection, errors[name])
            if electing and not once and name not in names:
                names.append(name)
            if electing or alone:
                yield Sleep(min(self.clock() + PAUSE, until))
        return Failed(tuple(errors.items()))

    def _run(self, steps: Calls[T], connection: Connection, until: float) -> Effects[T]:
        """Have an exchange with this endpoint."""
        try:
            step = next(steps)
            while True:
                step = steps.send((yield from self._send(step, connection, until)))
        except StopIteration as stop:
            return cast("T", stop.value)
        finally:
            steps.close()

    def _send(self, step: Call | list[Call], connection: Connection, until: float) -> Effects[Any]:
        """One step. The client logs in first if it has to, and again if its login has expired."""
        if self._connections.needs_login:
            yield from self._log_in(connection, until)
        calls = step if isinstance(step, list) else [step]
        replies: list[Any] = yield Send(calls, connection, until)
        expired = [at for at, each in enumerate(replies) if self._connections.has_expired(each)]
        if expired:
            yield from self._log_in(connection, until)
            again = yield Send([calls[at] for at in expired], connection, until)
            for at, reply in zip(expired, again, strict=True):
                replies[at] = reply
        return replies if isinstance(step, list) else replies[0]

    def _log_in(self, connection: Connection, until: float) -> Effects[None]:
        self._connections.logged_in("")
        [reply] = yield Send([self._connections.login], connection, until)
        self._connections.logged_in(accepted(reply).token)


def is_waiting(requests: Sequence[Request], answers: Sequence[Answer]) -> bool:
    """Whether a place in the queue was asked for, and the lock is held."""
    first = requests[0]
    return isinstance(first, Acquire) and first.queue and isinstance(answers[0], Held)
