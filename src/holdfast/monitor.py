"""What is seen of all locks over time: who holds what since when, how many wait, what changed.

`holdfast watch` and `holdfast ui` show it. It is fed with what `client.leases()` gives, again and
again; it asks nothing itself. What came and went between two looks is not seen.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from holdfast.core.records import Label, LeaseInfo

SAMPLES = 120
"""How many looks the contention of a lock is kept for."""

CHANGES = 50
"""How many changes of a lock are kept."""

MOST_GONE = 1000
"""How many locks are kept that are free now."""


@dataclass(frozen=True, slots=True)
class Change:
    """A holder came or went.

    >>> Change(10.0, "acquired", 7, "web-3/4711/app.py/1f0c").what
    'acquired'
    """

    at: float
    """When that was seen, in seconds since 1970."""
    what: Literal["acquired", "ended"]
    fence: int
    holder: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Since when a holder has a lock, or since when a lock is waited for.

    >>> Seen(since=10.0).lasts(now=12.5)
    2.5
    """

    since: float
    """Since when that has been seen; or, of a holder that was there at the first look, since when
    it has asked for the lock, by its own clock, if its id tells that."""
    mark: Literal["", ">", "≤"] = ""
    """Of what was so at the first look: `>` if it may have been so for longer than it was seen, `≤`
    if a holder has had the lock since it asked at most."""
    most: float = 0.0
    """Of a holder: the most that was seen left of its lease, which is about its ttl."""

    def lasts(self, now: float) -> float:
        """For how many seconds so far."""
        return max(0.0, now - self.since)


@dataclass(slots=True)
class Watched:
    """One lock that is held, or was."""

    name: str
    info: LeaseInfo | None = None
    """What was seen last; None: it is free."""
    seen_at: float = 0.0
    """When."""
    holders: dict[str, Seen] = field(default_factory=dict)
    """Its holders now, by their ids."""
    waiters: deque[int] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """How many waited, at each look."""
    wait: Seen | None = None
    """Since when it has been waited for without a break: at every look since, at least one client
    waited. (An engine counts waiters, and does not name them: each may have waited for less.) None:
    it is free, it is not waited for, or the engine does not count waiters."""
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=CHANGES))


class Monitor:
    """All locks of one engine, as they are seen from outside.

    >>> import holdfast
    >>> monitor = Monitor()
    >>> with holdfast.Client("memory://monitor-example") as client, client.lock("report"):
    ...     monitor.look(client.leases(), now=100.0)
    ...     monitor.look(client.leases(), now=107.0)
    >>> [(lock.name, [each.since <= 100.0 for each in lock.holders.values()])
    ...     for lock in monitor.held()]
    [('report', [True])]
    """

    def __init__(self) -> None:
        self._locks: dict[str, Watched] = {}
        self.looks = 0
        """How often it has looked."""

    def look(self, leases: Iterable[LeaseInfo], now: float) -> None:
        """Take in all locks that are held now."""
        found = {info.name: info for info in leases}
        for name, info in found.items():
            if name not in self._locks:
                self._locks[name] = Watched(name)
            self._update(self._locks[name], info, now)
        for name, lock in self._locks.items():
            if name not in found and lock.info is not None:
                self._update(lock, None, now)
        self._forget()
        self.looks += 1

    def names(self) -> list[str]:
        """Of the locks that are held, or were not long ago."""
        return list(self._locks)

    def held(self) -> list[Watched]:
        """The locks that are held, in the order in which they were first seen."""
        return [lock for lock in self._locks.values() if lock.info is not None]

    def find(self, name: str) -> Watched | None:
        """A lock that is held, or was not long ago."""
        return self._locks.get(name)

    def _update(self, lock: Watched, info: LeaseInfo | None, now: float) -> None:
        before, members = lock.info, info.members if info else ()
        present = {member.holder for member in members}
        for holder in [each for each in lock.holders if each not in present]:
            del lock.holders[holder]
            lock.changes.append(Change(now, "ended", before.fence if before else 0, holder))
        for member in members:
            seen = lock.holders.get(member.holder)
            if seen is None:
                seen = self._begin(member.holder, now)
                if self.looks and info is not None:
                    lock.changes.append(Change(now, "acquired", info.fence, member.holder))
            most = max(member.remaining, seen.most if seen.most < inf else 0.0)
            lock.holders[member.holder] = seen if most == seen.most else replace(seen, most=most)
        lock.info, lock.seen_at = info, now
        waiters = (info.waiters or 0) if info else 0
        lock.waiters.append(waiters)
        lock.wait = (lock.wait or Seen(now, "" if self.looks else ">")) if waiters else None

    def _begin(self, holder: str, now: float) -> Seen:
        if self.looks:
            return Seen(now)
        label = Label.of(holder)
        asked_at = label.asked_at if label else None
        if asked_at is not None and asked_at <= now:
            return Seen(asked_at, "≤")
        return Seen(now, ">")

    def _forget(self) -> None:
        """The locks that have been free for the longest, if there are too many of them."""
        free = [lock for lock in self._locks.values() if lock.info is None]
        for lock in sorted(free, key=lambda each: each.seen_at)[: max(0, len(free) - MOST_GONE)]:
            del self._locks[lock.name]


def kind_of(info: LeaseInfo) -> str:
    """A lock, a semaphore with its slots, or a read lock, in words.

    >>> kind_of(LeaseInfo("prices", "web-3/4711/app.py/1f0c", 7, 2.5, 0, shares=0))
    'read lock'
    """
    if info.shares == 1:
        return "lock"
    return f"semaphore {len(info.members)}/{info.shares}" if info.shares else "read lock"
