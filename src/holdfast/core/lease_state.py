"""The life of one lease, as its holder knows it.

         ┌── let_go() ──> RELEASED
    HELD ┼── lose() ────> LOST
         └── disown() ──> FOREIGN   (a forked child's copy: the lease is its parent's)

1. A tenure is valid until `valid_until`, an instant counted from *before* the request left.
2. That instant only ever moves on, and only while it lies ahead: what has passed is lost, whatever
   a late answer says.
3. There is no way back to HELD.
4. All of it happens under the world's mutex, so that two threads never see it go to and fro.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import inf

from holdfast.errors import LockLost, NotHeld

EXPIRED = "its time ran out unrenewed"
TAKEN = "the engine says that it is not yours any more (it expired there, or an operator broke it)"


NODE_TIMEOUT = 5.0
"""The longest that one node may take to answer."""


def node_timeout(ttl: float) -> float:
    """How long one node may take to answer about a lease of that ttl."""
    return min(ttl / 3, NODE_TIMEOUT)


@lru_cache(64)
def validity(ttl: float, drift: Callable[[float], float]) -> float:
    """What is left of a ttl after the drift of the clocks: one object, for all leases of it."""
    return ttl - drift(ttl)


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
    """How long one node may take to answer about it."""
    validity: float
    """What is left of the ttl after the drift of the clocks."""

    @property
    def key(self) -> str:
        """The name with the client's prefix. Made when it is asked for: not each lease keeps it."""
        return self.prefix + self.name


class State(Enum):
    """Where a tenure stands."""

    HELD = "held"
    RELEASED = "released"
    LOST = "lost"
    FOREIGN = "foreign"


# By name, since reading a member off its class costs ten times as much.
HELD, RELEASED, LOST, FOREIGN = State


class LeaseState:
    """One grant of one name to one holder."""

    __slots__ = (
        "__weakref__",
        "depth",
        "fence",
        "hold_until",
        "holder",
        "renew_at",
        "spec",
        "state",
        "valid_until",
        "watchers",
        "why",
    )

    def __init__(
        self, spec: LockSpec, holder: str, fence: int, valid_until: float, hold_until: float
    ) -> None:
        self.spec = spec
        self.holder = holder
        self.fence = fence
        self.valid_until = valid_until
        self.hold_until = hold_until
        self.renew_at = inf
        self.state = HELD
        self.why = ""
        self.depth = 1
        self.watchers: tuple[Callable[[], None], ...] = ()

    @property
    def unsettled(self) -> bool:
        """Whether its holder has yet to let go of it, or to be told that it is lost."""
        return self.state is HELD or self.state is LOST

    def is_held(self, now: float) -> bool:
        """Whether it is surely mine at this instant."""
        return self.state is HELD and now < self.valid_until

    def is_lost(self, now: float) -> bool:
        """Whether it ended without my releasing it."""
        return self.state is LOST or (self.state is HELD and now >= self.valid_until)

    def remaining(self, now: float) -> float:
        """Seconds of validity left, never negative."""
        return max(0.0, self.valid_until - now) if self.state is HELD else 0.0

    def prolong(self, valid_until: float) -> None:
        """Move the end on. The caller has made sure that the old one still lies ahead."""
        self.valid_until = max(self.valid_until, valid_until)

    def mark_released(self) -> None:
        """Held no more, because its holder wanted so."""
        self.state = RELEASED

    def mark_inherited(self) -> None:
        """In a forked child: not mine to renew, release or report."""
        self.state = FOREIGN

    def lose(self, why: str) -> None:
        """Held no more, against its holder's will."""
        self.state = LOST
        self.why = why

    def require_held(self, now: float) -> None:
        """Raise unless it is held."""
        if self.state is FOREIGN:
            raise NotHeld(
                f"the lease on {self.spec.name!r} was taken by the process that this one was "
                "forked from, and is still that one's; nothing was changed"
            )
        if self.state is RELEASED:
            raise NotHeld(f"the lease on {self.spec.name!r} was released already")
        if self.is_lost(now):
            raise self.loss()

    def loss(self) -> LockLost:
        """The error that says so."""
        return LockLost(self.spec.name, self.fence, self.why or EXPIRED)
