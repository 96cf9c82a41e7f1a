"""The waiters of one client: their places in queues, and how they are woken."""

from dataclasses import dataclass

from holdfast.core.ports import Clock, Notify

SHORTEST_LIFE, LONGEST_LIFE = 2.0, 6.0


def life_of(ttl: float) -> float:
    """For how many seconds a waiter that polls counts as alive, if it is not marked again: longer
    than a request of its own may take, or a busy server would end the lives of waiters."""
    return min(max(SHORTEST_LIFE, ttl / 3), LONGEST_LIFE)


@dataclass(slots=True)
class Place:
    """A place in a queue."""

    number: int
    life: float
    """For how long the waiter counts as alive."""
    alive_at: float
    """When it was last marked as alive."""


class Waiters:
    """Waiters that poll, and that another waiter or holder of the same client can wake.

    Of a client's waiters for one lock, the first polls for all, and marks all as alive. When it has
    got the lock, or gives up, the next one is woken, and polls. If it was a reader, all readers
    behind it are woken.
    """

    def __init__(self, clock: Clock, notify: Notify) -> None:
        self._clock, self._notify = clock, notify
        self._begin()

    def _begin(self) -> None:
        self._places: dict[str, Place] = {}
        """By holder id."""
        self._polling: dict[str, tuple[str, int]] = {}
        """By holder id, of waiters that poll, or are polled for: the key, and the shares."""

    def listener(self) -> tuple[str, int]:
        """Where waiters are woken, and the server process that listens there; ("", 0): nowhere."""
        return "", 0

    def place(self, holder: str) -> int:
        """The place that a waiter has, or a waiter or holder had; 0: none."""
        place = self._places.get(holder)
        return place.number if place is not None else 0

    def joined(self, holder: str, place: int, life: float, listener: tuple[str, int]) -> None:
        """A waiter has this place, and the database knows that it is alive. `listener`: where it
        was to be woken; it asks again if that has changed meanwhile."""
        self._places[holder] = Place(place, life, self._clock())
        if listener != self.listener():
            self._notify(holder)

    def polls(self, key: str, holder: str, shares: int) -> bool:
        """A waiter has to poll; gives False if another one polls for it. One that was not marked as
        alive for its whole life does not poll any more: its release could not be sent."""
        self._polling[holder] = key, shares
        now = self._clock()
        for first in self._queue(key):
            place = self._places.get(first)
            if first == holder:
                break
            if place is not None and now < place.alive_at + place.life:
                return False
            self._polling.pop(first, None)
        return True

    def stale(self, key: str) -> list[tuple[str, float]]:
        """Of those that poll for this lock, in their order: all that were not marked as alive for a
        third of their lives, and those lives."""
        now = self._clock()
        places = [(holder, self._places.get(holder)) for holder in self._queue(key)]
        return [
            (holder, place.life)
            for holder, place in places
            if place is not None and place.alive_at + place.life / 3 <= now
        ]

    def marked(self, holder: str, *, has_place: bool) -> None:
        """A waiter was marked as alive; or it could not be, and has to ask for its place."""
        place = self._places.get(holder)
        if not has_place:
            self._notify(holder)
        elif place is not None:  # else it was released meanwhile
            place.alive_at = self._clock()

    def stop_polling(self, holder: str) -> None:
        """A waiter has got the lock, or waits no more. If it was the first, the next one polls; and
        if it was a reader, so do the readers behind it, which may have got the lock, too."""
        key, shares = self._polling.pop(holder, ("", 1))
        others = self._queue(key) if key else []
        if others and self.place(holder) < self.place(others[0]):
            for other in others:
                self._notify(other)
                if shares != 0 or self._polling.get(other) != (key, 0):
                    break

    def _queue(self, key: str) -> list[str]:
        """Those that poll for this lock, in their order."""
        polling = list(self._polling.items())  # other threads may come and go meanwhile
        return sorted((holder for holder, (other, _) in polling if other == key), key=self.place)

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
        """Forget a waiter that gave up, or a holder that had to wait."""
        self.stop_polling(holder)
        self._places.pop(holder, None)

    def close(self) -> None:
        """Stop listening."""

    def forget(self) -> None:
        """In a forked child: nothing waits."""
        self._begin()
