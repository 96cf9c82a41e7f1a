"""Which exchange with the servers there is for which request: what both stores share."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from holdfast.core.messages import (
    Acquire,
    Answer,
    Break,
    Extend,
    Held,
    Inspect,
    Read,
    Release,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd import cells, inspect
from holdfast.engines.etcd.commands import Steps
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.sessions import Claim, Registry
from holdfast.engines.etcd.waiters import Watches


class Exchanges:
    """All exchanges of one client. `claims` is shared with `guard`."""

    def __init__(self, host: StoreHost, claims: dict[str, Claim]) -> None:
        self._clock = host.clock
        self.registry = Registry(host, claims)
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


def is_waiting(requests: Sequence[Request], answers: Sequence[Answer]) -> bool:
    """Whether a place in the queue was asked for, and the lock is held."""
    first = requests[0]
    return isinstance(first, Acquire) and first.queue and isinstance(answers[0], Held)


def holder_of(requests: Sequence[Request]) -> str:
    """The holder of these requests; empty if they are not about a lease."""
    first = requests[0]
    return first.holder if isinstance(first, (Acquire, Extend, Release)) else ""
