"""Work that is left out where another holder does it, or has done it.

`lock.or_skip` runs it unless the lock is held. `client.once(name, every=...)` runs it at most once
in each period: while it runs, the lock keeps others out; when it has ended, the period is noted in
a cell, which keeps them out until the next one begins. If a run fails, or its host does, nothing is
noted, and another may run.
"""

import functools
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
)

from holdfast.cell import AsyncCell, Cell
from holdfast.core.ownership import Blocks
from holdfast.core.records import Versioned
from holdfast.drivers.common import Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import LockLost
from holdfast.functions import (
    check_async_function,
    check_plain_function,
    hide_first_parameter,
    not_a_coroutine,
)
from holdfast.lease import AsyncLease, BaseLease, Lease

if TYPE_CHECKING:
    from holdfast.drivers.aio import AsyncDriver
else:
    AsyncDriver = Driver  # importing asyncio takes time that threads do not need

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Driver)
L = TypeVar("L")


class Acquirable(Protocol):
    """A lock for threads, as far as it is needed here."""

    @property
    def name(self) -> str:
        """The name of the lock."""
        ...

    def acquire(self, blocking: bool = ..., timeout: float | None = ...) -> Lease | None:
        """Take it."""
        ...


class AsyncAcquirable(Protocol):
    """A lock for asyncio, as far as it is needed here."""

    @property
    def name(self) -> str:
        """The name of the lock."""
        ...

    async def acquire(self, blocking: bool = ..., timeout: float | None = ...) -> AsyncLease | None:
        """Take it."""
        ...


class Run(NamedTuple, Generic[L]):
    """What a block was entered with."""

    lease: L | None
    period: float = 0.0
    """When the period began that it is the run of."""
    version: int = 0
    """That of the cell."""


class BaseOrSkip(Generic[D, L]):
    """What is the same for threads and asyncio: the lock, and the open blocks."""

    def __init__(
        self, driver: D, lock: "Acquirable | AsyncAcquirable", timeout: float | None
    ) -> None:
        self._driver = driver
        self._timeout = timeout or 0.0
        self._blocks: Blocks[Run[L]] = Blocks()
        self._name = lock.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"


