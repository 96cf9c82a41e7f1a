"""Locks that several may hold at once: semaphores, and the two sides of a read/write lock.

Each is a `Lock` whose leases carry `shares`: how many of its kind may be valid at once. Any number
of readers (0), so many as a semaphore has slots, or one: the writer, who holds the plain lock of
the same name. Only leases of the same kind are valid together.
"""

from dataclasses import dataclass, replace
from typing import Generic, TypedDict, TypeVar

from holdfast.lock import AsyncLock, Lock

L = TypeVar("L", Lock, AsyncLock)


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


def share(lock: L, shares: int) -> L:
    """The lock, which was not used yet, for so many holders at once."""
    lock._spec = replace(lock._spec, shares=shares)
    return lock


@dataclass(frozen=True, slots=True)
class ReadWriteLock(Generic[L]):
    """Many readers at once, or one writer: see `Client.rwlock`.

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

    read: L
    """For any number of holders at once."""
    write: L
    """For one holder, and no reader: the same as `client.lock(name)`."""
