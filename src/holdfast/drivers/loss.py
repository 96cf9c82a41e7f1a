"""Cancelling a task at the moment when its lease is lost, or before that."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.lease_state import LeaseState

NOTICE = 1 / 6
"""A task that is to be cancelled before its lease ends has this part of the lease's time to end in.
Renewals begin when two thirds are left, so several have failed by then."""


class LossWatch:
    """Cancels a task when a lease is lost, and takes the cancellation back at the end of the block.

    The bookkeeping is that of `asyncio.timeout`: a cancellation may be turned into another error
    only if no other caller has cancelled the task, too.
    """

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task
        self._cancelling = task.cancelling()
        self._fired = self._over = False

    def fire(self) -> None:
        """The lease is lost."""
        if not self._over:
            self._fired = True
            self._task.cancel("the lease was lost")

    async def call_off(self, error: BaseException | None) -> bool:
        """The block is over; True if `error` is our own cancellation, and the only one."""
        self._over = True
        if not self._fired or self._task.uncancel() > self._cancelling:
            return False
        if isinstance(error, asyncio.CancelledError):
            return True
        try:
            await asyncio.sleep(0)  # the block ended before our cancellation reached it
        except asyncio.CancelledError:
            if self._task.cancelling() > self._cancelling:
                # Another cancellation came meanwhile: it is to be delivered again, after this.
                self._task.cancel()
                self._task.uncancel()
        return False


@asynccontextmanager
async def cancel_before_end(
    lease: LeaseState, clock: Callable[[], float], looks: dict[Callable[[], None], float]
) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the body before the lease ends, or at once when it is lost: it then leaves as
    `TimeoutError`. `looks`: what to call when the clock is moved, and by when."""
    loop = asyncio.get_running_loop()
    notice = NOTICE * lease.remaining(clock())
    timer: asyncio.TimerHandle | None = None
    over = False

    def look() -> None:
        nonlocal timer
        looks.pop(look, None)
        if timer is not None:
            timer.cancel()
        if over or term.expired():
            return
        now = clock()
        left = lease.remaining(now) - notice
        if left > 0 and lease.is_held(now):
            timer = loop.call_later(left, look)
            looks[look] = now + left
        else:
            term.reschedule(loop.time())

    async with asyncio.timeout(None) as term:
        lease.callbacks += (look,)
        look()
        try:
            yield term
        finally:
            over = True
            look()
