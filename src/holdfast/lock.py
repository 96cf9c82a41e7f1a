"""A lock: a description of what to acquire. `Lock` for threads, `AsyncLock` for asyncio."""

import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from inspect import isasyncgenfunction, iscoroutine, iscoroutinefunction, isgeneratorfunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from holdfast.core.acquire import acquire
from holdfast.core.holding import leave, release, release_undelivered, report_loss
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.ledger import Ledger
from holdfast.core.queries import is_held
from holdfast.drivers.common import Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import AcquireTimeout, LockError, NotHeld
from holdfast.lease import AsyncLease, BaseLease, Lease, Promising
from holdfast.options import check_bool, check_timeout

if TYPE_CHECKING:
    from holdfast.drivers.aio import AsyncDriver
else:
    AsyncDriver = Driver  # asyncio costs those who do without it


P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Driver)
L = TypeVar("L", bound=BaseLease[Any])


class _Own:
    """Stands for "the Lock's own timeout" where no timeout was given."""

    def __repr__(self) -> str:
        return "<the lock's own>"


OWN: Any = _Own()


class BaseLock(Generic[D, L]):
    """What is the same in both colours: what is asked for, and who took it."""

    _lease: type[L]

    def __init__(
        self,
        driver: D,
        spec: LockSpec,
        timeout: float | None,
        reentrant: bool,
        client: Promising,
    ) -> None:
        self._driver = driver
        self._client = client
        self._spec = spec
        self._timeout = timeout
        self._reentrant = reentrant
        self._ledger: Ledger[L] = Ledger()

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._spec.name

    @property
    def ttl(self) -> float:
        """The ttl of its leases, in seconds."""
        return self._spec.ttl

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} ttl={self.ttl:g}>"

    def _patience(self, blocking: bool, timeout: Any) -> float | None:
        if timeout is OWN and blocking is True:
            return self._timeout
        if not check_bool("blocking", blocking):
            if timeout is not OWN and timeout != -1:
                raise ValueError(f"timeout: means nothing with blocking=False, got {timeout!r}")
            return 0.0
        return self._timeout if timeout is OWN else check_timeout(timeout)

    def _again(self, owner: object, entered: bool) -> L | None:
        """The lease that this thread or task has already, counted once more."""
        if not self._reentrant:
            return None
        runtime = self._driver.runtime
        with runtime.mutex:
            now = runtime.clock()
            entry = self._ledger.held_by(owner, now)
            if entry is None:
                return None
            entry.tenure.depth += 1
            self._ledger.add(owner, entry.tenure, entry.lease, entered)
            return entry.lease

    def _took(self, owner: object, tenure: LeaseState | None, entered: bool) -> L | None:
        """What was taken, as a lease."""
        if tenure is None:
            return None
        lease = self._lease(self._driver, tenure, self._client)
        if self._ledger.add(owner, tenure, lease, entered):
            runtime = self._driver.runtime
            with runtime.mutex:
                self._ledger.prune(owner, runtime.clock())
        return lease

    def _latest(self) -> L:
        """The lease that `release()` means."""
        with self._driver.runtime.mutex:
            lease = self._ledger.latest(self._driver.current())
        if lease is None:
            raise NotHeld(
                f"{self.name!r} is not held through this Lock by this thread or task; "
                "nothing was released"
            )
        return lease

    def _leave(self) -> L:
        """What the innermost `with` of this thread or task must give back."""
        with self._driver.runtime.mutex:
            lease = self._ledger.leave(self._driver.current())
        if lease is None:
            raise NotHeld(f"{self.name!r} was not entered by this thread or task")
        return lease

    def _timed_out(self) -> AcquireTimeout:
        return AcquireTimeout(self.name, self._timeout or 0.0)


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

    _lease = Lease

    def acquire(self, blocking: bool = True, timeout: float | None = OWN) -> Lease | None:
        """Take it, waiting up to `timeout` seconds; None if somebody else has it for longer.

        `timeout`: None or -1 waits for ever, 0 tries once, default is the lock's own. An engine
        that cannot be asked raises `EngineUnavailable`.
        """
        return self._acquire(self._patience(blocking, timeout), False)

    def _acquire(self, request_timeout: float | None, entered: bool) -> Lease | None:
        owner = self._driver.current()
        lease = self._again(owner, entered)
        if lease is not None:
            return lease
        taken: list[LeaseState] = []
        try:
            tenure = self._driver.run(
                acquire(self._driver.runtime, self._spec, request_timeout, taken)
            )
            return self._took(owner, tenure, entered)
        except BaseException:
            for tenure in taken:  # struck on its way to the caller, who could not release it
                self._ledger.forget(tenure)
                with suppress(LockError):  # it is closed, and has given it back
                    self._driver.run(release_undelivered(self._driver.runtime, tenure))
            raise

    def release(self) -> None:
        """Release the latest lease that this thread took through this `Lock`, else the only one
        taken through it, else raise `NotHeld`."""
        self._driver.run(release(self._driver.runtime, self._latest()._tenure))

    def locked(self) -> bool:
        """Whether anybody holds it."""
        return self._driver.run(is_held(self._driver.runtime, self._spec.key))

    def __enter__(self) -> Lease:
        lease = self._acquire(self._timeout, True)
        if lease is None:
            raise self._timed_out()
        return lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lease = self._leave()
        tenure = lease._tenure
        if self._driver.closed:
            report_loss(tenure, error)
        else:
            self._driver.run(leave(self._driver.runtime, tenure, error))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function: it runs while it holds the lock, or raises `AcquireTimeout`."""
        if iscoroutinefunction(function) or isasyncgenfunction(function):
            raise TypeError(f"function: {function!r} is async; use the lock of an AsyncClient")
        if isgeneratorfunction(function):
            raise TypeError(f"function: {function!r} is a generator, whose body would run unlocked")

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                result = function(*args, **kwargs)
                if iscoroutine(result):
                    result.close()
                    raise TypeError(f"function: {function!r} is async; use an AsyncClient's lock")
                return result

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

    _lease = AsyncLease

    def __init__(
        self,
        driver: AsyncDriver,
        spec: LockSpec,
        timeout: float | None,
        reentrant: bool,
        client: Promising,
        cancel_on_loss: bool,
    ) -> None:
        super().__init__(driver, spec, timeout, reentrant, client)
        self._cancel_on_loss = cancel_on_loss

    async def acquire(
        self, blocking: bool = True, timeout: float | None = OWN
    ) -> AsyncLease | None:
        """Take it, waiting up to `timeout` seconds; None if somebody else has it for longer.

        `timeout`: None or -1 waits for ever, 0 tries once, default is the lock's own. An engine
        that cannot be asked raises `EngineUnavailable`.
        """
        request_timeout = self._patience(blocking, timeout)
        owner = self._driver.current()
        lease = self._again(owner, False)
        if lease is not None:
            return lease
        tenure = await self._driver.run(acquire(self._driver.runtime, self._spec, request_timeout))
        return self._took(owner, tenure, False)

    async def release(self) -> None:
        """Release the latest lease that this task took through this `Lock`, else the only one
        taken through it, else raise `NotHeld`."""
        await self._driver.run(release(self._driver.runtime, self._latest()._tenure))

    async def locked(self) -> bool:
        """Whether anybody holds it."""
        return await self._driver.run(is_held(self._driver.runtime, self._spec.key))

    async def __aenter__(self) -> AsyncLease:
        owner = self._driver.current()
        lease = self._again(owner, True)
        if lease is None:
            steps = acquire(self._driver.runtime, self._spec, self._timeout)
            lease = self._took(owner, await self._driver.run(steps), True)
        if lease is None:
            raise self._timed_out()
        if self._cancel_on_loss:
            self._driver.cancel_on_loss(lease._tenure)
        return lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lease = self._leave()
        tenure = lease._tenure
        if self._cancel_on_loss and await self._driver.was_cancelled_by_loss(tenure, error):
            error = None  # our own cancellation: it leaves as the loss that it stands for
        if self._driver.closed:
            report_loss(tenure, error)
        else:
            await self._driver.run(leave(self._driver.runtime, tenure, error))

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Decorate a coroutine function: it runs while it holds the lock, or raises
        `AcquireTimeout`."""
        if not iscoroutinefunction(function):
            raise TypeError(f"function: {function!r} is not async; use the lock of a Client")

        @functools.wraps(function)
        async def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            async with self:
                return await function(*args, **kwargs)

        return locked
