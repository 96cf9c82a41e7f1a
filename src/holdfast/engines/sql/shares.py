"""Locks that several hold at once, semaphores and read locks: which statements, and in which order.

A share of a lock that is free is taken, extended and released as an exclusive lock is, by one
statement on the lease's row. The holder in it is then the text of `alone`, which has the shares.

Those that share a lock are rows of a table of their own: name, holder, shares, ttl, expires,
offered. The lease's row stays the gate. Its holder is `MARKER` then. It expires with the last
member, and is `offered` until a member has confirmed. Every transaction here locks that row first,
and so do all that write members. It makes one that has the lock alone a member (`unfold`, `mark`),
and ends by bringing the row up to date with the members (`tally`).

Neither text is a holder id: clients that know of no shares see a lock of another's.

What can happen:

- A member's time is over: the next transaction on the name deletes it (`expire`), and what it
  leaves is offered to the queue. The answer to a waiter has the time of the member that ends first.
- The last member's time is over: the row has expired with it. An exclusive client takes it over by
  its one statement and leaves rows of members behind. They mean nothing while the row's holder is
  not `MARKER`, and are deleted before it is `MARKER` again.
- A member is released while others remain: the row expires with the last of those.
- A member is extended after its end: it was deleted, so it is not found.
- Several are offered the lock at once (`admit`): each is a member whose time is that of an offer,
  until it has confirmed. The first to confirm raises the fence, for all that come while a member
  is left.
- A waiter died: it is skipped, as for an exclusive lock. One that dies after it was offered a share
  keeps that for the time of an offer.
- The clock is set back: no member lasts longer than its ttl from now (`recount`).
- A client that knows of no shares offers the lock to a waiter that wants a share: the row then
  has that waiter's id. Its next request makes it the first member, and lets others in.
- A transaction relies on the lease of the last exclusive holder: the fence cannot rise, and the
  asker has an offer meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from holdfast.core.messages import Acquire, Extend, Failed
from holdfast.engines.sql.dialect import (
    MICROSECONDS,
    BootClock,
    Dialect,
    Row,
    ServerClock,
    Statement,
    Steps,
    Text,
    as_text,
)
from holdfast.engines.sql.waiters import Waiters

MARKER = "(shared)"
"""The holder in the row of a shared lock. Holder ids are longer."""

ALONE = "(shared "
"""How the holder in the row begins if one has it alone and would share it; see `alone`."""


def alone(holder: str, shares: int) -> str:
    """The holder in the row of a lock that one has alone, and would share.

    >>> alone("ann", 3)
    '(shared 0000000003)ann'
    """
    return f"{ALONE}{shares:010})" + holder


def read_holder(text: str) -> tuple[str, int]:
    """The holder id, and its shares, of such a holder.

    >>> read_holder("(shared 0000000003)ann")
    ('ann', 3)
    """
    shares, _, holder = text.removeprefix(ALONE).partition(")")
    return holder, int(shares)


@dataclass(slots=True)
class State:
    """How a lock stands, as the statements give it. The last three only `peek` knows."""

    fence: int | None
    """If the asker has the lock."""
    now: int
    remaining: float
    ttl: float
    owner: str
    """The holder in the row."""
    place: int = 0
    """The asker's, in the queue."""
    queued: bool = False
    is_member: bool = False
    has_room: bool = False
    is_first_alike: bool = False

    @classmethod
    def of(cls, row: Row) -> "State":
        """From a row of `acquire`, `verdict`, `look` or `peek`."""
        fence, now, remaining, ttl, owner, *rest = row
        place, *facts = rest or (0,)
        return cls(
            fence,
            now,
            max(0, remaining or 0) / MICROSECONDS,
            (ttl or 0) / MICROSECONDS,
            "" if owner is None else as_text(owner),
            place or 0,
            *map(bool, facts),
        )

    @property
    def may_enter(self) -> bool:
        """Whether the asker gets in if it asks again."""
        return self.is_member or (self.has_room and not self.queued)

    @property
    def is_shared(self) -> bool:
        """Whether one has it alone and would share it, or several have it."""
        return self.owner.startswith((MARKER, ALONE))

    @property
    def has_shares(self) -> bool:
        """Whether there may be shares to offer: the lock is free, or its last holder's time is
        over, and the first waiter wants one; or a member's time is over, or a waiter may join the
        members."""
        is_free = not self.owner or not self.remaining
        return (is_free or self.queued) if self.is_shared else (is_free and self.queued)


class Shares:
    """The commands of one client for shared locks."""

    def __init__(
        self,
        node: str,
        sql: Dialect,
        clock: ServerClock | BootClock,
        waiters: Waiters,
        statements: Callable[..., tuple[Statement, ...]],
    ) -> None:
        """`statements`: texts, with the values that they name."""
        self._node, self._sql, self._clock = node, sql, clock
        self._waiters, self._statements = waiters, statements
        self._shared = shared = sql.shared
        self.before = (shared.recount, shared.expire, shared.unfold, shared.mark)
        """What a transaction begins with, once it has locked the row."""

    def take(self, request: Acquire, until: float, lock_wait: float) -> Steps[State | Failed]:
        """Take a share if there is room and no queue, or if it is offered to us."""
        shared = self._shared
        for _ in range(2):
            asked_at, deadline = self._clock.ours(), self._clock.deadline(until)
            *_, [row] = yield self._transaction(
                shared.enter,
                shared.rise,
                shared.confirm,
                lock=shared.reserve,
                key=request.key,
                holder=request.holder,
                shares=request.shares,
                ttl=round(request.ttl * MICROSECONDS),
                deadline=deadline,
                lock_wait=lock_wait,
            )
            state = State.of(row)
            self._clock.learn(asked_at, state.now)
            if state.now >= deadline:
                continue  # it may have done nothing; now we know the server's clock
            return state
        return Failed.at(self._node, "the server's clock was set during the request")

    def extend(self, requests: Sequence[Extend]) -> Steps[set[str]]:
        """Extend the leases of members, in one transaction; gives the holders for which that was
        done."""
        transactions = [
            self._transaction(
                self._shared.prolong,
                key=request.key,
                holder=request.holder,
                shares=0,
                ttl=round(request.ttl * MICROSECONDS),
            )
            for request in requests
        ]
        results = yield tuple(chain.from_iterable(transactions))
        length = len(transactions[0])
        extended = results[length - 3 :: length]
        done = {each.holder for each, rows in zip(requests, extended, strict=True) if rows}
        for holder in done & self._waiters.sharing.keys():
            self._waiters.sharing[holder] = ""
        return done

    def _transaction(
        self, *work: Text, lock: Text | None = None, **values: object
    ) -> tuple[Statement, ...]:
        shared, lock = self._shared, lock or self._sql.lock
        before = self.before if lock is None else (lock, *self.before)
        return self._statements(*before, *work, shared.tally, shared.peek, **values)
