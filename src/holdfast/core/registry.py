"""The leases of one client.

The registry refers to leases weakly: one that the user cannot reach any more is not renewed. What
is due is found by looking at all of them. That is rare: the renewals of one ttl fall on a common
grid, and a deadline that is looked at has as a rule been moved on meanwhile.

All of it needs the runtime's mutex.
"""

from math import inf
from operator import attrgetter
from weakref import ref

from holdfast.core.lease_state import HELD, LeaseState
from holdfast.core.messages import holder_of


class Registry:
    """The leases of a client, and when its loops look at them."""

    def __init__(self) -> None:
        self._leases: dict[str, ref[LeaseState]] = {}
        self.renewer_looks_at = inf
        """When the renewer looks next; infinite if it does not run. For a lease that is due
        earlier, it is woken or started (`wake_loops`)."""
        self.watcher_looks_at = inf
        self.dropped: list[LeaseState] = []
        """Held, but out of the user's reach: kept here until their time is over."""

    def add(self, lease: LeaseState) -> None:
        """A lease was granted."""
        self._leases[holder_of(lease.holder)] = ref(lease)

    def remove(self, lease: LeaseState) -> None:
        """A lease was released."""
        self._leases.pop(holder_of(lease.holder), None)

    def inherit(self) -> None:
        """This is a forked child: all of them are the parent's, also those that are lost."""
        for reference in list(self._leases.values()):
            lease = reference()
            if lease is not None:
                lease.mark_inherited()

    def find(self, holder: str) -> LeaseState | None:
        """The lease of this holder, or of an attempt of its own over a quorum, if it is held."""
        reference = self._leases.get(holder_of(holder))
        lease = None if reference is None else reference()
        return lease if lease is not None and lease.state is HELD else None

    def held(self) -> list[LeaseState]:
        """Every lease that has not ended; those that are out of reach are forgotten."""
        found = []
        for holder, reference in list(self._leases.items()):
            lease = reference()
            if lease is None:
                del self._leases[holder]
            elif lease.state is HELD:
                found.append(lease)
        return found

    def to_renew(self) -> list[LeaseState]:
        """The leases that are renewed, the next one first."""
        renewed = [lease for lease in self.held() if lease.renew_at < inf]
        return sorted(renewed, key=attrgetter("renew_at"))

    def next_renewal(self) -> float:
        """When the next lease is to be renewed, or infinity."""
        return min((lease.renew_at for lease in self.held()), default=inf)

    def next_deadline(self) -> float:
        """When the next lease ends unless it is renewed, or infinity."""
        return min((lease.valid_until for lease in self.held()), default=inf)