class OrSkip(BaseOrSkip[ThreadDriver, Lease]):
    """Skips its work where another holder has the lock, for threads: see `Lock.or_skip`.

    >>> import holdfast
    >>> client = holdfast.Client("memory://skip-example")
    >>> with client.lock("nightly").or_skip as lease:
    ...     print("skipped" if lease is None else "working")
    working
    >>> client.close()
    """

    def __init__(self, driver: ThreadDriver, lock: Acquirable, timeout: float | None) -> None:
        super().__init__(driver, lock, timeout)
        self._lock = lock

    def _begin(self) -> Run[Lease]:
        return Run(self._lock.acquire(timeout=self._timeout))

    def _note(self, run: Run[Lease]) -> None:
        """The block has ended without an error."""

    def __enter__(self) -> Lease | None:
        run = self._begin()
        self._blocks.enter(self._driver.current(), run)
        return run.lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run = self._blocks.leave(self._driver.current())
        if run.lease is None:
            return
        try:
            if error is None:
                self._note(run)
        except BaseException as failure:
            run.lease.__exit__(type(failure), failure, failure.__traceback__)
            raise
        run.lease.__exit__(kind, error, trace)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorate a function: it runs, or returns None at once."""
        check_plain_function(function)

        @functools.wraps(function)
        def run_or_skip(*args: P.args, **kwargs: P.kwargs) -> R | None:
            with self as lease:
                if lease is None:
                    return None
                return not_a_coroutine(function, function(*args, **kwargs))

        return run_or_skip

    def with_lease(self, function: Callable[Concatenate[Lease, P], R]) -> Callable[P, R | None]:
        """Decorate a function, and call it with the lease as its first argument."""
        check_plain_function(function)

        @functools.wraps(function)
        def run_or_skip(*args: P.args, **kwargs: P.kwargs) -> R | None:
            with self as lease:
                if lease is None:
                    return None
                return not_a_coroutine(function, function(lease, *args, **kwargs))

        hide_first_parameter(run_or_skip, function)
        return run_or_skip


class AsyncOrSkip(BaseOrSkip[AsyncDriver, AsyncLease]):
    """Skips its work where another holder has the lock, for asyncio: see `Lock.or_skip`.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-skip-example") as client:
    ...         async with client.lock("nightly").or_skip as lease:
    ...             print("skipped" if lease is None else "working")
    >>> asyncio.run(main())
    working
    """

    def __init__(self, driver: AsyncDriver, lock: AsyncAcquirable, timeout: float | None) -> None:
        super().__init__(driver, lock, timeout)
        self._lock = lock

    async def _begin(self) -> Run[AsyncLease]:
        return Run(await self._lock.acquire(timeout=self._timeout))

    async def _note(self, run: Run[AsyncLease]) -> None:
        """The block has ended without an error."""

    async def __aenter__(self) -> AsyncLease | None:
        run = await self._begin()
        if run.lease is not None:
            await run.lease.__aenter__()
        self._blocks.enter(self._driver.current(), run)
        return run.lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run = self._blocks.leave(self._driver.current())
        if run.lease is None:
            return
        try:
            if error is None:
                await self._note(run)
        except BaseException as failure:
            await run.lease.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        await run.lease.__aexit__(kind, error, trace)

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        """Decorate a coroutine function: it runs, or returns None at once."""
        check_async_function(function)

        @functools.wraps(function)
        async def run_or_skip(*args: P.args, **kwargs: P.kwargs) -> R | None:
            async with self as lease:
                return None if lease is None else await function(*args, **kwargs)

        return run_or_skip

    def with_lease(
        self, function: Callable[Concatenate[AsyncLease, P], Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        """Decorate a coroutine function, and call it with the lease as its first argument."""
        check_async_function(function)

        @functools.wraps(function)
        async def run_or_skip(*args: P.args, **kwargs: P.kwargs) -> R | None:
            async with self as lease:
                return None if lease is None else await function(lease, *args, **kwargs)

        hide_first_parameter(run_or_skip, function)
        return run_or_skip


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

    def __init__(
        self,
        driver: ThreadDriver,
        lock: Acquirable,
        timeout: float | None,
        cell: Cell,
        every: float,
    ) -> None:
        super().__init__(driver, lock, timeout)
        self._cell, self._every = cell, every

    def _begin(self) -> Run[Lease]:
        lease = self._lock.acquire(timeout=self._timeout)
        if lease is None:
            return Run(None)
        try:
            run = next_run(lease, self._cell.get(), self._every, time.time())
        except BaseException as failure:
            lease.__exit__(type(failure), failure, failure.__traceback__)
            raise
        if run.lease is None:
            lease.release()
        return run

    def _note(self, run: Run[Lease]) -> None:
        if run.lease is not None:
            run.lease.ensure_held()
            if not self._cell.set(repr(run.period), expect=run.version):
                raise _overtaken(run.lease)


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

    def __init__(
        self,
        driver: AsyncDriver,
        lock: AsyncAcquirable,
        timeout: float | None,
        cell: AsyncCell,
        every: float,
    ) -> None:
        super().__init__(driver, lock, timeout)
        self._cell, self._every = cell, every

    async def _begin(self) -> Run[AsyncLease]:
        lease = await self._lock.acquire(timeout=self._timeout)
        if lease is None:
            return Run(None)
        try:
            run = next_run(lease, await self._cell.get(), self._every, time.time())
        except BaseException as failure:
            await lease.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        if run.lease is None:
            await lease.release()
        return run

    async def _note(self, run: Run[AsyncLease]) -> None:
        if run.lease is not None:
            run.lease.ensure_held()
            if not await self._cell.set(repr(run.period), expect=run.version):
                raise _overtaken(run.lease)


def next_run(lease: L, noted: Versioned, every: float, now: float) -> Run[L]:
    """The run of the present period, by this host's calendar; without a lease if it was noted
    already. Periods are noted by the instant at which they began: if `every` changes, the next one
    still comes.

    >>> next_run("mine", Versioned("3600.0", 7), 3600.0, 7300.0)
    Run(lease='mine', period=7200.0, version=7)
    >>> next_run("mine", Versioned("7200.0", 8), 3600.0, 7300.0)
    Run(lease=None, period=0.0, version=0)
    """
    period = now // every * every
    if noted.value is None:
        return Run(lease, period, noted.version)
    try:
        last = float(noted.value)
    except ValueError:
        raise ValueError(
            f"name: its cell is in use for something else: it holds {noted.value!r}, and not the "
            "time of the last run"
        ) from None
    return Run(lease, period, noted.version) if last < period else Run(None)


def _overtaken(lease: BaseLease[Any]) -> LockLost:
    return LockLost(lease.name, lease.fence, "another run was noted meanwhile")
