"""The store for asyncio. kazoo's own thread reads the replies, and calls the loop; no call has a
thread of its own."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from typing import Any

from holdfast.core.effects import Sleep, perform_async
from holdfast.core.messages import Answer, Request
from holdfast.core.ports import StoreHost
from holdfast.engines.zookeeper.exchanges import Await, Exchanges
from holdfast.engines.zookeeper.sessions import Terms
from holdfast.engines.zookeeper.threads import Heartbeat

LOOK_AGAIN = 0.2
"""Seconds after which a result is looked at although the loop was not called: a Ctrl-C may have
interrupted that call."""


class AsyncZooKeeperStore:
    """One ensemble, for all tasks of a client."""

    def __init__(self, terms: Terms, chroot: str, host: StoreHost) -> None:
        self._exchanges = Exchanges(terms, chroot, host)
        self._clock = host.clock
        self._heartbeat = Heartbeat(self._exchanges)

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        self._heartbeat.start()
        return await perform_async(self._exchanges.ask(requests, until), self._wait)

    async def close(self) -> None:
        """End every session, and with it its nodes."""
        await asyncio.to_thread(self._heartbeat.end)

    def abandon(self) -> None:
        """The same, without waiting for it."""
        if not sys.is_finalizing():  # no thread would start any more
            threading.Thread(target=self._heartbeat.end, name="holdfast-close", daemon=True).start()

    def forget(self) -> None:
        """In a forked child: the sessions are the parent's."""
        self._heartbeat.forget()
        self._exchanges.forget()
        self._heartbeat = Heartbeat(self._exchanges)

    async def _wait(self, effect: Await | Sleep) -> None:
        left = effect.until - self._clock()
        if isinstance(effect, Sleep):
            await asyncio.sleep(left)
        elif left > 0:
            done = _awaitable(effect.result)
            while not effect.result.ready() and left > 0:
                await asyncio.wait([done], timeout=min(left, LOOK_AGAIN))
                left = effect.until - self._clock()


def _awaitable(result: Any) -> "asyncio.Future[None]":
    """A future that is done when there is a result, or an error."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def notify(_: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, future)

    result.call_at_once(notify)
    return future


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
