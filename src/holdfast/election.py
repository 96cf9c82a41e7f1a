"""An election: candidates for one lock, whose holder leads. `Election` for threads,
`AsyncElection` for asyncio.

The algorithms, and what can go wrong, are in `core/election.py`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeVar

from holdfast.core.effects import Steps
from holdfast.core.election import campaign, leader, next_leader
from holdfast.core.records import Leader
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import AcquireTimeout, ClientClosed, LockLost
from holdfast.lease import AsyncLease, Lease
from holdfast.lock import AsyncLock, BaseLock, Lock

D = TypeVar("D", bound=Driver)
K = TypeVar("K", bound=BaseLock[Any, Any])
R = TypeVar("R")


class BaseElection(Generic[D, K]):
    """What is the same for threads and asyncio: the lock, the cell, and the value."""

    _driver: D

    def __init__(self, lock: K, cell: str | None, value: str) -> None:
        lock._algorithm = partial(campaign, cell=cell, value=value)
        self._lock, self._driver, self._spec = lock, lock._driver, lock._spec
        self._cell, self._value = cell, value

    @property
    def name(self) -> str:
        """The name of the election, and of its lock."""
        return self._spec.name

    @property
    def value(self) -> str:
        """What is published when it is won."""
        return self._value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} value={self.value!r}>"

    def _leader(self) -> Steps[Leader | None]:
        return leader(self._driver.runtime, self._spec, self._cell)

    def _next_leader(self, last: object) -> Steps[Leader | None]:
        return next_leader(self._driver.runtime, self._spec, self._cell, last)


class Election(BaseElection[ThreadDriver, Lock]):
    """One leader among several candidates, for threads: see `Client.election`.

    >>> import holdfast
    >>> client = holdfast.Client("memory://election-example")
    >>> election = client.election("scheduler", value="10.0.0.7:8080")
    >>> with election.campaign() as lease:
    ...     leader = election.leader()
    ...     print(leader.value, leader.term == lease.fence)
    10.0.0.7:8080 True
    >>> print(election.leader())
    None
    >>> election.run(lambda lease: f"led in term {lease.fence}")
    'led in term 2'
    >>> client.close()
    """

    def campaign(self, timeout: float | None = None) -> Lease:
        """Wait until this candidate leads, publish its value, and give its lease, whose fence is
        the term. It leads until the lease is released or lost.

        Args:

        - `timeout`: how long to wait, in seconds, before `AcquireTimeout`. 0 tries once, None or -1
          waits forever. Default: forever.
        """
        lease = self._lock.acquire(timeout=timeout)
        if lease is None:
            raise AcquireTimeout(self.name, timeout or 0.0)
        return lease

    def leader(self) -> Leader | None:
        """Who leads now; None if there is no leader, or if it has not published its value yet."""
        return self._driver.run(self._leader())

    def observe(self) -> Iterator[Leader | None]:
        """Iterate over leaders: the present one first (None if there is none), then each change. A
        slow reader may miss some in between, and never the latest. It ends when the client is
        closed.

        It asks every `retry` seconds. An engine that is unreachable for one ttl raises
        `EngineUnavailable`.

        >>> import holdfast
        >>> client = holdfast.Client("memory://observe-example")
        >>> election = client.election("scheduler", value="10.0.0.7:8080")
        >>> changes = election.observe()
        >>> print(next(changes))
        None
        >>> lease = election.campaign()
        >>> print(next(changes).value)
        10.0.0.7:8080
        >>> client.close()
        >>> list(changes)
        []
        """
        last = self.leader()
        yield last
        while not self._driver.runtime.closed:
            try:
                last = self._driver.run(self._next_leader(last))
            except ClientClosed:
                return
            yield last

    def run(self, work: Callable[[Lease], R]) -> R:
        """Lead, and work: campaign, call `work(lease)`, and return what it returns. If the lease
        was lost by then, campaign again.

        What `work` raises is raised, after the lease was released; but `LockLost` for this lease,
        as `lease.ensure_held()` raises it, is a loss. A thread cannot be stopped from outside: let
        the work look at `lease.held`, or call `lease.ensure_held()` before each step.

        Args:

        - `work`: a function, called with the lease of each term.
        """
        if iscoroutinefunction(work):
            raise TypeError(f"work: {work!r} is async; run it in an election of an AsyncClient")
        while True:
            try:
                with self._lock as lease:
                    return work(lease)
            except LockLost as loss:
                if loss.name != self.name:
                    raise


class AsyncElection(BaseElection[AsyncDriver, AsyncLock]):
    """One leader among several candidates, for asyncio: as `Election`, with methods to await.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-election-example") as client:
    ...         election = client.election("scheduler", value="10.0.0.7:8080")
    ...         async with await election.campaign():
    ...             async for leader in election.observe():
    ...                 print(leader.value)
    ...                 break
    >>> asyncio.run(main())
    10.0.0.7:8080
    """

    async def campaign(self, timeout: float | None = None) -> AsyncLease:
        """Wait until this candidate leads, for up to `timeout` seconds, and give its lease: as
        `Election.campaign`."""
        lease = await self._lock.acquire(timeout=timeout)
        if lease is None:
            raise AcquireTimeout(self.name, timeout or 0.0)
        return lease

    async def leader(self) -> Leader | None:
        """Who leads now: as `Election.leader`."""
        return await self._driver.run(self._leader())

    async def observe(self) -> AsyncIterator[Leader | None]:
        """Iterate over leaders, from the present one on: as `Election.observe`."""
        last = await self.leader()
        yield last
        while not self._driver.runtime.closed:
            try:
                last = await self._driver.run(self._next_leader(last))
            except ClientClosed:
                return
            yield last

    async def run(self, work: Callable[[AsyncLease], Awaitable[R]]) -> R:
        """Lead, and work: campaign, await `work(lease)`, and return what it returns. If the lease
        was lost by then, campaign again.

        The work is cancelled *before* its term ends: when no renewal has succeeded until a sixth of
        its time is left, or at once when the lease is lost. When it has ended, the lease is
        released. What `work` itself raises is raised: as `Election.run`.

        Args:

        - `work`: a coroutine function, called with the lease of each term.
        """
        while True:
            term = None
            try:
                async with (
                    self._lock as lease,
                    self._driver.cancel_before_end(lease._state) as term,
                ):
                    return await work(lease)
            except TimeoutError:
                if term is None or not term.expired():
                    raise
            except LockLost as loss:
                if loss.name != self.name:
                    raise
