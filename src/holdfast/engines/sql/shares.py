"""Locks that several hold at once, semaphores and read locks: which statements, and in which order.

A share of a lock that is free is taken, extended and released as an exclusive lock is, by one
statement on the lease's row, which has the shares of its holder.

Those that share a lock are rows of a table of their own: name, holder, shares, ttl, expires,
offered. The lease's row stays the gate. Its holder is `MARKER` then. It expires with the last
member, and is `offered` until a member has confirmed. Every transaction here locks that row first,
and so do all that write members. It makes one that has the lock alone a member (`unfold`, `share`),
and ends by bringing the row up to date with the members (`tally`).

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
- A transaction relies on the lease of the last exclusive holder: the fence cannot rise, and the
  asker has an offer meanwhile.
"""

from dataclasses import dataclass

from holdfast.engines.sql.dialect import MICROSECONDS, Row, as_text

MARKER = "(shared)"
"""The holder in the row of a shared lock. Holder ids are longer."""


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
    shares: int = 1
    """Those of the holder in the row, or of the members."""
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
        shares, place, *facts = rest or (1, 0)
        return cls(
            fence,
            now,
            max(0, remaining or 0) / MICROSECONDS,
            (ttl or 0) / MICROSECONDS,
            "" if owner is None else as_text(owner),
            1 if shares is None else shares,
            place or 0,
            *map(bool, facts),
        )

    @property
    def may_enter(self) -> bool:
        """Whether the asker gets in if it asks again."""
        return self.is_member or (self.has_room and not self.queued)

    @property
    def is_shared(self) -> bool:
        """Whether one has it alone and shares it, or several have it."""
        return self.owner != "" and self.shares != 1

    @property
    def has_shares(self) -> bool:
        """Whether there may be shares to offer: the lock is free, or its last holder's time is
        over, and the first waiter wants one; or a member's time is over, or a waiter may join the
        members."""
        is_free = not self.owner or not self.remaining
        return (is_free or self.queued) if self.is_shared else (is_free and self.queued)
