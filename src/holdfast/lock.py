"""A lock: a description of what to acquire. `Lock` for threads, `AsyncLock` for asyncio."""

import functools
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from holdfast.core.acquire import acquire
from holdfast.core.holding import leave
from holdfast.core.queries import is_held
from holdfast.core.tenure import Claim, Tenure
from holdfast.drivers.surroundings import Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import AcquireTimeout, NotHeld
from holdfast.lease import AsyncLease, BaseLease, Lease
from holdfast.options import check_bool, check_timeout

if TYPE_CHECKING:
    from holdfast.drivers.aio import AsyncDriver
else:
    AsyncDriver = Driver  # asyncio costs those who do without it


P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Driver)
L = TypeVar("L", bound=BaseLease[Any])

OWN: Any = object()
"""Stands for "the Lock's own timeout" where no timeout was given."""

PRUNE_ABOVE = 8


class BaseLock(Generic[D, L]):
    """What is the same in both colours: who took what through this lock."""

    def __init__(
        self,
        driver: D,
        claim: Claim,
        timeout: float | None,
        reentrant: bool,
        check_ttl: Callable[[float], float],
    ) -> None:
        self._driver = driver
        self._check_ttl = check_ttl
        self._claim = claim
        self._timeout = timeout
        self._reentrant = reentrant
        self._taken: list[tuple[object, L]] = []
        self._entered: list[tuple[object, L]] = []
        self._prune_above = PRUNE_ABOVE

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._claim.name

    @property
    def ttl(self) -> float:
        """The ttl of its leases, in seconds."""
        return self._claim.ttl

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} ttl={self.ttl:g}>"

    def _patience(self, blocking: bool, timeout: Any) -> float | None:
        if timeout is OWN and blocking is True:
            return self._timeout
        if not check_bool("blocking", blocking):
            if timeout is not OWN and timeout != -1:
                raise ValueError(f"timeout: means nothing with blocking=False, got {timeout!r}")
            return 0.0
        return check_timeout(timeout)

    def _reenter(self, owner: object) -> L | None:
        """The lease that this thread or task has already, counted once more."""
        if owner is None:
            return None
        world = self._driver.world
        with world.mutex:
            now = world.clock()
            for taker, lease in reversed(list(self._taken)):
                tenure: Tenure = lease._tenure
                if taker == owner and tenure.is_held(now):
                    tenure.depth += 1
                    found: L = lease
                    return found
        return None

    def _took(self, owner: object, lease: L) -> L:
        self._taken.append((owner, lease))
        if len(self._taken) > self._prune_above:
            self._prune()
            self._prune_above = max(PRUNE_ABOVE, 2 * len(self._taken))
        return lease

    def _prune(self) -> None:
        """Forget what was released. One by one, since other threads may append meanwhile."""
        with self._driver.world.mutex:
            for taken in list(self._taken):
                if not taken[1]._tenure.unsettled:
                    self._taken.remove(taken)

    def _settle(self, lease: L) -> L:
        """A lost lease is reported once through this lock, and then forgotten."""
        if lease.lost:
            for taken in list(self._taken):
                if taken[1] is lease:
                    self._taken.remove(taken)
        return lease

    def _latest(self) -> L:
        """The lease that `release()` means."""
        owner = self._driver.current()
        with self._driver.world.mutex:
            self._prune()
            mine = [lease for taker, lease in self._taken if taker == owner and owner is not None]
            if mine:
                return self._settle(mine[-1])
            if len(self._taken) == 1:
                return self._settle(self._taken[0][1])
            others = len(self._taken)
        raise NotHeld(
            f"{self.name!r} is held {others} times through this Lock, and not by this thread or "
            "task; nothing was released: release the lease itself"
            if others
            else f"{self.name!r} is not held through this Lock; nothing was released"
        )

    def _enter(self, owner: object, lease: L | None, timeout: float | None) -> L:
        if lease is None:
            raise AcquireTimeout(
                f"{self.name!r} is held by another holder and was not freed within {timeout:g} s"
            )
        with self._driver.world.mutex:
            self._entered.append((owner, lease))
        return lease

    def _exit(self) -> L:
        """The lease that the innermost `with` of this thread or task must give back.

        That is the one it entered with; or, if the block released that one and took the lock again
        (as `threading.Condition.wait` does), the one it took last.
        """
        owner = self._driver.current()
        with self._driver.world.mutex:
            mine = [place for place, (taker, _) in enumerate(self._entered) if taker == owner]
            if not mine:
                raise NotHeld(f"{self.name!r} was not entered by this thread or task")
            lease = self._entered.pop(mine[-1])[1]
            if not lease._tenure.unsettled:
                entered = [lease for _, lease in self._entered]
                for taker, taken in self._taken:
                    if taker == owner and taken._tenure.unsettled and taken not in entered:
                        lease = taken
            return self._settle(lease)


