"""The waiters of one client: their places in queues, and how they are woken."""

import threading

from holdfast.core.ports import Clock, Notify

SHORTEST_LIFE, LONGEST_LIFE = 2.0, 6.0


def life_of(ttl: float) -> float:
    """For how many seconds a waiter that polls counts as alive, if it is not marked again: longer
    than a request of its own may take, or a busy server would end the lives of waiters."""
    return min(max(SHORTEST_LIFE, ttl / 3), LONGEST_LIFE)


class Waiters:
    """Waiters that poll. A release of the same client wakes the next one at once."""

    def __init__(self, clock: Clock, notify: Notify) -> None:
        self._clock, self._notify = clock, notify
        self._begin()

    def _begin(self) -> None:
        self._places: dict[str, tuple[int, float]] = {}
        """By holder id: the place in the queue, and when the waiter was last marked as alive."""
        self.members: set[str] = set()
        """Holder ids that are members of shared locks, as far as is known: the lease's row does not
        have them."""
        self._mutex = threading.Lock()

    def listener(self) -> tuple[str, int]:
        """Where waiters are woken, and the server process that listens there; ("", 0): nowhere."""
        return "", 0

    def place(self, holder: str) -> int:
        """The place that a waiter has, or a waiter or holder had; 0: none."""
        place, _ = self._places.get(holder, (0, 0.0))
        return place

    def joined(self, holder: str, place: int, listener: tuple[str, int]) -> None:
        """A waiter has this place, and the database knows that it is alive. `listener`: where it
        was to be woken; it asks again if that has changed meanwhile."""
        self._places[holder] = place, self._clock()
        if listener != self.listener():
            self._notify(holder)

    def is_stale(self, holder: str, life: float) -> bool:
        """Whether a waiter that polls was not marked as alive for a third of its life."""
        _, alive_at = self._places.get(holder, (0, 0.0))
        return alive_at + life / 3 <= self._clock()

    def has_row(self, holder: str) -> bool:
        """Whether a holder is in the lease's row, and did not have to wait, as far as is known."""
        return holder not in self.members and holder not in self._places

    def wake(self, holder: str, listener: str) -> bool:
        """The lock is offered to this waiter of any client. False if it is known to be dead. Here:
        wake it if it is of this client."""
        if holder in self._places:
            self._notify(holder)
        return True

    def wake_all(self) -> None:
        """Wake-ups may have been missed: all waiters ask again."""
        for holder in list(self._places):
            self._notify(holder)

    def released(self, holder: str) -> None:
        """Forget a waiter that gave up, or a holder that had to wait, or had a share."""
        self._places.pop(holder, None)
        self.members.discard(holder)

    def close(self) -> None:
        """Stop listening."""

    def forget(self) -> None:
        """In a forked child: nothing waits."""
        self._begin()
