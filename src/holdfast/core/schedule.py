"""When the renewer must look at which lease: a heap of instants.

It refers to tenures weakly, so that a lease that nobody can reach any more is not renewed. Entries
are not removed when a tenure ends; they are skipped when they come up, and swept when they are most
of the heap.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain, count
from math import inf
from weakref import ref

from holdfast.core.tenure import HELD, Tenure

SWEEP_ABOVE = 64


class Schedule:
    """The tenures of one client, by the instant at which something is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ref[Tenure]]] = []
        self._sequence = count()
        self._sweep_at = SWEEP_ABOVE
        self._in_hand: list[ref[Tenure]] = []
        self.asleep_until = inf
        """The instant at which the renewer means to look next."""
        self.untold: deque[Tenure] = deque()
        """Lost, and its watchers not told yet."""

    def put(self, tenure: Tenure) -> bool:
        """Look at this tenure when it is due; True if that is before the renewer means to look."""
        due = tenure.valid_until
        if tenure.renew_at < due:
            due = tenure.renew_at
        heap = self._heap
        heappush(heap, (due, next(self._sequence), ref(tenure)))
        if len(heap) > self._sweep_at:
            self._sweep()
        return due < self.asleep_until

    def lost(self, tenure: Tenure) -> None:
        """Tell this tenure's watchers, soon."""
        self.untold.append(tenure)

    def due(self, now: float, limit: int) -> list[Tenure]:
        """Take the held tenures that are due in hand, at most `limit` of them; see `put_back`."""
        heap = self._heap
        found: list[Tenure] = []
        while heap and heap[0][0] <= now and len(found) < limit:
            tenure = heappop(heap)[2]()
            if tenure is not None and tenure.state is HELD:
                found.append(tenure)
        self._in_hand = [ref(tenure) for tenure in found]
        return found

    def put_back(self) -> None:
        """Put back what was taken in hand, as far as it is still held."""
        in_hand, self._in_hand = self._in_hand, []
        for reference in in_hand:
            tenure = reference()
            if tenure is not None and tenure.state is HELD:
                self.put(tenure)

    def next_instant(self) -> float:
        """When something is due next."""
        if self.untold:
            return -inf
        return self._heap[0][0] if self._heap else inf

    def first_deadline(self) -> float:
        """The earliest instant at which a tenure in here ends."""
        return min((tenure.valid_until for tenure in self.held()), default=inf)

    def held(self) -> Iterator[Tenure]:
        """Every tenure in here that has not ended."""
        for reference in chain((entry[2] for entry in self._heap), self._in_hand):
            tenure = reference()
            if tenure is not None and tenure.state is HELD:
                yield tenure

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._in_hand.clear()
        self.untold.clear()
        self.asleep_until = inf

    def _sweep(self) -> None:
        self._heap = [
            entry
            for entry in self._heap
            if (tenure := entry[2]()) is not None and tenure.state is HELD
        ]
        heapify(self._heap)
        self._sweep_at = max(SWEEP_ABOVE, 2 * len(self._heap))
