"""The way to ZooKeeper for asyncio. kazoo has threads of its own, which keep its promises; here, a
loop is told when they have. No call has a thread."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from typing import Any

from holdfast.core.messages import Answer, Request
from holdfast.core.ports import StoreHost
from holdfast.engines.zookeeper.blocking import Care
from holdfast.engines.zookeeper.conversation import Conversation, request_timeout
from holdfast.engines.zookeeper.session import Terms
from holdfast.engines.zookeeper.speech import Speech, answers_of

LOOK_AGAIN = 0.2
"""Seconds after which a promise is looked at although the loop was not told of it: a Ctrl-C may
strike in the middle of the telling."""


class AsyncZooKeeperStore:
    """One ensemble, for all tasks of a client."""

    def __init__(self, terms: Terms, chroot: str, around: StoreHost) -> None:
        self._speech = Speech(terms, chroot, around)
        self._clock = around.clock
        self._care = Care(self._speech)

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        self._care.begin()
        parts = self._speech.parts(requests)
        if len(parts) == 1:
            await self._converse(parts[0].conversation, until)
        else:
            await asyncio.gather(*(self._converse(part.conversation, until) for part in parts))
        return answers_of(parts, len(requests))

    async def close(self) -> None:
        """End every session, and with it whatever hangs on it."""
        await asyncio.to_thread(self._care.end)

    def abandon(self) -> None:
        """The same, and nobody waits for it."""
        if not sys.is_finalizing():  # no thread would start any more
            threading.Thread(target=self._care.end, name="holdfast-farewell", daemon=True).start()

    def forget(self) -> None:
        """In a forked child: the sessions are the parent's."""
        self._care.forget()
        self._speech.forget()
        self._care = Care(self._speech)

    async def _converse(self, conversation: Conversation[Any], until: float) -> None:
        try:
            while not conversation.over:
                promises = conversation.awaited()
                if conversation.over:
                    break
                if await self._is_kept(promises, conversation.rest, until):
                    conversation.go_on()
                else:
                    conversation.run_out()
        except asyncio.CancelledError:
            conversation.give_up("was cancelled")
            raise

    async def _is_kept(self, promises: Sequence[Any], rest: float, until: float) -> bool:
        """Wait until promises are kept, or until a rest is over; False if that is too late."""
        left = until - self._clock()
        if rest:
            await asyncio.sleep(max(0.0, min(rest, left)))
            return rest < left
        # They are kept in order: after the last, hardly any is left.
        for promise in reversed(promises):
            if not promise.ready() and not await self._wait(promise, until):
                return False
        return True

    async def _wait(self, promise: Any, until: float) -> bool:
        """Wait until a promise is kept, or broken; False if that is too late."""
        told = _awaitable(promise)
        while not promise.ready():
            now = self._clock()
            left = request_timeout(until, now)
            if left <= 0:
                return False
            until = now + left
            await asyncio.wait([told], timeout=min(left, LOOK_AGAIN))
        return True


def _awaitable(promise: Any) -> "asyncio.Future[None]":
    """A future that is done when the promise is kept, or broken."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def tell(_: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, future)

    promise.tell(tell)
    return future


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
