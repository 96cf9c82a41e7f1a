"""A lock: a description of what to acquire. `Lock` for threads, `AsyncLock` for asyncio. A
semaphore, and each side of a read/write lock, is a lock that several may hold at once."""

import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar

from holdfast.blocks import AsyncWithBlocks, WithBlocks, async_inside, inside
from holdfast.core.acquire import acquire
from holdfast.core.effects import Steps
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.ownership import Block, Blocks, Ownership, Place, place_of
from holdfast.core.queries import is_held
from holdfast.core.release import abandon
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import AcquireTimeout, LockError, NotHeld
from holdfast.lease import AsyncLease, BaseLease, Lease, NotPicklable
from holdfast.options import check_bool, check_timeout
from holdfast.skip import AsyncOrSkip, OrSkip

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Driver)
L = TypeVar("L", bound=BaseLease[Any])


class LockOptions(TypedDict, total=False):
    """The options of a lock, as for `Client.lock`."""

    ttl: float | None
    timeout: float | None
    renew: bool
    reentrant: bool
    max_hold: float | None
    min_hold: float
    retry: float | None
    label: str | None


class AsyncLockOptions(LockOptions, total=False):
    """The options of a lock, as for `AsyncClient.lock`."""

    cancel_on_loss: bool


class _Own:
    """Stands for "the Lock's own timeout" where no timeout was given."""

    def __repr__(self) -> str:
        return "<the lock's own>"


OWN: Any = _Own()


def waiting_time(own: float | None, blocking: bool, timeout: Any) -> float | None:
    """How long an `acquire()` with these arguments waits; `own`: the lock's timeout."""
    if timeout is OWN and blocking is True:
        return own
    if not check_bool("blocking", blocking):
        if timeout is not OWN and timeout != -1:
            raise ValueError(f"timeout: means nothing with blocking=False, got {timeout!r}")
        return 0.0
    return own if timeout is OWN else check_timeout(timeout)


class BaseLock(NotPicklable, Generic[D, L]):
    """What is the same for threads and asyncio: the lock's settings, the owners of its leases, and
    its open blocks."""

    _lease: type[L]
    _algorithm: Callable[..., Steps[LeaseState | None]] = staticmethod(acquire)
    """How it is acquired: an election does more than that."""

    def __init__(
        self,
        driver: D,
        spec: LockSpec,
        timeout: float | None,
        reentrant: bool,
        client: object,
        cancel_on_loss: bool = False,
    ) -> None:
        """`cancel_on_loss`: only for asyncio."""
        self._driver = driver
        self._client = client
        self._spec = spec
        self._timeout = timeout
        self._reentrant = reentrant
        self._cancel_on_loss = cancel_on_loss
        self._ownership: Ownership[L] = Ownership()
        self._blocks: Blocks[L] = Blocks()

    def _with_shares(self, shares: int) -> Self:
        """The same lock for several holders: as many as a semaphore has slots, or 0 for any number
        of readers. A plain lock has 1."""
        spec = replace(self._spec, shares=shares)
        return type(self)(
            self._driver, spec, self._timeout, self._reentrant, self._client, self._cancel_on_loss
        )

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

    def _reenter(self, place: Place | None = None) -> L | None:
        """The lease that this thread or task has already, counted once more; by the `with` at this
        place, if there is one."""
        runtime, owner = self._driver.runtime, self._driver.current()
        lease = block = None
        depth = 0
        try:
            with runtime.mutex:
                lease = self._ownership.held_by(owner, runtime.clock())
                if lease is not None:
                    depth = lease._state.depth
                    if place:
                        block = Block(owner, lease, place)
                        self._blocks.enter(block)
                    lease._state.depth += 1
            return lease
        except BaseException:  # a Ctrl-C leaves it to the outer block
            if lease is not None and depth:
                lease._state.depth = depth
            if block is not None:
                self._blocks.leave(block)
            raise

    def _new_lease(self, owner: object, state: LeaseState | None) -> L | None:
        """What was taken, as a lease."""
        if state is None:
            return None
        lease = self._lease(self._driver, state, self._client, self._cancel_on_loss)
        with self._driver.runtime.mutex:
            self._ownership.add(owner, state, lease)
        return lease

    def _enter(self, lease: L | None, place: Place) -> L:
        """The `with` at this place is entered with that; raises if it got none, or if that is lost
        already."""
        if lease is None:
            raise AcquireTimeout(self.name, self._timeout or 0.0)
        lease.ensure_held()
        self._blocks.enter(Block(self._driver.current(), lease, place))
        return lease

    def _lease_of(self, block: Block[L]) -> L:
        with self._driver.runtime.mutex:
            return self._ownership.to_leave(block, block.lease._state)

    def _lease_to_release(self) -> L:
        """The lease that `release()` means."""
        runtime = self._driver.runtime
        with runtime.mutex:
            lease = self._ownership.to_release(self._driver.current(), runtime.clock())
        if lease is None:
            raise NotHeld(
                f"{self.name!r} is not held through this Lock by this thread or task; "
                "nothing was released"
            )
        return lease


