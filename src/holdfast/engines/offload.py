"""Asyncio over a library that can only block: one worker thread says it all, in order.

A cancelled `ask` may still be carried out; whatever is asked after it (a release, say) comes behind
it in the queue, so nothing overtakes.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from holdfast.core.messages import Answer, Failed, Request
from holdfast.core.ports import Clock, Store

GRACE = 0.002
"""How much later than the worker we give up, so that it can say why."""


class Offloaded:
    """An `AsyncStore` made of a blocking one."""

    def __init__(self, store: Store, name: str, clock: Clock) -> None:
        self._store = store
        self._name = name
        self._clock = clock
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"holdfast-{name}")

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Have the worker ask."""
        loop = asyncio.get_running_loop()
        asking = loop.run_in_executor(self._worker, self._store.ask, requests, until)
        try:
            await asyncio.wait((asking,), timeout=max(0.0, until - self._clock()) + GRACE)
        except asyncio.CancelledError:
            asking.cancel()
            raise
        if asking.done():
            return asking.result()
        asking.cancel()  # unless it is being said already
        return [Failed.at(self._name, "what was asked before is not answered yet")] * len(requests)

    async def close(self) -> None:
        """Have the worker close the store, then end the worker."""
        await asyncio.get_running_loop().run_in_executor(self._worker, self._store.close)
        self._worker.shutdown()  # it is idle, so this does not block

    def abandon(self) -> None:
        """Have the worker close the store, and do not wait for it."""
        with suppress(RuntimeError):  # while the interpreter shuts down: it closes it all
            self._worker.submit(self._store.close)
        self._worker.shutdown(wait=False)

    def forget(self) -> None:
        """In a forked child: the worker is the parent's."""
        self._store.forget()
