"""Several locks as one: all of them, or none. `LockAll` for threads, `AsyncLockAll` for asyncio."""

import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, ParamSpec, Self, TypeVar
from weakref import ref

from holdfast.blocks import AsyncWithBlocks, Error, Kind, Trace, WithBlocks, async_inside, inside
from holdfast.core.lease_state import HELD, LOST, LeaseState, LockSpec
from holdfast.core.ownership import Block, Blocks, Place, place_of
from holdfast.core.release import abandon, interrupt_release
from holdfast.core.runtime import Runtime
from holdfast.core.several import (
    acquire_all,
    begin_release_all,
    finish_release_all,
)
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import AcquireTimeout, LockError
from holdfast.lease import (
    AsyncLease,
    BaseLease,
    Lease,
    NotPicklable,
    check_callback,
)
from holdfast.lock import OWN, waiting_time

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Driver)
L = TypeVar("L", bound=BaseLease[Any])


class BaseLeaseAll(NotPicklable, Generic[D, L]):
    """What is the same for threads and asyncio: everything that needs no engine."""

    __slots__ = ("__weakref__", "_driver", "_leases")

    def __init__(self, driver: D, leases: Sequence[L]) -> None:
        self._driver = driver
        self._leases = tuple(leases)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the locks, in the order in which they were acquired."""
        return tuple(lease.name for lease in self._leases)

    @property
    def fences(self) -> dict[str, int]:
        """The fencing token of each name."""
        return {lease.name: lease.fence for lease in self._leases}

    @property
    def ttl(self) -> float:
        """How long they last from their last renewal, in seconds."""
        return self._leases[0].ttl

    @property
    def held(self) -> bool:
        """Whether all are surely yours at this instant, by the clock."""
        return all(lease.held for lease in self._leases)

    @property
    def lost(self) -> bool:
        """Whether one of them ended without your releasing it."""
        return any(lease.lost for lease in self._leases)

    def remaining(self) -> float:
        """Seconds for which all are surely yours if no renewal succeeds; never negative."""
        return min(lease.remaining() for lease in self._leases)

    def ensure_held(self) -> None:
        """Raise `LockLost` if one of them is lost, `NotHeld` if they were released."""
        for lease in sorted(self._leases, key=lambda each: not each.lost):
            lease.ensure_held()

    def on_lost(self, callback: Callable[[Self], object]) -> None:
        """Call `callback` with this, once, when the first of them is lost; at once if one is lost
        already. As `Lease.on_lost`."""
        check_callback(callback)
        myself = ref(self)
        waiting = [callback]

        def call(_: object) -> None:
            lease = myself()
            if lease is not None:
                with suppress(IndexError):  # another of them was lost before
                    waiting.pop()(lease)

        for lease in self._leases:
            lease.on_lost(call)
            lease._state.facade = myself

    def __repr__(self) -> str:
        state = "held" if self.held else "lost" if self.lost else "released"
        return f"<{type(self).__name__} {', '.join(map(repr, self.names))} {state}>"

    @property
    def _runtime(self) -> Runtime:
        return self._driver.runtime

    def _states(self) -> list[LeaseState]:
        return [lease._state for lease in self._leases]

    def _to_release(self, leaving: bool) -> list[LeaseState]:
        """All of them; when a `with` is left, those that are not released yet."""
        states = self._states()
        return [each for each in states if each.state in (HELD, LOST)] if leaving else states


class LeaseAll(BaseLeaseAll[ThreadDriver, Lease]):
    """Several held locks as one: held while all are, lost as soon as one is.

    >>> import holdfast
    >>> client = holdfast.Client("memory://lease-all-example")
    >>> leases = client.lock_all(["stock:7", "order:42"]).acquire()
    >>> leases.fences, leases.held
    ({'order:42': 1, 'stock:7': 1}, True)
    >>> leases.release()
    >>> client.close()
    """

    __slots__ = ()

    def extend(self, ttl: float | None = None) -> None:
        """Let each last at least `ttl` seconds from now: as `Lease.extend`."""
        for lease in self._leases:
            lease.extend(ttl)

    def release(self) -> None:
        """Release them all. If one was lost, the others are released all the same."""
        self._end()

    def _end(self, error: BaseException | None = None, *, leaving: bool = False) -> None:
        """Release them; a failure is noted on what the block itself raised, if it did."""
        try:
            begun, failure = begin_release_all(self._runtime, self._to_release(leaving))
            self._driver.finish(finish_release_all(self._runtime, begun, failure))
            if failure is not None:  # the client is closed, so nothing was sent
                raise failure
        except LockError as failed:
            if error is None:
                raise
            error.add_note(f"holdfast: {failed}")
        except BaseException:
            self._interrupted()
            raise

    _depth = 1

    def _leave(self, error: BaseException | None) -> None:
        """Leave a block."""
        self._end(error, leaving=True)

    def _interrupted(self, depth: int = 1) -> None:
        """A Ctrl-C came in the middle of a release."""
        states = self._states()
        for state in states:
            interrupt_release(self._runtime, state)
        self._driver.deliver(states[0].spec, *(state.holder for state in states))

    def __enter__(self) -> Self:
        self.ensure_held()
        return self

    def __exit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        self._leave(error)


class AsyncLeaseAll(BaseLeaseAll[AsyncDriver, AsyncLease]):
    """Several held locks as one: as `LeaseAll`, with methods to await.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-lease-all-example") as client:
    ...         leases = await client.lock_all(["a", "b"]).acquire()
    ...         print(leases.fences)
    ...         await leases.release()
    >>> asyncio.run(main())
    {'a': 1, 'b': 1}
    """

    __slots__ = ()

    async def extend(self, ttl: float | None = None) -> None:
        """Let each last at least `ttl` seconds from now: as `Lease.extend`."""
        for lease in self._leases:
            await lease.extend(ttl)

    async def release(self) -> None:
        """Release them all. If one was lost, the others are released all the same."""
        await self._end()

    async def _end(self, error: BaseException | None = None, *, leaving: bool = False) -> None:
        """Release them; a failure is noted on what the block itself raised, if it did."""
        try:
            begun, failure = begin_release_all(self._runtime, self._to_release(leaving))
            steps = finish_release_all(self._runtime, begun, failure)
            states = self._states()
            await self._driver.finish(steps, states[0].spec, [state.holder for state in states])
            if failure is not None:  # the client is closed, so nothing was sent
                raise failure
        except LockError as failed:
            if error is None:
                raise
            error.add_note(f"holdfast: {failed}")

    async def __aenter__(self) -> Self:
        self.ensure_held()
        for lease in self._leases:
            if lease._cancel_on_loss:
                await self._driver.cancel_on_loss(lease._state)
        return self

    async def __aexit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        ours = [await self._driver.was_cancelled_by_loss(state, error) for state in self._states()]
        error = None if any(ours) else error
        await self._end(error, leaving=True)


class BaseLockAll(NotPicklable, Generic[D]):
    """What is the same for threads and asyncio: the locks, and the open blocks."""

    def __init__(
        self,
        driver: D,
        specs: Iterable[LockSpec],
        timeout: float | None,
        client: object,
        cancel_on_loss: bool = False,
    ) -> None:
        """`cancel_on_loss`: only for asyncio."""
        self._driver = driver
        self._specs = tuple(specs)
        self._timeout = timeout
        self._client = client
        self._cancel_on_loss = cancel_on_loss
        self._blocks: Blocks[Any] = Blocks()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the locks, in the order in which they are acquired."""
        return tuple(spec.name for spec in self._specs)

    @property
    def ttl(self) -> float:
        """The ttl of their leases, in seconds."""
        return self._specs[0].ttl

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(map(repr, self.names))} ttl={self.ttl:g}>"

    def _holders(self) -> list[str]:
        return [self._driver.runtime.new_holder(spec.label) for spec in self._specs]

    def _timed_out(self, busy: str) -> AcquireTimeout:
        error = AcquireTimeout(busy, self._timeout or 0.0)
        error.add_note(f"holdfast: none of {', '.join(map(repr, self.names))} was acquired")
        return error


