"""What the rest of holdfast needs of an engine: one record and two small ports.

A *store* sends requests to an engine: one class for threads, and one for asyncio. It knows nothing
of leases, retries or waiting. The driver gives it a `StoreHost`.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from holdfast.core.messages import Answer, Request
from holdfast.core.records import Finding, Guarantees, NodeInfo
from holdfast.events import Event
from holdfast.options import check_ttl

Clock: TypeAlias = Callable[[], float]
Notify: TypeAlias = Callable[[str], None]
Lose: TypeAlias = Callable[[Collection[str]], None]


class StoreHost(NamedTuple):
    """What a driver gives to a store. All of it may be called from any thread."""

    clock: Clock
    """Seconds, on the clock that `until` is an instant of. It counts from the boot of the host, for
    all its processes."""
    notify: Notify
    """Notify the waiter with this holder id, which should ask again. Returns at once: a store may
    call it while it has a lock of its own."""
    emit: Callable[[Event], None]
    """Report an event."""
    lose: Lose = lambda holders: None
    """The leases of these holders have ended before their time."""
    notify_all: Callable[[], None] = lambda: None
    """Notify every waiter: wake-ups may have been missed. As `notify`."""


class Store(Protocol):
    """A blocking way to an engine; used by many threads at once."""

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request, in order; `Failed` for what could not be answered by `until`."""
        ...

    def close(self) -> None:
        """Release every resource."""
        ...

    def forget(self) -> None:
        """In a forked child: drop every resource without touching the parent's end of it."""
        ...


@runtime_checkable
class PumpedStore(Store, Protocol):
    """A store that reads wake-ups in the thread of a waiter, so that no other thread has to."""

    def pump(self, waiter_id: str, silent: Callable[[], bool], until: float) -> None:
        """Receive, and notify the waiters that messages are for, while `silent()` is true and until
        `until` at the latest. Returns at once if another thread receives."""
        ...

    def wake(self, waiter_id: str) -> None:
        """Have the `pump` of this waiter, if there is one, look whether it is still silent."""
        ...


class AsyncStore(Protocol):
    """The same for asyncio. A cancelled `ask` must not overtake what it had sent already."""

    def ask(
        self, requests: Sequence[Request], until: float
    ) -> Coroutine[Any, Any, Sequence[Answer]]:
        """Answer each request, in order; `Failed` for what could not be answered by `until`."""
        ...

    async def close(self) -> None:
        """Release every resource."""
        ...

    def abandon(self) -> None:
        """The same without waiting: the client was garbage-collected."""
        ...

    def forget(self) -> None:
        """In a forked child: drop every resource without touching the parent's end of it."""
        ...


class Guard(Protocol):
    """Ties a user's own transaction to a lease that is kept in the same database: a takeover waits
    for its end. A connection that does not allow that is a `TypeError` or `ValueError`."""

    def lock(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """Tie the transaction that is open on a connection that blocks; False if the lease is not
        to be found there."""
        ...

    async def lock_async(self, connection: object, key: str, holder: str, fence: int) -> bool:
        """The same for a connection of asyncio."""
        ...

    def sql(
        self, paramstyle: str, key: str, holder: str, fence: int
    ) -> tuple[str, tuple[object, ...] | dict[str, object]]:
        """The statement and its values, in one of the styles of PEP 249 or `numeric_dollar`."""
        ...


class Comparison(Protocol):
    """What ties a write of a user's own, to the store that the lease is kept in, to that lease: the
    store carries it out while the holder's key is there, or not at all."""

    @property
    def key(self) -> bytes:
        """The holder's key."""
        ...

    @property
    def create_revision(self) -> int:
        """The revision at which it was created: the fence."""
        ...

    def as_bytes(self) -> bytes:
        """The comparison as a message of the store's protocol, encoded."""
        ...

    def as_json(self) -> dict[str, str]:
        """The same in JSON."""
        ...


NODE_TIMEOUT = 5.0
"""The longest that one node may take to answer."""


def node_timeout(ttl: float) -> float:
    """How long one node may take to answer about a lease of that ttl."""
    return min(ttl / 3, NODE_TIMEOUT)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine as a URL describes it. Nothing is connected until it is asked something."""

    guarantees: Guarantees
    drift: Callable[[float], float]
    """How much of a ttl the clocks of holder and engine may come to differ by."""
    connect: Callable[[StoreHost], Store]
    connect_async: Callable[[StoreHost], AsyncStore]
    request_timeout: Callable[[float], float] = node_timeout
    """How long to wait for an answer about a lease of that ttl."""
    joins_at_once: bool = False
    """Whether the first try asks for a place in the queue already: where that costs an acquire of a
    free lock nothing."""
    no_cells: str = ""
    """Why it has no cells; empty if it has."""
    no_sharing: str = "it grants each lock to one holder"
    """Why it has no read locks and semaphores; empty if it has."""
    no_counting: str = ""
    """Why it has no semaphores, though it has read locks; empty if it has."""
    guard: Guard | None = None
    """None if no transaction on a connection can be tied to a lease."""
    comparison: Callable[[str, str, int], Comparison] | None = None
    """What a transaction compares, from the key, the holder and the fence of a lease; None if the
    store has no such transactions."""
    ddl: str = ""
    """The DDL of its tables; empty if it has none."""
    examine: Callable[[float], Iterable[Finding]] = lambda ttl: ()
    """What is to be said of its servers, for locks of that ttl. It blocks, on connections of its
    own."""
    nodes: Callable[[], Sequence[NodeInfo]] = tuple
    """Its servers, as they are now. It blocks, on connections of its own, for no longer than the
    slowest server takes to answer, or to be given up."""

    def check_ttl(self, value: object) -> float:
        """A ttl that it allows, rounded up to its step."""
        promises = self.guarantees
        return check_ttl(value, promises.min_ttl, promises.max_ttl, promises.ttl_step)


def same_clock(ttl: float) -> float:
    """No drift: holder and engine read one and the same clock."""
    return 0.0
