"""When polls have been waited for long enough, under asyncio."""

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count

from holdfast.core.poll import Poll
from holdfast.core.ports import Clock

Bell = asyncio.Future[None]
"""What whoever asked awaits."""

ONE_MORE_LOOK = 0.02

LATE = 0.005
"""By how much a timer may come late without our having been deaf meanwhile."""

SWEEP_ABOVE = 64


class Deadlines:
    """Rings when the time of a poll is over: one timer for all, since one for each costs a tenth.

    A loop that was too busy to listen must not take its nodes for silent: if it comes late, it has
    one more look.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Poll, Bell]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_above = SWEEP_ABOVE

    def add(self, poll: Poll, bell: Bell) -> None:
        """Ring this bell when the poll's time is over, unless it has rung before."""
        heap = self._heap
        heappush(heap, (poll.until, next(self._numbers), poll, bell))
        if heap[0][3] is bell:
            self._set()
        if len(heap) > self._sweep_above:
            self._sweep()

    def stop(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self) -> None:
        self.stop()
        delay = self._heap[0][0] - self._clock()
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        now = self._clock()
        while self._heap and (self._heap[0][3].done() or self._heap[0][0] <= now):
            until, _, poll, bell = heappop(self._heap)
            if bell.done():
                continue
            if now - until > LATE:
                poll.until = now + ONE_MORE_LOOK
                self.add(poll, bell)
            else:
                bell.set_result(None)
        if self._heap:
            self._set()

    def _sweep(self) -> None:
        """Most have rung long before their time."""
        self._heap = [entry for entry in self._heap if not entry[3].done()]
        heapify(self._heap)
        self._sweep_above = max(SWEEP_ABOVE, 2 * len(self._heap))
