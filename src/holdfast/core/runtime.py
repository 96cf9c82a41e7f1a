"""What an algorithm is given instead of reaching for it: clock, randomness, ids, a mutex, and the
state that all algorithms of one client share."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf

from holdfast.core.effects import Uniform
from holdfast.core.lease_state import LeaseState
from holdfast.core.pending import PendingReleases
from holdfast.core.registry import Registry
from holdfast.events import Event

RENEWER, WATCHER = "renewer", "watcher"
"""The waiter ids of the client's two loops: `renew_forever` and `watch_deadlines`."""


@dataclass(slots=True)
class Runtime:
    """What the algorithms of one client work with."""

    clock: Callable[[], float]
    """Seconds, on a clock that is never set and that counts while the machine sleeps."""
    uniform: Uniform
    new_holder: Callable[[str], str]
    """A new holder id, with this label in it."""
    emit: Callable[[Event], None]
    """Report an event. It must not wait."""
    mutex: AbstractContextManager[object]
    """Guards all state below and every lease. Re-entrant; held for a few lines at a time."""
    drift: Callable[[float], float]
    min_ttl: float
    ttl_step: float
    subscribe: Callable[[str], None]
    """Remember notifications for this waiter id, from now on."""
    unsubscribe: Callable[[str], None]
    """Forget a waiter id and its notifications."""
    wake: Callable[[str], None]
    """Notify one of the client's loops; start it if it does not run. (`RuntimeError` if that is
    not possible, because no more threads can be started.)"""
    notify_lost: Callable[[LeaseState], None]
    """Report a loss and call the lease's callbacks, soon and elsewhere: it must not wait."""
    joins_at_once: bool = False
    """As in `Engine`."""
    engine: str = ""
    """What it is, for people: "an etcd v3 cluster"."""
    registry: Registry = field(default_factory=Registry)
    pending: PendingReleases = field(default_factory=PendingReleases)
    has_hooks: bool = False
    """Whether events are emitted that only hooks need. Failures are, always: they are logged."""
    closed: bool = False
    """Nothing is acquired or renewed any more."""

    def is_idle(self, loop: str) -> bool:
        """Whether this loop has nothing to do. Needs the mutex."""
        held = self.registry.held()
        if loop == WATCHER:
            return not held
        return not self.pending and all(lease.renew_at == inf for lease in held)

    def forked(self, mutex: AbstractContextManager[object]) -> None:
        """In a forked child: all that was held, pending or locked belongs to the parent."""
        self.mutex = mutex
        self.registry.inherit()
        self.registry = Registry()
        self.pending = PendingReleases()
