"""Which exchange there is for which request, and with which endpoint: what all stores share."""

import secrets
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from holdfast.core.messages import (
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Held,
    Inspect,
    Read,
    Release,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd import cells, inspect
from holdfast.engines.etcd.commands import Call, KeepAlives, Steps
from holdfast.engines.etcd.connection import Connection, Failover, NoAnswer, Rejected
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.sessions import Claim, Registry
from holdfast.engines.etcd.waiters import Watches

T = TypeVar("T")


class Exchanges:
    """All exchanges of one client. `claims` is shared with `guard`."""

    def __init__(
        self,
        host: StoreHost,
        claims: dict[str, Claim],
        randbits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._clock = host.clock
        self.registry = Registry(host, claims, randbits)
        self.watches = Watches(host.notify)
        self.locks = Locks(self.registry, self.watches, host)

    def forget(self) -> None:
        """In a forked child: everything is the parent's."""
        self.registry.begin()
        self.watches.begin()

    def begin(self, requests: Sequence[Request]) -> Callable[[], Steps[Sequence[Answer]]]:
        """What begins the exchange for one request, or several of a kind, at an endpoint."""
        first, now = requests[0], self._clock()
        if isinstance(first, Acquire):
            return partial(self.locks.acquire, first, now)
        if isinstance(first, Release):
            return partial(self.locks.release, cast("Sequence[Release]", requests))
        if isinstance(first, Extend):
            return partial(self.locks.extend, cast("Sequence[Extend]", requests), now)
        known: dict[str, Any] = {}
        return partial(self._other, first, known)

    def _other(self, request: Any, known: dict[str, Any]) -> Steps[Sequence[Answer]]:
        if isinstance(request, Inspect):
            return [(yield from inspect.inspect(request))]
        if isinstance(request, Break):
            return [(yield from inspect.break_lock(request, known))]
        if isinstance(request, Read):
            return [(yield from cells.read(request))]
        if isinstance(request, Write):
            return [(yield from cells.write(request))]
        return [(yield from inspect.list_locks(request))]


class Perform(NamedTuple):
    """Send this to that endpoint, and give the reply by that instant."""

    step: Call | list[Call] | KeepAlives
    connection: Connection
    until: float


class Pause(NamedTuple):
    """Wait for so many seconds."""

    seconds: float


def exchange(
    begin: Callable[[], Steps[T]], endpoints: Failover
) -> Generator[Perform | Pause, Any, T | Failed]:
    """Have an exchange with one endpoint after the other, until one of them answers.

    It is sent the reply to each step; `NoAnswer` and `Rejected` are thrown in.
    """
    for connection, give_up_at in endpoints:
        steps = begin()
        try:
            step = next(steps)
            while True:
                step = steps.send((yield Perform(step, connection, give_up_at)))
        except StopIteration as stop:
            endpoints.answered(connection)
            return cast("T", stop.value)
        except NoAnswer as error:
            pause = endpoints.failed(connection, error)
        except Rejected as error:
            return Failed.at(connection.name, str(error), error.heals_in)
        finally:
            steps.close()
        yield Pause(pause)
    return endpoints.failure


def is_waiting(requests: Sequence[Request], answers: Sequence[Answer]) -> bool:
    """Whether a place in the queue was asked for, and the lock is held."""
    first = requests[0]
    return isinstance(first, Acquire) and first.queue and isinstance(answers[0], Held)


def holder_of(requests: Sequence[Request]) -> str:
    """The holder of these requests; empty if they are not about a lease."""
    first = requests[0]
    return first.holder if isinstance(first, (Acquire, Extend, Release)) else ""
