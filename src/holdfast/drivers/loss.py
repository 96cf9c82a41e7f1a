"""Cancelling a task at the moment when its lease is lost."""

import asyncio
from typing import Any


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
