"""A lease: what you have while you hold a lock. `Lease` for threads, `AsyncLease` for asyncio."""

import sys
import warnings
from collections.abc import Callable
from inspect import iscoroutinefunction
from math import inf
from types import TracebackType
from typing import Generic, Literal, NoReturn, Self, TypeVar, overload
from weakref import ref

from holdfast.core.holding import explain_unguarded, extend, wait_min_hold
from holdfast.core.lease_state import HELD, LeaseState
from holdfast.core.ports import Comparison, Guard
from holdfast.core.release import (
    begin_leave,
    begin_release,
    finish_leave,
    finish_release,
    interrupt_release,
)
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.common import isolated
from holdfast.drivers.hooks import logger
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import LockError

D = TypeVar("D", bound=Driver)

Paramstyle = Literal["qmark", "numeric", "named", "format", "pyformat", "numeric_dollar"]


class NotPicklable:
    """What holds connections or leases cannot go to another process."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled: connections and leases belong to one process. Send the "
            "URL and the name, and make a client there"
        )


class BaseLease(NotPicklable, Generic[D]):
    """What is the same for threads and asyncio: everything that needs no engine."""

    __slots__ = ("__weakref__", "_cancel_on_loss", "_client", "_driver", "_state")

    def __init__(
        self, driver: D, state: LeaseState, client: object, cancel_on_loss: bool = False
    ) -> None:
        """`cancel_on_loss`: only for asyncio."""
        self._driver = driver
        self._state = state
        self._client = client  # which thereby lives as long as its leases
        self._cancel_on_loss = cancel_on_loss

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._state.spec.name

    @property
    def holder(self) -> str:
        """The unique id of this acquisition: `host/pid/program/secret`."""
        return self._state.holder

    @property
    def fence(self) -> int:
        """The fencing token: greater than that of every earlier lease of this name.

        Send it along with every write, and let the receiver refuse a smaller one than it has seen.
        """
        return self._state.fence

    @property
    def ttl(self) -> float:
        """How long the lease lasts from its last renewal, in seconds."""
        return self._state.ttl

    @property
    def held(self) -> bool:
        """Whether it is certainly yours at this instant, by the clock."""
        runtime, state = self._driver.runtime, self._state
        if state.is_held(runtime.clock()):
            return True
        with runtime.mutex:  # a renewal may just be moving the end on
            return state.is_held(runtime.clock())

    @property
    def lost(self) -> bool:
        """Whether it ended without your releasing it. Once True, always True."""
        return not self.held and self._state.is_lost(self._driver.runtime.clock())

    def remaining(self) -> float:
        """Seconds for which it is certainly yours even if no renewal succeeds; never negative."""
        return self._state.remaining(self._driver.runtime.clock()) if self.held else 0.0

    def ensure_held(self) -> None:
        """Raise `LockLost` if the lease is lost, `NotHeld` if it was released.

        Call it before each step that must not be done by two holders.
        """
        if not self.held:
            self._state.require_held(self._driver.runtime.clock())

    def on_lost(self, callback: Callable[[Self], object]) -> None:
        """Call `callback` with this lease, once, when it is lost; at once if it is lost already.

        It is called from a thread for callbacks (of which there are up to 32), or from the event
        loop, which it must not block. It is not called for a lease that is released. What it raises
        is only logged.
        """
        check_callback(callback)
        myself = ref(self)  # the renewer must not keep a dropped lease alive

        def call() -> None:
            lease = myself()
            if lease is not None:
                callback(lease)

        runtime, state = self._driver.runtime, self._state
        with runtime.mutex:
            lost = state.is_lost(runtime.clock())
            if not lost:
                state.facade = myself
                state.callbacks += (call,)
        if lost:
            isolated(runtime, call)

    def guard_sql(
        self, paramstyle: Paramstyle
    ) -> tuple[str, tuple[object, ...] | dict[str, object]]:
        """The statement of `guard`, and its values, for a database driver that `guard` does not
        know. Nothing is sent.

        Execute it as the first statement of a transaction, never inside a savepoint or under
        autocommit. It must return one row. If it returns none, the lease is lost; if it fails, the
        lease is not known to be yours. Roll back in both cases.

        Args:

        - `paramstyle`: the driver's: `qmark` (`?`), `numeric` (`:1`), `named` (`:name`), `format`
          (`%s`), `pyformat` (`%(name)s`) or `numeric_dollar` (`$1`).
        """
        return self._guard().sql(paramstyle, *self._identity)

    def _guard(self) -> Guard:
        """What ties a transaction to it, while it is held."""
        engine = self._driver.engine
        if engine.guard is None:
            raise ValueError(
                f"connection: a lock in {engine.guarantees.engine} has no guard for it; "
                "call holdfast.fence.check(connection, lease.name, lease.fence) in your transaction"
            )
        if self._state.spec.shares != 1:
            raise ValueError(
                "connection: a lease that others may share has no guard; call "
                "holdfast.fence.check(connection, lease.name, lease.fence) in your transaction"
            )
        self.ensure_held()
        return engine.guard

    def _comparison(self) -> Comparison:
        """What a transaction compares to be tied to it, while it is held."""
        compare = self._driver.engine.comparison
        if compare is None:
            self._guard()
            raise TypeError("connection: is missing; give the one that your transaction is open on")
        self.ensure_held()
        return compare(*self._identity)

    @property
    def _depth(self) -> int:
        """How often it is taken, by a reentrant lock."""
        return self._state.depth

    @property
    def _identity(self) -> tuple[str, str, int]:
        return self._state.spec.key, self._state.holder, self._state.fence

    def __repr__(self) -> str:
        state = "held" if self.held else "lost" if self.lost else self._state.state.value
        return f"<{type(self).__name__} {self.name!r} fence={self.fence} {state}>"

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():  # the program ends, and all its leases with it
            return
        try:
            state, runtime = self._state, self._driver.runtime
        except AttributeError:  # it was interrupted in the making
            return
        if state.state is not HELD:
            return
        # It is not renewed any more, and kept until its time is over: then it is released. Nothing
        # here takes a lock or waits, since the garbage collector may call it anywhere.
        state.dropped, state.renew_at = True, inf
        runtime.registry.dropped.append(state)
        if runtime.closed or not state.is_held(runtime.clock()):  # its loss is about to be noticed
            return
        logger.warning(
            "the lease on %r (fence %d) was dropped without being released: it is not renewed "
            "any more and ends in %.1f s. Keep what acquire() returns for as long as you work, or "
            "write `with client.lock(...):`",
            self.name,
            self.fence,
            self.remaining(),
        )
        warnings.warn(
            f"{self!r} was dropped without being released; it is not renewed any more",
            ResourceWarning,
            stacklevel=2,
        )


class Lease(BaseLease[ThreadDriver]):
    """A held lock, until you release it or it is lost.

    It is renewed in the background, and is always truthy, so that `if lock.acquire():` works.

    >>> import holdfast
    >>> client = holdfast.Client("memory://lease-example")
    >>> lease = client.lock("job", ttl=10).acquire()
    >>> lease.fence, lease.held, 9 < lease.remaining() <= 10
    (1, True, True)
    >>> lease.extend(ttl=60)
    >>> lease.remaining() > 59
    True
    >>> lease.release()
    >>> lease.held, lease.lost
    (False, False)
    >>> client.close()
    """

    __slots__ = ()

    def extend(self, ttl: float | None = None) -> None:
        """Let it last at least `ttl` seconds (default: its own) from now, `max_hold` permitting.
        Never shortens it."""
        ttl = self._driver.engine.check_ttl(self.ttl if ttl is None else ttl)
        self._driver.run(extend(self._driver.runtime, self._state, ttl))

    @overload
    def guard(self) -> Comparison: ...

    @overload
    def guard(self, connection: object) -> None: ...

    def guard(self, connection: object = None) -> Comparison | None:
        """Tie a transaction of your own to this lease. Raises `LockLost` if it is already lost.

        SQL, for a lock that is kept in the same database: while the transaction is open, no other
        client gets the lock, even if the lease ends in the meantime. Make it the first statement of
        a transaction that begins after the lease. Autocommit, or a savepoint (a nested transaction)
        of SQLAlchemy, Django or psycopg, raises `ValueError`; with other libraries, do not call it
        inside a savepoint.

        etcd: it returns a comparison to add to your transaction, which is then carried out only if
        the lock is still yours.

        Args:

        - `connection`: the one on which the transaction is open, of psycopg, psycopg2, PyMySQL,
          mysqlclient, SQLAlchemy or Django; for any other there is `guard_sql`. None for etcd.
        """
        if connection is None:
            return self._comparison()
        if not self._guard().lock(connection, *self._identity):
            self._driver.run(explain_unguarded(self._driver.runtime, self._state))
        return None

    def release(self) -> None:
        """Release it, from any thread. If the engine is unreachable (`EngineUnavailable`), it is
        not yours any more all the same, and the client keeps trying in the background."""
        depth = self._state.depth
        try:
            self._release()
        except LockError:
            raise
        except BaseException:
            self._interrupted(depth)
            raise

    def _release(self) -> None:
        """Release it. Its caller sees to an interruption."""
        if self._state.spec.min_hold:
            self._wait_min_hold()
        runtime, state = self._driver.runtime, self._state
        release = begin_release(runtime, state)
        if release is not None:
            self._driver.finish(finish_release(runtime, state, release))

    def _wait_min_hold(self) -> None:
        """Wait until `min_hold` is over."""
        self._driver.finish(wait_min_hold(self._driver.runtime, self._state))

    def _interrupted(self, depth: int) -> None:
        """A Ctrl-C came in the middle of a release, which began when it was taken `depth` times."""
        interrupt_release(self._driver.runtime, self._state, depth)
        self._driver.deliver(self._state.spec, self._state.holder)

    def __enter__(self) -> Self:
        depth = self._state.depth
        try:
            self.ensure_held()
            return self
        except LockError:
            raise
        except BaseException:  # `with lock.acquire():` has no other reference to it
            self._interrupted(depth)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        depth = self._state.depth
        try:
            self._leave(error)
        except LockError:
            raise
        except BaseException:
            self._interrupted(depth)
            raise

    def _leave(self, error: BaseException | None) -> None:
        """Leave a block. Its caller sees to an interruption."""
        if self._state.spec.min_hold:
            self._wait_min_hold()
        runtime, state = self._driver.runtime, self._state
        release = begin_leave(runtime, state, error)
        if release is not None:
            self._driver.finish(finish_leave(runtime, state, release, error))


class AsyncLease(BaseLease[AsyncDriver]):
    """A held lock, until you release it or it is lost: as `Lease`, with methods to await.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-lease-example") as client:
    ...         lease = await client.lock("job").acquire()
    ...         await lease.extend(ttl=60)
    ...         print(lease.remaining() > 59)
    ...         await lease.release()
    >>> asyncio.run(main())
    True
    """

    __slots__ = ()

    async def extend(self, ttl: float | None = None) -> None:
        """Let it last at least `ttl` seconds from now: as `Lease.extend`."""
        ttl = self._driver.engine.check_ttl(self.ttl if ttl is None else ttl)
        await self._driver.run(extend(self._driver.runtime, self._state, ttl))

    @overload
    async def guard(self) -> Comparison: ...

    @overload
    async def guard(self, connection: object) -> None: ...

    async def guard(self, connection: object = None) -> Comparison | None:
        """Tie a transaction of your own to this lease: as `Lease.guard`, with a connection for
        asyncio."""
        if connection is None:
            return self._comparison()
        if not await self._guard().lock_async(connection, *self._identity):
            await self._driver.run(explain_unguarded(self._driver.runtime, self._state))
        return None

    async def release(self) -> None:
        """Release it, from any task of the loop: as `Lease.release`."""
        runtime, state = self._driver.runtime, self._state
        if state.spec.min_hold:
            await self._wait_min_hold()
        release = begin_release(runtime, state)
        if release is not None:
            steps = finish_release(runtime, state, release)
            await self._driver.finish(steps, state.spec, (state.holder,))

    async def _wait_min_hold(self) -> None:
        """Wait until `min_hold` is over; a cancellation ends that, and releases it."""
        runtime, state = self._driver.runtime, self._state
        try:
            await self._driver.finish(wait_min_hold(runtime, state))
        except BaseException:
            interrupt_release(runtime, state)
            raise

    async def __aenter__(self) -> Self:
        self.ensure_held()
        if self._cancel_on_loss:
            await self._driver.cancel_on_loss(self._state)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._cancel_on_loss and await self._driver.was_cancelled_by_loss(self._state, error):
            error = None  # our own cancellation: it leaves as the loss that it stands for
        runtime, state = self._driver.runtime, self._state
        if state.spec.min_hold:
            await self._wait_min_hold()
        release = begin_leave(runtime, state, error)
        if release is not None:
            steps = finish_leave(runtime, state, release, error)
            await self._driver.finish(steps, state.spec, (state.holder,))


def check_callback(callback: object) -> None:
    """It must be a plain function."""
    if not callable(callback):
        raise TypeError(f"callback: must be callable, got {callback!r}")
    if iscoroutinefunction(callback):
        raise TypeError(f"callback: {callback!r} is async, and would not be awaited")
