"""When the renewer must look at which lease: a heap of instants, and who is due at each.

Renewals fall on a grid, so many are due at one instant: a lease costs a place in a list there. It
is referred to weakly, so that a lease that nobody can reach any more is not renewed. References are
not removed when a tenure ends; they are skipped when they come up, and swept when most have ended.

What could not be given back is here, too, to be tried again.

Most leases are over before anything is due. So a new one only enters: it is put in its place when
the renewer looks, or when there is a crowd at the door.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, repeat
from math import inf
from weakref import ref

from holdfast.core.lease_state import HELD, LeaseState
from holdfast.core.messages import Release

SWEEP_ABOVE = 64
CROWD = 64

MOST_UNRETURNED = 1000
"""So many are kept in mind; of more, the latest."""


class Schedule:
    """The tenures of one client, by the instant at which something is due.

    All of it needs the world's mutex, except for `enter`: several threads append to a deque in
    peace, and read `asleep_until` after that (see `fall_asleep`).
    """

    def __init__(self) -> None:
        self._heap: list[float] = []
        self._due_at: dict[float, list[ref[LeaseState]]] = {}
        self._size = 0
        self._sweep_at = SWEEP_ABOVE
        self._in_hand: list[ref[LeaseState]] = []
        self.entered: deque[tuple[float, ref[LeaseState]]] = deque()
        """Not in their places yet. Above `CROWD`, whoever sees it should `settle` them."""
        self.asleep_until = inf
        """The instant at which the renewer means to look next."""
        self.unnotified: deque[LeaseState] = deque()
        """Lost, and its watchers not told yet."""
        self.pending_releases: dict[str, Release] = {}
        """What could not be given back yet, by holder."""
        self.return_at = inf
        """When to try that again."""
        self.tried_at = -inf
        """When that was tried last."""
        self.pauses: Iterator[float] = repeat(inf)
        """And how long after that, each time."""

    def enter(self, tenure: LeaseState) -> bool:
        """A new tenure; True if it is due before the renewer means to look."""
        due = tenure.valid_until
        if tenure.renew_at < due:
            due = tenure.renew_at
        self.entered.append((due, ref(tenure)))
        return due < self.asleep_until

    def settle(self) -> None:
        """Put those who entered in their places."""
        entered, heap = self.entered, self._heap
        while True:
            try:
                due, reference = entered.popleft()
            except IndexError:
                break
            tenure = reference()
            if tenure is not None and tenure.state is HELD:
                self._add(due, [reference])
            elif not heap or due < heap[0]:
                # It has ended. But with nothing ahead the renewer would sleep for ever, and each
                # who enters would have to wake it.
                self._add(due, [])
        if self._size > self._sweep_at:
            self._sweep()

    def _add(self, due: float, references: "list[ref[LeaseState]]") -> None:
        there = self._due_at.get(due)
        if there is None:
            self._due_at[due] = references
            heappush(self._heap, due)
        else:
            there += references
        self._size += len(references)

    def lost(self, tenure: LeaseState) -> None:
        """Tell this tenure's watchers, soon."""
        self.unnotified.append(tenure)

    def return_later(self, release: Release) -> None:
        """Keep in mind what is to be given back."""
        if len(self.pending_releases) >= MOST_UNRETURNED:
            del self.pending_releases[next(iter(self.pending_releases))]
        self.pending_releases[release.holder] = release

    def returned(self, releases: Sequence[Release], done: Sequence[bool]) -> bool:
        """Forget those that were given back; the others go behind the rest, which may belong to a
        part of the engine that answers. True if there are any."""
        for release, was_done in zip(releases, done, strict=True):
            there = self.pending_releases.pop(release.holder, None)
            if there is not None and not was_done:
                self.pending_releases[release.holder] = there
        return not all(done)

    def due(self, now: float, limit: int) -> list[LeaseState]:
        """Take the held tenures that are due in hand, at most `limit` of them; see `put_back`."""
        self.settle()
        heap = self._heap
        found: list[LeaseState] = []
        while heap and heap[0] <= now and len(found) < limit:
            there = self._due_at[heap[0]]
            taken = there[: limit - len(found)]
            del there[: len(taken)]
            self._size -= len(taken)
            if not there:
                del self._due_at[heappop(heap)]
            found += _held(taken)
        self._in_hand = [ref(tenure) for tenure in found]
        return found

    def put_back(self) -> None:
        """Put back what was taken in hand, as far as it is still held."""
        in_hand, self._in_hand = self._in_hand, []
        for tenure in _held(in_hand):
            self.enter(tenure)
        self.settle()

    def fall_asleep(self) -> float:
        """The instant at which something is due next, and the renewer means to look."""
        # Whoever enters from here on sees that it sleeps; whoever entered before is settled below.
        self.asleep_until = inf
        self.settle()
        self.asleep_until = -inf if self.unnotified else self.next_due()
        return self.asleep_until

    def next_due(self) -> float:
        """The instant at which something is due next."""
        return min(self._heap[0], self.return_at) if self._heap else self.return_at

    def first_deadline(self) -> float:
        """The earliest instant at which a tenure in here ends."""
        return min((tenure.valid_until for tenure in self.held()), default=inf)

    def held(self) -> Iterator[LeaseState]:
        """Every tenure in here that has not ended."""
        self.settle()
        return _held(chain(*self._due_at.values(), self._in_hand))

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._due_at.clear()
        self._size = 0
        self._in_hand.clear()
        self.entered.clear()
        self.unnotified.clear()
        self.pending_releases.clear()
        self.return_at = self.asleep_until = inf

    def _sweep(self) -> None:
        before, self._due_at, self._size = self._due_at, {}, 0
        self._heap.clear()
        for due, there in before.items():
            if held := [ref(tenure) for tenure in _held(there)]:
                self._add(due, held)
        self._sweep_at = max(SWEEP_ABOVE, 2 * self._size)


def _held(references: Iterable["ref[LeaseState]"]) -> Iterator[LeaseState]:
    for reference in references:
        tenure = reference()
        if tenure is not None and tenure.state is HELD:
            yield tenure
