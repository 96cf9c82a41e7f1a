"""A lease: what you have while you hold a lock. `Lease` for threads, `AsyncLease` for asyncio."""

import warnings
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, overload
from weakref import ref

from holdfast.core.holding import explain_unguarded, extend, release
from holdfast.core.lease_state import HELD, LOST, LeaseState
from holdfast.core.ports import Comparison, Guard
from holdfast.core.records import Guarantees
from holdfast.core.runtime import Runtime
from holdfast.drivers.common import Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.options import check_ttl

if TYPE_CHECKING:
    from holdfast.drivers.aio import AsyncDriver
else:
    AsyncDriver = Driver  # asyncio costs those who do without it


D = TypeVar("D", bound=Driver)
Paramstyle = Literal["qmark", "numeric", "named", "format", "pyformat", "numeric_dollar"]
Self = TypeVar("Self", bound="BaseLease[Any]")


class Promising(Protocol):
    """The client, as far as a lease knows it."""

    @property
    def guarantees(self) -> Guarantees:
        """What its engine promises."""
        ...


class BaseLease(Generic[D]):
    """What is the same in both colours: everything that needs no engine."""

    __slots__ = ("__weakref__", "_client", "_driver", "_tenure")

    def __init__(self, driver: D, tenure: LeaseState, client: Promising) -> None:
        self._driver = driver
        self._tenure = tenure
        self._client = client  # which thereby lives as long as its leases

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._tenure.spec.name

    @property
    def holder(self) -> str:
        """The unique id of this acquisition: `host/pid/program/secret`."""
        return self._tenure.holder

    @property
    def fence(self) -> int:
        """The fencing token: greater than that of every earlier lease of this name.

        Send it along with every write, and let the receiver refuse a smaller one than it has seen.
        """
        return self._tenure.fence

    @property
    def ttl(self) -> float:
        """How long the lease lasts from its last renewal, in seconds."""
        return self._tenure.spec.ttl

    @property
    def held(self) -> bool:
        """Whether it is surely yours at this instant, by the clock."""
        runtime = self._world
        with runtime.mutex:
            return self._tenure.is_held(runtime.clock())

    @property
    def lost(self) -> bool:
        """Whether it ended without your releasing it. Once True, always True."""
        runtime = self._world
        with runtime.mutex:
            return self._tenure.is_lost(runtime.clock())

    def remaining(self) -> float:
        """Seconds for which it is surely yours if no renewal succeeds; never negative."""
        runtime = self._world
        with runtime.mutex:
            return self._tenure.remaining(runtime.clock())

    def ensure_held(self) -> None:
        """Raise `LockLost` if the lease is lost, `NotHeld` if it was released.

        Call it before each step that must not be done by two.
        """
        runtime = self._world
        with runtime.mutex:
            self._tenure.require_held(runtime.clock())

    def on_lost(self: Self, callback: Callable[[Self], object]) -> None:
        """Call `callback` with this lease, once, when it is lost; at once if it is lost already.

        It is called from the renewer's thread, or from the event loop: be quick. It is not called
        for a lease that is released. What it raises is logged.
        """
        if not callable(callback):
            raise TypeError(f"callback: must be callable, got {callback!r}")
        if iscoroutinefunction(callback):
            raise TypeError(f"callback: {callback!r} is async, and nobody would await it")
        myself = ref(self)  # the renewer must not keep an abandoned lease alive

        def tell() -> None:
            lease = myself()
            if lease is not None:
                callback(lease)

        runtime = self._world
        with runtime.mutex:
            told = self._tenure.state is LOST
            if not told:
                self._tenure.watchers += (tell,)
        if told:
            callback(self)

    def _check_ttl(self, value: float) -> float:
        promises = self._client.guarantees
        return check_ttl(value, promises.min_ttl, promises.max_ttl, promises.ttl_step)

    def _guard(self) -> Guard:
        """What ties a transaction to it, while it is held."""
        guard = self._driver.engine.guard
        if guard is None:
            raise ValueError(
                f"connection: a lock in {self._client.guarantees.engine} has no guard for one; say "
                "holdfast.fence.check(connection, lease.name, lease.fence) in your transaction"
            )
        self.ensure_held()
        return guard

    def guard_sql(
        self, paramstyle: Paramstyle
    ) -> tuple[str, tuple[object, ...] | dict[str, object]]:
        """The statement of `guard`, and its values, for a database driver that `guard` does not
        know. Nothing is sent.

        Execute it as the first statement of a transaction, never inside a savepoint or under
        autocommit. It must return one row; if it returns none or fails, the lease is lost: roll
        back. `paramstyle` is the driver's: `qmark` (`?`), `numeric` (`:1`), `named` (`:name`),
        `format` (`%s`), `pyformat` (`%(name)s`) or `numeric_dollar` (`$1`).
        """
        return self._guard().sql(paramstyle, *self._identity)

    def _comparison(self) -> Comparison:
        """What a transaction compares to be tied to it, while it is held."""
        compare = self._driver.engine.comparison
        if compare is None:
            self._guard()
            raise TypeError("connection: is missing; give the one that your transaction is open on")
        self.ensure_held()
        return compare(*self._identity)

    @property
    def _identity(self) -> tuple[str, str, int]:
        return self._tenure.spec.key, self._tenure.holder, self._tenure.fence

    @property
    def _world(self) -> Runtime:
        return self._driver.runtime

    def __repr__(self) -> str:
        state = "held" if self.held else "lost" if self.lost else self._tenure.state.value
        return f"<{type(self).__name__} {self.name!r} fence={self.fence} {state}>"

    def __del__(self) -> None:
        try:
            tenure = self._tenure
        except AttributeError:  # it was interrupted in the making
            return
        if tenure.state is HELD and not self._driver.closed:
            warnings.warn(
                f"{self!r} was dropped without being released; it is not renewed any more",
                ResourceWarning,
                stacklevel=2,
            )


