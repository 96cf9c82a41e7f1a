"""Time that a test moves on: what happens after 30 s, without waiting for them.

It moves the leases and timeouts of `memory://`. A server has a clock of its own.
"""

import asyncio
import threading
from math import inf
from typing import Self

from holdfast.drivers import common

SETTLES_WITHIN = 10.0
"""How long to wait for the work that is due after the clock was moved."""


class VirtualTime:
    """A clock that a test moves on, for the clients that are made within its block. Between the
    moves it goes on like any other.

    >>> import holdfast
    >>> with VirtualTime() as time, holdfast.Client("memory://") as client:
    ...     lease = client.lock("report", ttl=30).acquire()
    ...     time.advance(3600)  # it is renewed meanwhile
    ...     held = lease.held
    ...     time.pause(31)
    ...     held, lease.held
    (True, False)
    """

    def __init__(self) -> None:
        self._system = common.clock
        self._ahead = 0.0

    def __enter__(self) -> Self:
        common.clock = self.clock
        return self

    def __exit__(self, *_: object) -> None:
        common.clock = self._system

    def clock(self) -> float:
        """Seconds; only their differences mean something."""
        return self._system() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let time pass, while the clients renew what they hold."""
        end = self.clock() + seconds
        while (now := self.clock()) < end:
            self._move(max(0.0, min(end, self._next_instant()) - now))

    def pause(self, seconds: float) -> None:
        """Let time pass at once, as if the process had been stopped meanwhile: leases whose time is
        over are lost."""
        self._move(seconds)

    def _next_instant(self) -> float:
        """When the next lease is to be renewed, or ends, or a body is to end before it."""
        instant = inf
        for driver in self._drivers():
            instant = min(instant, driver.looks_at())
            with driver.runtime.mutex:
                for lease in driver.runtime.registry.held():
                    instant = min(instant, lease.renew_at, lease.valid_until)
        return instant

    def _drivers(self) -> list[common.Driver]:
        return [driver for driver in common.drivers() if driver.runtime.clock == self.clock]

    def _move(self, seconds: float) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(
                "this would stop the event loop; "
                "write `await asyncio.to_thread(holdfast_time.advance, seconds)`"
            )
        self._ahead += seconds
        now = self.clock()
        for driver in self._drivers():
            driver.clock_moved()
        give_up_at = self._system() + SETTLES_WITHIN
        pause = threading.Event()
        while self._next_instant() <= now and self._system() < give_up_at:
            pause.wait(0.001)
        for driver in self._drivers():
            driver.wait_for_callbacks(SETTLES_WITHIN)
