"""How long calls may take under asyncio."""

import asyncio
from math import inf
from typing import Any

from holdfast.core.ports import Clock

ONE_MORE_LOOK = 0.02
"""How long to look after the limit: a loop that was busy until then has not read what has come."""


class Limits:
    """Those of one client's calls: a call that takes longer is cancelled.

    There is one timer for all. One for each would make a call 4 % slower, and a deadline of gRPC
    1 %, which a Ctrl-C can make it forget besides. The timer is not set anew while an earlier limit
    is to come, though that call may be over.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._calls: dict[Any, float] = {}
        """Nobody else may keep a call that is over: its connection could not be closed."""
        self._late: set[Any] = set()
        """Those whose time is over, and which have one more look."""
        self._timer: asyncio.TimerHandle | None = None
        self._next = inf
        """When the timer goes off."""

    def set(self, call: Any, until: float) -> None:
        """Let it be over by then."""
        self._calls[call] = until
        if until < self._next:
            self._set_timer(until)
        elif self._next <= self.clock():  # the machine has slept, which timers do not notice
            self._set_timer(self._next)

    def lift(self, call: Any) -> None:
        """It is over."""
        self._calls.pop(call, None)
        self._late.discard(call)

    def stop(self) -> None:
        """All are over."""
        self._calls.clear()
        self._late.clear()
        self._cancel_timer()

    def _set_timer(self, instant: float) -> None:
        self._cancel_timer()
        delay = max(0.0, instant - self.clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self._go_off)
        self._next = instant

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = inf

    def _go_off(self) -> None:
        now = self.clock()
        for call in [call for call, until in self._calls.items() if until <= now]:
            if call in self._late:
                self.lift(call)
                call.cancel()
            else:
                self._late.add(call)
                self._calls[call] = now + ONE_MORE_LOOK
        self._next = inf
        if self._calls:
            self._set_timer(min(self._calls.values()))