class Lock(BaseLock[ThreadDriver, Lease], WithBlocks):
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
        """Acquire it. Returns None if another holder still has it at the timeout; raises
        `EngineUnavailable` if the engine is unreachable.

        Args:

        - `blocking`: whether to wait. False tries once, as with `timeout=0`. Default: yes.
        - `timeout`: how long to wait, in seconds. 0 tries once, None or -1 waits forever. Default:
          the lock's own.
        """
        timeout = waiting_time(self._timeout, blocking, timeout)
        return (self._reentrant and self._reenter()) or self._acquire(timeout)

    def _acquire(self, timeout: float | None, place: Place | None = None) -> Lease | None:
        """Acquire, and enter the `with` at this place, if there is one."""
        runtime, owner = self._driver.runtime, self._driver.current()
        holder = runtime.new_holder(self._spec.label)
        lease = None
        try:
            state = self._driver.run(self._algorithm(runtime, self._spec, holder, timeout))
            lease = self._new_lease(owner, state)
            return self._enter(lease, place) if place else lease
        except LockError:
            raise
        except BaseException:  # a Ctrl-C may come between the grant and the caller
            abandon(runtime, self._spec, holder)
            with runtime.mutex:
                self._ownership.forget(holder)
            self._blocks.forget(lease)
            self._driver.deliver(self._spec, holder)
            raise

    def release(self) -> None:
        """Release the latest lease that this thread took through this `Lock`. A thread that never
        took one releases the only lease that is held through it. Otherwise raises `NotHeld`."""
        lease, depth = None, 0
        try:
            lease = self._lease_to_release()
            depth = lease._state.depth
            lease._release()
        except LockError:
            raise
        except BaseException:  # a Ctrl-C may come on the way
            with suppress(NotHeld):
                lease = lease or self._lease_to_release()
                lease._interrupted(depth or lease._state.depth)
            raise

    def locked(self) -> bool:
        """Whether any client holds it."""
        return self._driver.run(is_held(self._driver.runtime, self._spec.key))

    def __enter__(self) -> Lease:
        place = place_of(sys._getframe(1))
        # A block that gets none raises.
        lease = self._reentrant and self._reenter(place)
        return lease or self._acquire(self._timeout, place)  # type: ignore[return-value]

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a `function`: it runs while it holds the lock, or raises `AcquireTimeout`."""
        return inside(self, function)

    def with_lease(self, function: Callable[Concatenate[Lease, P], R]) -> Callable[P, R]:
        """Decorate a `function`, as the lock itself does, and call it with the lease as its first
        argument."""
        return inside(self, function, with_lease=True)

    @property
    def or_skip(self) -> OrSkip:
        """For work that is skipped while another holder is doing it. It tries once, or waits for
        the lock's own `timeout` if it has one.

        As a decorator, the function returns None if the lock is held by another; in a `with`, the
        lease is None.

        >>> import holdfast
        >>> client = holdfast.Client("memory://or-skip-example")
        >>> @client.lock("nightly").or_skip
        ... def nightly():
        ...     return "done"
        >>> nightly()
        'done'
        >>> with client.lock("nightly"), client.lock("nightly").or_skip as lease:
        ...     print(lease, nightly())
        None None
        >>> client.close()
        """
        # Python code alone: a Ctrl-C may come whenever a function in C, as `partial`, returns.
        acquire = lambda: self.acquire(timeout=self._timeout or 0.0)  # noqa: E731 - it is short
        return OrSkip(self._driver, self.name, acquire)

    # What `threading.Condition` asks of a lock, as an RLock has it.

    def _is_owned(self) -> bool:
        runtime = self._driver.runtime
        with runtime.mutex:
            return self._ownership.held_by(self._driver.current(), runtime.clock()) is not None

    def _release_save(self) -> int:
        state = self._lease_to_release()._state
        depth, state.depth = state.depth, 1
        self.release()
        return depth

    def _acquire_restore(self, depth: int) -> None:
        lease = self._acquire(None)
        if lease is not None:
            lease._state.depth = depth


class AsyncLock(BaseLock[AsyncDriver, AsyncLease], AsyncWithBlocks):
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

    async def acquire(
        self, blocking: bool = True, timeout: float | None = OWN
    ) -> AsyncLease | None:
        """Acquire it; None if another holder still has it at the timeout: as `Lock.acquire`."""
        timeout = waiting_time(self._timeout, blocking, timeout)
        return (self._reentrant and self._reenter()) or await self._acquire(timeout)

    async def _acquire(self, timeout: float | None) -> AsyncLease | None:
        runtime, owner = self._driver.runtime, self._driver.current()
        holder = runtime.new_holder(self._spec.label)
        steps = self._algorithm(runtime, self._spec, holder, timeout)
        state = await self._driver.run(steps, self._spec, (holder,))
        return self._new_lease(owner, state)

    async def release(self) -> None:
        """Release the latest lease that this task took through this `Lock`. A task that never took
        one releases the only lease that is held through it. Otherwise raises `NotHeld`."""
        await self._lease_to_release().release()

    async def locked(self) -> bool:
        """Whether any client holds it."""
        return await self._driver.run(is_held(self._driver.runtime, self._spec.key))

    async def __aenter__(self) -> AsyncLease:
        place = place_of(sys._getframe(1))
        lease = self._reentrant and self._reenter(place)
        lease = lease or self._enter(await self._acquire(self._timeout), place)
        if self._cancel_on_loss:
            await self._driver.cancel_on_loss(lease._state)
        return lease

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Decorate a coroutine `function`: it runs while it holds the lock, or raises
        `AcquireTimeout`."""
        return async_inside(self, function)

    def with_lease(
        self, function: Callable[Concatenate[AsyncLease, P], Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Decorate a coroutine `function`, as the lock itself does, and call it with the lease as
        its first argument."""
        return async_inside(self, function, with_lease=True)

    @property
    def or_skip(self) -> AsyncOrSkip:
        """For work that is skipped while another holder is doing it: as `Lock.or_skip`."""
        acquire = lambda: self.acquire(timeout=self._timeout or 0.0)  # noqa: E731 - it is short
        return AsyncOrSkip(self._driver, self.name, acquire)


K = TypeVar("K", Lock, AsyncLock)


@dataclass(frozen=True, slots=True)
class ReadWriteLock(Generic[K]):
    """Many readers at once, or one writer: see `Client.rwlock`. Its sides are locks: their leases
    carry `shares`, how many of them may be valid at once.

    >>> import holdfast
    >>> client = holdfast.Client("memory://rwlock-example")
    >>> prices = client.rwlock("prices")
    >>> with prices.read, prices.read:
    ...     print(client.inspect("prices").shares, prices.write.acquire(blocking=False))
    0 None
    >>> with prices.write as lease:
    ...     print("writing under fence", lease.fence)
    writing under fence 2
    >>> client.close()
    """

    read: K
    """For any number of holders at once."""
    write: K
    """For one holder, and no reader: the same as `client.lock(name)`."""
