"""The waiters of one client: their places in queues, and how they are woken."""

import threading

from holdfast.core.ports import Clock, Notify

LIFE = 2.0
"""A waiter that polls is taken for dead when it has not asked for this many seconds."""


class Waiters:
    """Waiters that poll, and that another waiter or holder of the same client can wake."""

    def __init__(self, clock: Clock, notify: Notify) -> None:
        self._clock, self._notify = clock, notify
        self._begin()

    def _begin(self) -> None:
        self._places: dict[str, tuple[int, float]] = {}
        """By holder id: the place, and when the waiter was last marked as alive."""
        self.sharing: dict[str, str] = {}
        """By holder id, of those that have asked for a share: see `row_holder`."""
        self._mutex = threading.Lock()

    def listener(self) -> tuple[str, int]:
        """Where waiters are woken, and the server process that listens there; ("", 0): nowhere."""
        return "", 0

    def place(self, holder: str) -> int:
        """The place that a waiter has, or a waiter or holder had; 0: none."""
        return self._places.get(holder, (0, 0.0))[0]

    def joined(self, holder: str, place: int) -> None:
        """A waiter has this place, and the database knows that it is alive."""
        self._places[holder] = place, self._clock()

    def row_holder(self, holder: str) -> str:
        """The holder in the lease's row if this one has the lock, as far as is known; "" if it is
        not in the row, but one of several members."""
        return self.sharing.get(holder, holder)

    def is_fresh(self, holder: str) -> bool:
        """Whether the waiter was marked as alive within `LIFE / 2`."""
        return self._clock() < self._places.get(holder, (0, 0.0))[1] + LIFE / 2

    def wake(self, listener: str, holder: str, *, is_offered: bool) -> bool:
        """The lock is offered to this waiter of any client, or to another: then it should ask when
        the offer has lapsed. False if it is known to be dead. Here: wake it if it is of this
        client."""
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
        self.sharing.pop(holder, None)

    def prepare(self, seconds: float) -> None:
        """A waiter is about to join: begin to listen, and wait up to `seconds` for that."""

    def close(self) -> None:
        """Stop listening."""

    def forget(self) -> None:
        """In a forked child: nothing waits."""
        self._begin()
