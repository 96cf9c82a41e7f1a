"""When answers have been waited for long enough, under asyncio."""

import asyncio
from collections.abc import Callable, Iterable
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


class Awaited(Protocol):
    """What is awaited until some instant."""

    @property
    def bell(self) -> Bell:
        """Rings with the answer; or with None, when its time is over."""
        ...

    @property
    def until(self) -> float:
        """When its time is over."""
        ...


class Deadlines:
    """Rings when the time of a question is over: one timer for all, since one for each costs a
    tenth, and none is set anew while an earlier one is still to come. Nothing is noted of any
    question: when the timer rings, all that is owed is looked through.

    A loop that was too busy to listen must not take its nodes for silent: if it comes late, it has
    one more look.
    """

    def __init__(self, clock: Clock, owed: Callable[[], Iterable[Awaited]]) -> None:
        self._clock, self._owed = clock, owed
        self._looks: dict[Bell, float] = {}
        """When the one more look is over: a loop that is always late must end, too."""
        self._timer: asyncio.TimerHandle | None = None
        self.next = inf
        """When the timer rings."""

    def expect(self, until: float) -> None:
        """Something that is owed is awaited until then. Only needed if that is before `next`."""
        if until < self.next:
            self._set(until)

    def stop(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()
        self.next = inf

    def _set(self, instant: float) -> None:
        self.stop()
        delay = max(instant - self._clock(), SHORTEST)
        self._timer = asyncio.get_running_loop().call_later(delay, self._notify)
        self.next = instant

    def _notify(self) -> None:
        now = self._clock()
        looks, self._looks = self._looks, {}
        self.next = inf
        left = inf
        for owed in self._owed():
            bell = owed.bell
            if bell.done():
                continue
            until = looks.get(bell, owed.until)
            if until <= now and bell not in looks and now - until > LATE + SHORTEST:
                until = self._looks[bell] = now + ONE_MORE_LOOK
            elif until <= now:
                bell.set_result(None)
                continue
            elif bell in looks:
                self._looks[bell] = until
            left = min(left, until)
        if left < inf:
            self._set(left)
