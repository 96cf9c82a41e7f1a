"""Which exchange there is for which request, and with which endpoint: what all stores share."""

import secrets
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
from holdfast.engines.etcd import cells, inspect
from holdfast.engines.etcd.commands import Call, Calls
from holdfast.engines.etcd.connection import (
    Connection,
    Connections,
    Failover,
    NoAnswer,
    Rejected,
    accepted,
)
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.registry import Claim, Registry
from holdfast.engines.etcd.waiters import TICK, Watches

T = TypeVar("T")

OTHERS: dict[type, Callable[..., Calls[Sequence[Answer]]]] = {
    Inspect: inspect.inspect,
    List: inspect.list_locks,
    Read: cells.read,
    Write: cells.write,
}

CLOSE_WITHIN = 1.0
"""Seconds for the servers to answer when the client is closed."""


class Send(NamedTuple):
    """Send these to that endpoint by that instant. Gives the replies."""

    calls: list[Call]
    connection: Connection
    until: float


Effects: TypeAlias = Generator[Send | Sleep, Any, T]
"""What a store performs. It throws `NoAnswer` in, or `Rejected`."""


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

    def forget(self) -> None:
        """In a forked child: everything is the parent's."""
        self.registry.begin()
        self.watches.begin()

    def _exchange(
        self, begin: Callable[[], Calls[T]], until: float, *, once: bool = False
    ) -> Effects[T | Failed]:
        """Have an exchange with one endpoint after the other, until one of them answers. `once`:
        only with the first, since what may have been done must not be done again."""
        endpoints = Failover(self._connections, self.clock, until, once=once)
        for connection, give_up_at in endpoints:
            steps = begin()
            try:
                step = next(steps)
                while True:
                    reply = yield from self._send(step, connection, give_up_at)
                    step = steps.send(reply)
            except StopIteration as stop:
                self._connections.answered(connection)
                return cast("T", stop.value)
            except NoAnswer as error:
                pause = endpoints.failed(connection, error)
            except Rejected as error:
                return Failed.at(connection.name, str(error), error.heals_in)
            finally:
                steps.close()
            yield Sleep(self.clock() + pause)
        return endpoints.failure

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