class Lease(BaseLease[ThreadDriver]):
    """A held lock, until you release it or it is lost.

    It is renewed in the background, and always true, so that `if lock.acquire():` works.

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
        ttl = self._check_ttl(self.ttl if ttl is None else ttl)
        self._driver.run(extend(self._world, self._tenure, ttl))

    @overload
    def guard(self) -> Comparison: ...

    @overload
    def guard(self, connection: object) -> None: ...

    def guard(self, connection: object = None) -> Comparison | None:
        """Tie a transaction of your own to this lease. If the lease is lost already: `LockLost`.

        SQL: of a lock that is kept in the same database, give the connection (of psycopg, psycopg2,
        PyMySQL, mysqlclient, SQLAlchemy or Django; for any other there is `guard_sql`) on which the
        transaction is open. As long as it is open, nobody else gets the lock, even if the lease
        ends meanwhile. Make it the first statement of a transaction which begins after the lease.
        Autocommit, or a savepoint (a nested transaction) of SQLAlchemy, Django or psycopg, is a
        `ValueError`; with other libraries, do not call it inside a savepoint.

        etcd: give nothing, and get a comparison to add to your transaction. It is carried out while
        the lock is yours, or not at all.
        """
        if connection is None:
            return self._comparison()
        if not self._guard().lock(connection, *self._identity):
            self._driver.run(explain_unguarded(self._world, self._tenure))
        return None

    def release(self) -> None:
        """Give it back. From any thread."""
        self._driver.run(release(self._driver.runtime, self._tenure))


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
        """Let it last at least `ttl` seconds (default: its own) from now, `max_hold` permitting.
        Never shortens it."""
        ttl = self._check_ttl(self.ttl if ttl is None else ttl)
        await self._driver.run(extend(self._world, self._tenure, ttl))

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
            await self._driver.run(explain_unguarded(self._world, self._tenure))
        return None

    async def release(self) -> None:
        """Give it back. From any task of the loop."""
        await self._driver.run(release(self._driver.runtime, self._tenure))
