"""The leases of one client, by the instants at which something is due.

The registry refers to leases weakly: one that the user cannot reach any more is not renewed. An
entry of a heap is not removed when its lease ends or is renewed: it is checked when it comes up,
and when most entries are out of date, the heap is made anew.

All of it needs the runtime's mutex.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from operator import attrgetter
from weakref import ref

from holdfast.core.attempt import holder_of
from holdfast.core.lease_state import HELD, LeaseState

SWEEP_ABOVE = 64


class Registry:
    """The leases of a client, when each must be renewed, and when it ends."""

    def __init__(self) -> None:
        self._leases: dict[str, ref[LeaseState]] = {}
        self.renewals = Agenda(attrgetter("renew_at"))
        self.deadlines = Agenda(attrgetter("valid_until"))
        self.dropped: list[LeaseState] = []
        """Held, but out of the user's reach: kept here until their time is over."""

    def add(self, lease: LeaseState) -> None:
        """A lease was granted."""
        self._leases[holder_of(lease.holder)] = ref(lease)

    def __len__(self) -> int:
        return len(self._leases)

    def remove(self, lease: LeaseState) -> None:
        """A lease has ended."""
        self._leases.pop(holder_of(lease.holder), None)

    def find(self, holder: str) -> LeaseState | None:
        """The lease of this holder, if it is held."""
        reference = self._leases.get(holder)
        lease = None if reference is None else reference()
        return lease if lease is not None and lease.status is HELD else None

    def held(self) -> list[LeaseState]:
        """Every lease that has not ended; those that are out of reach are forgotten."""
        found = []
        for holder, reference in list(self._leases.items()):
            lease = reference()
            if lease is None:
                del self._leases[holder]
            elif lease.status is HELD:
                found.append(lease)
        return found

    def due_renewals(self, now: float, limit: int) -> list[LeaseState]:
        """Take out the leases that must be renewed now, at most `limit` of them."""
        found: dict[str, LeaseState] = {}  # one that was planned twice comes up twice
        for lease in self.renewals.take(now):
            found[lease.holder] = lease
            if len(found) == limit:
                break
        return list(found.values())

    def expired(self, now: float) -> list[LeaseState]:
        """Take out the leases whose time is over."""
        return list({lease.holder: lease for lease in self.deadlines.take(now)}.values())


class Agenda:
    """Leases by an instant, the earliest first."""

    def __init__(self, due_of: Callable[[LeaseState], float]) -> None:
        self._due_of = due_of
        self._heap: list[tuple[float, int, ref[LeaseState]]] = []
        self._numbers = count()
        self.asleep_until = inf
        """Until when the loop that looks at this agenda means to sleep, if it runs at all: it must
        be woken, or started, for what is due before. (-inf: it is awake, and looks by itself.)"""

    def add(self, due: float, lease: LeaseState, alive: int) -> bool:
        """Look at this lease when it is due; True if the loop must be woken for it. `alive`: how
        many leases there are about."""
        if due == inf:
            return False
        heap = self._heap
        heappush(heap, (due, next(self._numbers), ref(lease)))
        if len(heap) > 2 * alive + SWEEP_ABOVE:
            self._sweep()
        return due < self.asleep_until

    def take(self, now: float) -> Iterator[LeaseState]:
        """Take out, one by one, the held leases that are due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            lease = heappop(heap)[2]()
            if lease is not None and lease.status is HELD and self._due_of(lease) <= now:
                yield lease

    def first(self) -> LeaseState | None:
        """The held lease that is due first."""
        heap = self._heap
        while heap:
            due, _, reference = heap[0]
            lease = reference()
            if lease is not None and lease.status is HELD and self._due_of(lease) == due:
                return lease
            if len(heap) == 1:
                break  # out of date, but see `fall_asleep`
            heappop(heap)
        return None

    def fall_asleep(self, latest: float = inf) -> float:
        """The loop has looked; until when it may sleep, `latest` at the most.

        An entry that is out of date counts, too: a loop that sleeps without end must be woken by
        the next lease, which costs more than a look too many once in a while.
        """
        self.first()
        due = self._heap[0][0] if self._heap else inf
        self.asleep_until = min(due, latest)
        return self.asleep_until

    def _sweep(self) -> None:
        held = {id(lease): lease for _, _, each in self._heap if (lease := each()) is not None}
        self._heap = [
            (self._due_of(lease), next(self._numbers), ref(lease))
            for lease in held.values()
            if lease.status is HELD
        ]
        heapify(self._heap)