class Lock(BaseLock[ThreadDriver, Lease]):
    """A named lock, for threads. Cheap, reusable, and shareable between threads.

    >>> import holdfast
    >>> client = holdfast.Client("memory://lock-example")
    >>> lock = client.lock("report", ttl=30)
    >>> with lock as lease:
    ...     print("working under fence", lease.fence)
    working under fence 1
    >>> @lock
    ... def report():
    ...     return lock.locked()
    >>> report()
    True
    >>> if lock.acquire(blocking=False):
    ...     lock.release()
    >>> client.close()
    """

    def acquire(self, blocking: bool = True, timeout: float | None = OWN) -> Lease | None:
        """Take it, waiting up to `timeout` seconds; None if somebody else has it for longer.

        `timeout`: None or -1 waits for ever, 0 tries once, default is the lock's own. An engine
        that cannot be asked raises `EngineUnavailable`.
        """
        patience = self._patience(blocking, timeout)
        owner = self._driver.current()
        if self._reentrant and (again := self._reenter(owner)) is not None:
            return again
        tenure = self._driver.run(acquire(self._driver.world, self._claim, patience))
        if tenure is None:
            return None
        return self._took(owner, Lease(self._driver, tenure, self._check_ttl))

    def release(self) -> None:
        """Release the latest lease that this thread took through this `Lock`, else the only one
        taken through it, else raise `NotHeld`."""
        self._latest().release()

    def locked(self) -> bool:
        """Whether anybody holds it."""
        return self._driver.run(is_held(self._driver.world, self._claim.key))

    def __enter__(self) -> Lease:
        return self._enter(self._driver.current(), self.acquire(), self._timeout)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tenure = self._exit()._tenure
        if tenure.unsettled:
            self._driver.run(leave(self._driver.world, tenure, error))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function: it runs while it holds the lock, or raises `AcquireTimeout`."""
        if iscoroutinefunction(function):
            raise TypeError(f"function: {function!r} is async; use the lock of an AsyncClient")

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return locked


class AsyncLock(BaseLock[AsyncDriver, AsyncLease]):
    """A named lock, for asyncio. Cheap, reusable, and shareable between tasks.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-lock-example") as client:
    ...         async with client.lock("report", timeout=5) as lease:
    ...             print("working under fence", lease.fence)
    >>> asyncio.run(main())
    working under fence 1
    """

    def __init__(
        self,
        driver: AsyncDriver,
        claim: Claim,
        timeout: float | None,
        reentrant: bool,
        check_ttl: Callable[[float], float],
        cancel_on_loss: bool,
    ) -> None:
        super().__init__(driver, claim, timeout, reentrant, check_ttl)
        self._cancel_on_loss = cancel_on_loss

    async def acquire(
        self, blocking: bool = True, timeout: float | None = OWN
    ) -> AsyncLease | None:
        """Take it, waiting up to `timeout` seconds; None if somebody else has it for longer.

        `timeout`: None or -1 waits for ever, 0 tries once, default is the lock's own. An engine
        that cannot be asked raises `EngineUnavailable`.
        """
        patience = self._patience(blocking, timeout)
        owner = self._driver.current()
        if self._reentrant and (again := self._reenter(owner)) is not None:
            return again
        tenure = await self._driver.run(acquire(self._driver.world, self._claim, patience))
        if tenure is None:
            return None
        return self._took(owner, AsyncLease(self._driver, tenure, self._check_ttl))

    async def release(self) -> None:
        """Release the latest lease that this task took through this `Lock`, else the only one
        taken through it, else raise `NotHeld`."""
        await self._latest().release()

    async def locked(self) -> bool:
        """Whether anybody holds it."""
        return await self._driver.run(is_held(self._driver.world, self._claim.key))

    async def __aenter__(self) -> AsyncLease:
        lease = self._enter(self._driver.current(), await self.acquire(), self._timeout)
        if self._cancel_on_loss:
            self._driver.cancel_on_loss(lease._tenure)
        return lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tenure = self._exit()._tenure
        if self._cancel_on_loss and await self._driver.was_cancelled_by_loss(tenure, error):
            error = None  # our own cancellation: it leaves as the loss that it stands for
        if tenure.unsettled:
            await self._driver.run(leave(self._driver.world, tenure, error))

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """Decorate a coroutine function: it runs while it holds the lock, or raises
        `AcquireTimeout`."""
        if not iscoroutinefunction(function):
            raise TypeError(f"function: {function!r} is not async; use the lock of a Client")

        @functools.wraps(function)
        async def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            async with self:
                return await function(*args, **kwargs)

        return locked
