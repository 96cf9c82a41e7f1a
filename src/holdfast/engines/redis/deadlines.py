"""When answers have been waited for long enough, under asyncio."""

import asyncio
from math import inf
from typing import Any, Protocol

from holdfast.core.ports import Clock

Bell = asyncio.Future[Any]
"""What whoever asked awaits."""

ONE_MORE_LOOK = 0.02

LATE = 0.005
"""By how much a timer may come late without our having been deaf meanwhile."""

SHORTEST = 0.001
"""Looking through all that is awaited is not done more often than this."""


class Timed(Protocol):
    """What is awaited until some instant."""

    until: float


class Deadlines:
    """Rings when the time of a question is over: one timer for all, since one for each costs a
    tenth, and none is set anew while an earlier one is still to come.

    A loop that was too busy to listen must not take its nodes for silent: if it comes late, it has
    one more look.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._awaited: dict[Bell, Timed] = {}
        self._looked: set[Bell] = set()
        """Those for which one more look was had: a loop that is always late must end, too."""
        self._timer: asyncio.TimerHandle | None = None
        self._next = inf

    def add(self, bell: Bell, timed: Timed) -> None:
        """Ring this bell, by giving it None, when the time is over."""
        self._awaited[bell] = timed
        if timed.until < self._next:
            self._set(timed.until)

    def remove(self, bell: Bell) -> None:
        """It has rung, or nobody would hear it."""
        self._awaited.pop(bell, None)
        self._looked.discard(bell)

    def stop(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, instant: float) -> None:
        self.stop()
        delay = max(instant - self._clock(), SHORTEST)
        self._next = instant
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        now = self._clock()
        for bell, timed in self._awaited.items():
            if bell.done() or timed.until > now:
                continue
            if now - timed.until > LATE + SHORTEST and bell not in self._looked:
                self._looked.add(bell)
                timed.until = now + ONE_MORE_LOOK
            else:
                bell.set_result(None)
        self._next = inf
        left = [timed.until for bell, timed in self._awaited.items() if not bell.done()]
        if left:
            self._set(min(left))
