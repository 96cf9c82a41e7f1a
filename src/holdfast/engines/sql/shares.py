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

from dataclasses import dataclass

from holdfast.engines.sql.dialect import MICROSECONDS, Row, as_text

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
