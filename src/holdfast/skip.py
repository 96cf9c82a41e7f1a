"""Work that is left out where another holder does it, or has done it.

`lock.or_skip` runs it unless the lock is held. `client.once(name, every=...)` runs it at most once
in each period: while it runs, the lock keeps others out; when it has ended, the period is noted in
a cell, which keeps them out until the next one begins. If a run fails, or its host does, nothing is
noted, and another may run.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from holdfast.blocks import AsyncWithBlocks, Error, Kind, Trace, WithBlocks, async_inside, inside
from holdfast.core.ownership import Block, Blocks, place_of
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import LockLost
from holdfast.lease import AsyncLease, BaseLease, Lease

D = TypeVar("D", bound=Driver)
P = ParamSpec("P")
R = TypeVar("R")


class Run:
    """One block, for threads: its lease, if it has one, and what to do when it has succeeded."""

    def __init__(self, lease: Lease | None, note: Callable[[], None] | None = None) -> None:
        self.lease = lease
        self._note = note

    @property
    def _depth(self) -> int:
        return self.lease._depth if self.lease else 0

    def _leave(self, error: BaseException | None) -> None:
        if self.lease is None:
            return
        try:
            if error is None and self._note is not None:
                self._note()
        except BaseException as failure:
            self.lease._leave(failure)
            raise
        self.lease._leave(error)

    def _interrupted(self, depth: int) -> None:
        if self.lease is not None:
            self.lease._interrupted(depth)


class AsyncRun:
    """The same for asyncio."""

    def __init__(
        self, lease: AsyncLease | None, note: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.lease = lease
        self._note = note

    async def __aexit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        if self.lease is None:
            return
        try:
            if error is None and self._note is not None:
                await self._note()
        except BaseException as failure:
            await self.lease.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        await self.lease.__aexit__(kind, error, trace)


class BaseOrSkip(Generic[D]):
    """What is the same for threads and asyncio: how the lock is acquired, and the open blocks."""

    def __init__(
        self,
        driver: D,
        name: str,
        acquire: Callable[[], Any],
        cell: Any = None,
        every: float = 0.0,
    ) -> None:
        """`acquire`: gives a lease, or None. `cell` and `every`: only for `once`."""
        self._driver, self._name, self._acquire = driver, name, acquire
        self._cell, self._every = cell, every
        self._blocks: Blocks[Any] = Blocks()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"


class OrSkip(WithBlocks, BaseOrSkip[ThreadDriver]):
    """Skips its work where another holder has the lock, for threads: see `Lock.or_skip`.

    >>> import holdfast
    >>> client = holdfast.Client("memory://skip-example")
    >>> with client.lock("nightly").or_skip as lease:
    ...     print("skipped" if lease is None else "working")
    working
    >>> client.close()
    """

    def _begin(self, lease: Lease) -> Run:
        return Run(lease)

    def __enter__(self) -> Lease | None:
        run, lease = Run(None), None
        try:
            lease = self._acquire()
            if lease is not None:
                run = self._begin(lease)
            if run.lease is not None:
                run.lease.ensure_held()
            self._blocks.enter(Block(self._driver.current(), run, place_of(sys._getframe(1))))
            return run.lease
        except BaseException as failure:  # a Ctrl-C may come on the way
            self._blocks.forget(run)
            if lease is not None:
                lease.__exit__(type(failure), failure, failure.__traceback__)
            raise

    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorate a `function`: it runs, or returns None at once."""
        return inside(self, function)

    def with_lease(self, function: Callable[Concatenate[Lease, P], R]) -> Callable[P, R | None]:
        """Decorate a `function`, and call it with the lease as its first argument."""
        return inside(self, function, with_lease=True)


class AsyncOrSkip(AsyncWithBlocks, BaseOrSkip[AsyncDriver]):
    """Skips its work where another holder has the lock, for asyncio: see `Lock.or_skip`.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-skip-example") as client:
    ...         async with client.lock("nightly").or_skip as lease:
    ...             print("skipped" if lease is None else "working")
    >>> asyncio.run(main())
    working
    """

    async def _begin(self, lease: AsyncLease) -> AsyncRun:
        return AsyncRun(lease)

    async def __aenter__(self) -> AsyncLease | None:
        place = place_of(sys._getframe(1))
        run = AsyncRun(None)
        lease = await self._acquire()
        try:
            if lease is not None:
                run = await self._begin(lease)
            if run.lease is not None:
                await run.lease.__aenter__()
        except BaseException as failure:
            if lease is not None:
                await lease.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        self._blocks.enter(Block(self._driver.current(), run, place))
        return run.lease

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        """Decorate a coroutine `function`: it runs, or returns None at once."""
        return async_inside(self, function)

    def with_lease(
        self, function: Callable[Concatenate[AsyncLease, P], Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        """Decorate a coroutine `function`, and call it with the lease as its first argument."""
        return async_inside(self, function, with_lease=True)


class Once(OrSkip):
    """Runs its work at most once in each period over all clients, for threads: see `Client.once`.

    >>> import holdfast
    >>> client = holdfast.Client("memory://once-example")
    >>> @client.once("report", every=86400)
    ... def report():
    ...     return "sent"
    >>> report(), report()
    ('sent', None)
    >>> client.close()
    """

    def _begin(self, lease: Lease) -> Run:
        noted, version = self._cell.get()
        period = next_period(noted, self._every, time.time())
        if period is None:
            lease.release()
            return Run(None)

        def note() -> None:
            lease.ensure_held()
            if not self._cell.set(repr(period), expect=version):
                raise _overtaken(lease)

        return Run(lease, note)


class AsyncOnce(AsyncOrSkip):
    """Runs its work at most once in each period over all clients, for asyncio: as `Once`.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-once-example") as client:
    ...         for _ in range(2):
    ...             async with client.once("report", every=86400) as lease:
    ...                 print("sent" if lease else "was sent today")
    >>> asyncio.run(main())
    sent
    was sent today
    """

    async def _begin(self, lease: AsyncLease) -> AsyncRun:
        noted, version = await self._cell.get()
        period = next_period(noted, self._every, time.time())
        if period is None:
            await lease.release()
            return AsyncRun(None)

        async def note() -> None:
            lease.ensure_held()
            if not await self._cell.set(repr(period), expect=version):
                raise _overtaken(lease)

        return AsyncRun(lease, note)


def next_period(noted: bytes | str | None, every: float, now: float) -> float | None:
    """When the present period began, by this host's calendar; None if a run in it was noted
    already. Periods are noted by the instant at which they began: if `every` changes, the next one
    still comes.

    >>> next_period("3600.0", 3600.0, 7300.0)
    7200.0
    >>> next_period("7200.0", 3600.0, 7300.0)
    """
    period = now // every * every
    if noted is None:
        return period
    try:
        last = float(noted)
    except ValueError:
        raise ValueError(
            f"name: its cell is in use for something else: it holds {noted!r}, and not the "
            "time of the last run"
        ) from None
    return period if last < period else None


def _overtaken(lease: BaseLease[Any]) -> LockLost:
    return LockLost(lease.name, lease.fence, "another run was noted meanwhile")
