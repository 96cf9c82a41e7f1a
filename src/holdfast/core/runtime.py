"""What an algorithm is given instead of reaching for it: clock, randomness, ids, and a mutex."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from holdfast.core.schedule import Schedule
from holdfast.events import Event


@dataclass(slots=True)
class Runtime:
    """The surroundings of one client. Not frozen: a forked child gets a mutex of its own."""

    clock: Callable[[], float]
    """Seconds, on a clock that nobody sets and that counts while the machine sleeps."""
    uniform: Callable[[float, float], float]
    new_holder: Callable[[], str]
    emit: Callable[[Event], None]
    mutex: AbstractContextManager[object]
    """Guards the schedule and every tenure in it. Re-entrant; held for a few lines at a time."""
    drift: Callable[[float], float]
    min_ttl: float
    unsubscribe: Callable[[str], None]
    """Forget a ticket and its wake-ups."""
    wake_renewer: Callable[[], None]
    """Make the renewer look at the schedule now."""
    schedule: Schedule
    contended: set[str] = field(default_factory=set)
    """The keys that were held when they were last asked for: whoever wants one of them queues at
    once, which saves a question. A guess, and no more."""
