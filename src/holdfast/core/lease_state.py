"""The life of one lease, as its holder knows it.

         ┌── mark_released() ──> RELEASED
    HELD ┤
         └── mark_lost() ──────> LOST         in a forked child: INHERITED

1. A lease is valid until `valid_until`, an instant counted from *before* the request left.
2. That instant only ever moves on, and only while it lies ahead: what has passed is lost, also if
   a late answer confirms it.
3. There is no way back to HELD, and none out of LOST. (A release that the engine answers with "not
   yours" turns RELEASED into LOST: the lease had ended before.)
4. All of it happens under the runtime's mutex.
5. A lease belongs to the process that took it. In a forked child it is inherited: neither held nor
   lost, and nothing can be done with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf

from holdfast.errors import LockLost, NotHeld

EXPIRED = "it was not renewed in time"
TAKEN = "the engine reports another holder or none (it expired there, or an operator broke it)"
CLOSED = "the client was closed"


@dataclass(frozen=True, slots=True)
class LockSpec:
    """What a `Lock` asks for."""

    key: str
    """Its name, with the client's prefix before it."""
    prefix: str
    ttl: float
    renew: bool
    max_hold: float | None
    retry: float
    request_timeout: float
    """How long the engine may take to answer about it."""
    label: str = ""
    """What its holder ids say of it, encoded."""
    min_hold: float = 0.0
    shares: int = 1
    """How many leases of this kind may be valid at once; 0: any number."""

    @property
    def name(self) -> str:
        """What its user calls it."""
        return self.key.removeprefix(self.prefix)


class State(Enum):
    """Where a lease stands."""

    HELD = "held"
    RELEASED = "released"
    LOST = "lost"
    INHERITED = "inherited"


# By name, since reading a member off its class costs ten times as much.
HELD, RELEASED, LOST, INHERITED = State


class LeaseState:
    """One grant of one name to one holder."""

    acquired_at = 0.0
    """When; only if the client has hooks."""
    keep_until = 0.0
    """Until when a release waits."""
    renew_at = inf
    why = ""
    depth = 1
    dropped = False
    """Whether the user cannot reach it any more: it is not renewed, and ends."""
    callbacks: tuple[Callable[[], None], ...] = ()
    facade: Callable[[], object] | None = None
    """Returns what the callbacks are called with. It is weak: the driver keeps the object alive
    until it has called them."""

    def __init__(
        self,
        spec: LockSpec,
        holder: str,
        fence: int,
        valid_until: float,
        hold_until: float = inf,
        ttl: float = 0.0,
    ) -> None:
        self.state = HELD
        self.spec = spec
        self.holder = holder
        self.fence = fence
        self.valid_until = valid_until
        self.hold_until = hold_until
        self.ttl = ttl or spec.ttl
        self.asked_ttl = self.ttl
        """The longest one that was asked for: if the reply was lost, the engine may have it."""

    def is_held(self, now: float) -> bool:
        """Whether it is surely held at this instant."""
        return now < self.valid_until and self.state is HELD

    def is_lost(self, now: float) -> bool:
        """Whether it ended without being released."""
        return self.state is LOST or (self.state is HELD and now >= self.valid_until)

    def remaining(self, now: float) -> float:
        """Seconds of validity left, never negative."""
        return max(0.0, self.valid_until - now) if self.state is HELD else 0.0

    def prolong(self, valid_until: float) -> None:
        """Move the end on. The caller has made sure that the old one still lies ahead."""
        self.valid_until = max(self.valid_until, valid_until)

    def mark_released(self) -> None:
        """Its holder has released it."""
        self.state = RELEASED

    def mark_lost(self, why: str) -> None:
        """It ended without being released."""
        self.state = LOST
        self.why = why

    def mark_inherited(self) -> None:
        """This is a forked child: it is the parent's."""
        self.state = INHERITED

    def require_held(self, now: float) -> None:
        """Raise unless it is held."""
        if self.is_held(now):
            return
        if self.state is INHERITED:
            raise NotHeld(
                f"the lease on {self.spec.name!r} was taken by the process that this one was "
                "forked from, and still belongs to that process; nothing was changed"
            )
        if self.state is RELEASED:
            raise NotHeld(f"the lease on {self.spec.name!r} was released already")
        raise self.loss()

    def loss(self) -> LockLost:
        """The error for a lost lease."""
        return LockLost(self.spec.name, self.fence, self.why or self.why_expired())

    def why_expired(self) -> str:
        """Why it ends when its time is over."""
        if self.valid_until >= self.hold_until:
            return f"its max_hold of {self.spec.max_hold:g} s is over"
        return EXPIRED