class LockAll(WithBlocks, BaseLockAll[ThreadDriver]):
    """Several named locks as one, for threads: all of them, or none.

    They are acquired in the order of their names, so that callers whose names overlap cannot
    deadlock.

    >>> import holdfast
    >>> client = holdfast.Client("memory://lock-all-example")
    >>> with client.lock_all(["account:2", "account:1"], timeout=5) as leases:
    ...     print("transferring under", leases.fences)
    transferring under {'account:1': 1, 'account:2': 1}
    >>> client.close()
    """

    def acquire(self, blocking: bool = True, timeout: float | None = OWN) -> LeaseAll | None:
        """Take them all, waiting up to `timeout` seconds altogether; None, and none is taken, if
        another holder has one of them for longer. As `Lock.acquire`."""
        try:
            return self._acquire(waiting_time(self._timeout, blocking, timeout))
        except AcquireTimeout:
            return None

    def _acquire(self, timeout: float | None, place: Place | None = None) -> LeaseAll:
        """Acquire, and enter the `with` at this place, if there is one."""
        runtime, holders = self._driver.runtime, self._holders()
        leases: list[Lease] = []  # which are not dropped before they are abandoned
        lease: LeaseAll | None = None
        try:
            states, busy = self._driver.run(acquire_all(runtime, self._specs, holders, timeout))
            if busy:
                raise self._timed_out(busy)
            leases.extend(Lease(self._driver, state, self._client) for state in states)
            lease = LeaseAll(self._driver, leases)
            return self._enter(lease, place) if place else lease
        except LockError:
            raise
        except BaseException:  # a Ctrl-C may come between the grants and the caller
            self._blocks.forget(lease)
            for spec, holder in zip(self._specs, holders, strict=True):
                abandon(runtime, spec, holder)
            self._driver.deliver(self._specs[0], *holders)
            raise

    def _enter(self, lease: LeaseAll, place: Place) -> LeaseAll:
        if not lease.held:
            lease.release()  # which raises the loss
        self._blocks.enter(Block(self._driver.current(), lease, place))
        return lease

    def __enter__(self) -> LeaseAll:
        return self._acquire(self._timeout, place_of(sys._getframe(1)))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a `function`: it runs while it holds them all, or raises `AcquireTimeout`."""
        return inside(self, function)


class AsyncLockAll(AsyncWithBlocks, BaseLockAll[AsyncDriver]):
    """Several named locks as one, for asyncio: as `LockAll`.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-lock-all-example") as client:
    ...         async with client.lock_all(["account:2", "account:1"]) as leases:
    ...             print(leases.names)
    >>> asyncio.run(main())
    ('account:1', 'account:2')
    """

    async def acquire(
        self, blocking: bool = True, timeout: float | None = OWN
    ) -> AsyncLeaseAll | None:
        """Take them all, waiting up to `timeout` seconds altogether; None, and none is taken, if
        another holder has one of them for longer. As `Lock.acquire`."""
        try:
            return await self._acquire(waiting_time(self._timeout, blocking, timeout))
        except AcquireTimeout:
            return None

    async def _acquire(self, timeout: float | None) -> AsyncLeaseAll:
        runtime, holders = self._driver.runtime, self._holders()
        steps = acquire_all(runtime, self._specs, holders, timeout)
        states, busy = await self._driver.run(steps, self._specs[0], holders)
        if busy:
            raise self._timed_out(busy)
        cancel = self._cancel_on_loss
        leases = [AsyncLease(self._driver, state, self._client, cancel) for state in states]
        return AsyncLeaseAll(self._driver, leases)

    async def __aenter__(self) -> AsyncLeaseAll:
        place = place_of(sys._getframe(1))
        lease = await self._acquire(self._timeout)
        if not lease.held:
            await lease.release()  # which raises the loss
        await lease.__aenter__()
        self._blocks.enter(Block(self._driver.current(), lease, place))
        return lease

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Decorate a coroutine `function`: it runs while it holds them all, or raises
        `AcquireTimeout`."""
        return async_inside(self, function)
