"""What to say to an SQL database: scripts that yield statements and are sent rows.

They are pure, so that a blocking and an awaiting store can both speak them. Times are whole
microseconds. Every script can be run again from its beginning: asking twice is harmless.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from holdfast.core.messages import (
    OFFER,
    Acquire,
    Answer,
    Break,
    Done,
    Extend,
    Granted,
    Held,
    Inspect,
    Listing,
    NotYours,
    Release,
    Request,
    Seen,
)

MICROSECONDS = 1_000_000


class Statement(NamedTuple):
    """Run this; gives its rows."""

    sql: str
    values: dict[str, Any]


class Begin(NamedTuple):
    """Open a transaction that may write."""


class Commit(NamedTuple):
    """End it, keeping what it did."""


class Call(NamedTuple):
    """After the commit: wake the waiter `holder`, who listens at `bell`; gives whether it lives."""

    key: str
    holder: str
    bell: str


Row: TypeAlias = tuple[Any, ...]
Script: TypeAlias = Generator[Statement | Begin | Commit | Call, Any, Answer]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one kind of database. Each text says which values it takes and what it gives."""

    acquire: str
    """(key, holder, ttl, now, boot) -> (fence) if granted, else nothing"""
    look: str
    """(key, now, boot) -> (remaining, ttl, whether the end is an instant of our clock)"""
    adopt: str
    """(key, now, boot): count the time of a lease of another clock anew, on ours"""
    join: str
    """(key, holder, ttl, bell): take a place in the queue, or keep it"""
    leave: str
    """(key, holder): give the place up"""
    extend: str
    """(key, holder, ttl, now, boot) -> a row if done"""
    release: str
    """(key, holder, now, boot) -> a row if done; does nothing while anybody waits"""
    mine: str
    """(key, holder) -> a row if it is the holder's"""
    first_two: str
    """(key) -> (holder, ttl, bell) of the first two in the queue"""
    offer: str
    """(key, holder, waiter, ttl, until, boot): hand the lease over, with a new fence"""
    free: str
    """(key, holder, now, boot): hand it to nobody"""
    holder: str
    """(key, now, boot) -> (holder) if held"""
    listing: str
    """(prefix, after, limit, now, boot) -> (key, holder, fence, remaining, waiters)"""
    inspect: str
    """(key, now, boot) -> the same"""


class Scripts:
    """The scripts of one client."""

    def __init__(
        self, dialect: Dialect, now: Callable[[], int], boot: str, bell: Callable[[], str]
    ) -> None:
        self._sql = dialect
        self._now = now
        self._boot = boot
        self._bell = bell

    def answer(self, request: Request) -> Script:
        """The script for a request."""
        if isinstance(request, Acquire):
            return self._queue_up(request) if request.queue else self._acquire(request)
        if isinstance(request, Release):
            return self._release(request.key, request.holder)
        if isinstance(request, Extend):
            return self._extend(request)
        if isinstance(request, Break):
            return self._break(request)
        if isinstance(request, Inspect):
            return self._list(self._sql.inspect, {"key": request.key})
        return self._list(self._sql.listing, request._asdict())

    def _acquire(self, request: Acquire) -> Script:
        values = {
            "key": request.key,
            "holder": request.holder,
            "ttl": round(request.ttl * MICROSECONDS),
            "now": self._now(),
            "boot": self._boot,
        }
        rows = yield Statement(self._sql.acquire, values)
        if rows:
            return Granted(rows[0][0])
        remaining = yield from self._remaining(request.key)
        return Held(remaining, wakes=False)

    def _queue_up(self, request: Acquire) -> Script:
        place = {"key": request.key, "holder": request.holder}
        bell = self._bell()
        yield Begin()
        answer = yield from self._acquire(request)
        if isinstance(answer, Granted):
            yield Statement(self._sql.leave, place)
        elif isinstance(answer, Held) and bell:
            ttl = round(request.ttl * MICROSECONDS)
            yield Statement(self._sql.join, {**place, "ttl": ttl, "bell": bell})
            answer = Held(answer.remaining, wakes=True)
        yield Commit()
        return answer

    def _remaining(self, key: str) -> Generator[Statement, list[Row], float]:
        """How much longer somebody else's lease may last."""
        values = {"key": key, "now": self._now(), "boot": self._boot}
        rows = yield Statement(self._sql.look, values)
        if not rows:
            return 0.0
        remaining, ttl, on_our_clock = rows[0]
        if not on_our_clock:
            yield Statement(self._sql.adopt, values)
            remaining = ttl
        return float(max(0, remaining) / MICROSECONDS)

    def _extend(self, request: Extend) -> Script:
        values = {
            "key": request.key,
            "holder": request.holder,
            "ttl": round(request.ttl * MICROSECONDS),
            "now": self._now(),
            "boot": self._boot,
        }
        rows = yield Statement(self._sql.extend, values)
        return Done() if rows else NotYours()

    def _release(self, key: str, holder: str) -> Script:
        """Give back, and hand on to the first waiter that lives."""
        values = {"key": key, "holder": holder, "now": self._now(), "boot": self._boot}
        rows = yield Statement(self._sql.release, values)
        if rows:
            return Done()
        yield Begin()
        yield Statement(self._sql.leave, {"key": key, "holder": holder})
        waiting: list[Row] = []
        mine = yield Statement(self._sql.mine, {"key": key, "holder": holder})
        if mine:
            waiting = yield Statement(self._sql.first_two, {"key": key})
            if waiting:
                yield from self._offer(key, holder, waiting[0])
            else:
                yield Statement(self._sql.free, {**values, "now": self._now()})
        yield Commit()
        if waiting:
            yield from self._wake(key, waiting)
        return Done() if mine else NotYours()

    def _offer(self, key: str, holder: str, first: Row) -> Generator[Statement, Any, None]:
        waiter, ttl, _ = first
        until = self._now() + round(OFFER * MICROSECONDS)
        values = {"key": key, "holder": holder, "waiter": waiter, "ttl": ttl, "until": until}
        yield Statement(self._sql.offer, {**values, "boot": self._boot})
        yield Statement(self._sql.leave, {"key": key, "holder": waiter})

    def _wake(self, key: str, waiting: list[Row]) -> Generator[Any, Any, None]:
        """Wake the one that was offered the lock; if it is dead, offer it to the next.

        The second in line is woken too: it learns how short the offer is, so it can move it on.
        """
        waiter, _, bell = waiting[0]
        alive = yield Call(key, waiter, bell)
        if not alive:
            yield from self._release(key, waiter)
        elif len(waiting) > 1:
            second, _, its_bell = waiting[1]
            if not (yield Call(key, second, its_bell)):
                yield Statement(self._sql.leave, {"key": key, "holder": second})

    def _break(self, request: Break) -> Script:
        values = {"key": request.key, "now": self._now(), "boot": self._boot}
        rows = yield Statement(self._sql.holder, values)
        if not rows:
            return NotYours()
        return (yield from self._release(request.key, rows[0][0]))

    def _list(self, sql: str, values: dict[str, Any]) -> Script:
        values |= {"now": self._now(), "boot": self._boot}
        rows = yield Statement(sql, values)
        return Listing(
            tuple(
                Seen(key, holder, fence, max(0, remaining) / MICROSECONDS, waiters)
                for key, holder, fence, remaining, waiters in rows
            )
        )
