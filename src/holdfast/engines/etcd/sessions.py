"""Sessions: etcd leases that a client keeps alive. Keys that are attached to one end with it.

A new lease rests on the last keep-alive: a session lasts for its ttl from when that was sent.
`registry.py` has which claims a session is for.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Any

WAITING = 5
"""Seconds after which a client that waits and dies is out of every queue."""

OLDEST = 1.0
"""A new lease may rest on a keep-alive that was sent at most this many seconds before the lease was
asked for; or a tenth of the ttl, if that is less."""


def oldest(ttl: float) -> float:
    """How old the last keep-alive may be when a lease of that ttl begins."""
    return min(ttl / 10, OLDEST)


@dataclass(slots=True, eq=False)
class Session:
    """One etcd lease."""

    ttl: int
    """In seconds: as asked for, then as granted."""
    is_joint: bool
    """Whether it is that of all claims which are renewed, and have this ttl."""
    asked_for: int
    """The ttl as asked for."""
    lease: int
    """The id of the etcd lease."""
    granted: bool = False
    """Whether the servers have confirmed that it exists."""
    sent_at: float = -inf
    """The instant before the last grant or keep-alive left that was answered."""
    claims: dict[Any, None] = field(default_factory=dict)
    """Those whose place is attached to it, or may be."""
    strays: dict[bytes, None] = field(default_factory=dict)
    """Keys that may be attached to it although no claim needs them."""
    retired: bool = False
    """Whether it gets no new claims; see `registry.py`."""

    @property
    def in_use(self) -> bool:
        """Whether new claims may get it."""
        return self.is_joint and not self.retired

    def is_fresh(self, since: float) -> bool:
        """Whether a lease that was asked for at that instant can rest on it."""
        return self.sent_at >= since - oldest(self.ttl)

    def is_due(self, now: float) -> bool:
        """Whether it must be granted, or kept alive, for what waits on it."""
        return self.sent_at + self.ttl / 3 <= now

    def kept(self, sent_at: float, ttl: int) -> None:
        """The servers have granted it, or kept it alive."""
        self.granted, self.sent_at, self.ttl = True, max(self.sent_at, sent_at), ttl
