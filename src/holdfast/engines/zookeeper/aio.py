"""The store for asyncio. kazoo's own thread reads the replies, and calls the loop; no call has a
thread of its own."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from typing import Any

from holdfast.core.messages import Answer, Request
from holdfast.core.ports import StoreHost
from holdfast.engines.zookeeper.exchange import Exchange, request_timeout
from holdfast.engines.zookeeper.exchanges import Exchanges, answers_of
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
        parts = self._exchanges.parts(requests)
        if len(parts) == 1:
            await self._run(parts[0].exchange, until)
        else:
            await asyncio.gather(*(self._run(part.exchange, until) for part in parts))
        return answers_of(parts, len(requests))

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

    async def _run(self, exchange: Exchange[Any], until: float) -> None:
        try:
            while not exchange.over:
                results = exchange.awaited()
                if exchange.over:
                    break
                if await self._are_there(results, exchange.pause, until):
                    exchange.go_on()
                else:
                    exchange.run_out()
        except asyncio.CancelledError:
            exchange.give_up("was cancelled")
            raise

    async def _are_there(self, results: Sequence[Any], pause: float, until: float) -> bool:
        """Wait until all results are there, or a pause is over; False if that is too late."""
        left = until - self._clock()
        if pause:
            await asyncio.sleep(max(0.0, min(pause, left)))
            return pause < left
        # They come in order: after the last, hardly any is missing.
        for result in reversed(results):
            if not result.ready() and not await self._wait(result, until):
                return False
        return True

    async def _wait(self, result: Any, until: float) -> bool:
        """Wait for a result, or an error; False if that comes too late."""
        done = _awaitable(result)
        while not result.ready():
            now = self._clock()
            left = request_timeout(until, now)
            if left <= 0:
                return False
            until = now + left
            await asyncio.wait([done], timeout=min(left, LOOK_AGAIN))
        return True


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
