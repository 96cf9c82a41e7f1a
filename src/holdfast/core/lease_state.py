"""The life of one lease, as its holder knows it.

         ┌── mark_released() ──> RELEASED
    HELD ┤
         └── mark_lost() ──────> LOST

1. A lease is valid until `valid_until`, an instant counted from *before* the request left.
2. That instant only ever moves on, and only while it lies ahead: what has passed is lost, also if
   a late answer confirms it.
3. There is no way back to HELD, and none out of LOST. (A release that the engine answers with "not
   yours" turns RELEASED into LOST: the lease had ended before.)
4. All of it happens under the runtime's mutex.
5. A lease belongs to the process that took it. In a forked child it is inherited: neither held nor
   lost, and nothing can be done with it. Every fork moves the fork epoch of the runtime on; a lease
   with an older epoch is inherited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Protocol

from holdfast.errors import LockLost, NotHeld

EXPIRED = "it was not renewed in time"
TAKEN = "the engine reports another holder or none (it expired there, or an operator broke it)"
CLOSED = "the client was closed"


@dataclass(frozen=True, slots=True)
class LockSpec:
    """What a `Lock` asks for."""

    name: str
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
    def key(self) -> str:
        """The name with the client's prefix. Made when it is asked for: not each lease keeps it."""
        return self.prefix + self.name


class State(Enum):
    """Where a lease stands."""

    HELD = "held"
    RELEASED = "released"
    LOST = "lost"
    INHERITED = "inherited"


# By name, since reading a member off its class costs ten times as much.
HELD, RELEASED, LOST, INHERITED = State


class ForkEpoch(Protocol):
    """The runtime, as far as a lease knows it."""

    epoch: int


class LeaseState:
    """One grant of one name to one holder."""

    __slots__ = (
        "__weakref__",
        "_epoch",
        "_runtime",
        "acquired_at",
        "callbacks",
        "depth",
        "dropped",
        "facade",
        "fence",
        "hold_until",
        "holder",
        "keep_until",
        "release_failed",
        "renew_at",
        "spec",
        "status",
        "ttl",
        "valid_until",
        "why",
    )

    def __init__(
        self,
        runtime: ForkEpoch,
        spec: LockSpec,
        holder: str,
        fence: int,
        valid_until: float,
        hold_until: float = inf,
        ttl: float = 0.0,
    ) -> None:
        self._runtime = runtime
        self._epoch = runtime.epoch
        self.status = HELD
        """Where it stands, for the process that took it: see `state`."""
        self.spec = spec
        self.holder = holder
        self.fence = fence
        self.valid_until = valid_until
        self.hold_until = hold_until
        self.ttl = ttl or spec.ttl
        self.acquired_at = 0.0
        """When; only if the client has hooks."""
        self.keep_until = 0.0
        """Until when a release waits."""
        self.renew_at = inf
        self.why = ""
        self.depth = 1
        self.dropped = False
        """Whether the user cannot reach it any more: it is not renewed, and ends."""
        self.callbacks: tuple[Callable[[], None], ...] = ()
        self.facade: Callable[[], object] | None = None
        """Returns what the callbacks are called with. It is weak: the driver keeps the object alive
        until it has called them."""
        self.release_failed = False
        """Whether `release()` raised because the engine was unreachable; it may be repeated."""

    @property
    def state(self) -> State:
        """Where it stands in this process."""
        return self.status if self._epoch == self._runtime.epoch else INHERITED

    def is_held(self, now: float) -> bool:
        """Whether it is surely held at this instant."""
        return now < self.valid_until and self.status is HELD and self._epoch == self._runtime.epoch

    def is_lost(self, now: float) -> bool:
        """Whether it ended without being released."""
        state = self.state
        return state is LOST or (state is HELD and now >= self.valid_until)

    def remaining(self, now: float) -> float:
        """Seconds of validity left, never negative."""
        return max(0.0, self.valid_until - now) if self.state is HELD else 0.0

    def prolong(self, valid_until: float) -> None:
        """Move the end on. The caller has made sure that the old one still lies ahead."""
        self.valid_until = max(self.valid_until, valid_until)

    def mark_released(self) -> None:
        """Its holder has released it."""
        self.status = RELEASED

    def mark_lost(self, why: str) -> None:
        """It ended without being released."""
        self.status = LOST
        self.why = why

    def require_held(self, now: float) -> None:
        """Raise unless it is held."""
        if self.is_held(now):
            return
        state = self.state
        if state is INHERITED:
            raise NotHeld(
                f"the lease on {self.spec.name!r} was taken by the process that this one was "
                "forked from, and still belongs to that process; nothing was changed"
            )
        if state is RELEASED:
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
