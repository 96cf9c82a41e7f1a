"""Talks that nobody else may have a part in, each on an asyncio connection of its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Answer, Request
from holdfast.engines.redis.channel import Channel
from holdfast.engines.redis.nodes import SILENT, Fleet, Node
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import failed
from holdfast.engines.redis.sockets import BROKEN, explain


class Conversations:
    """Those of one client with its server."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.channels: set[Channel] = set()
        """The connections of those that are under way."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Connect, ask, and hang up, whatever happens."""
        [node] = self._fleet.nodes
        poll = FanOut(requests, (0,), until)
        bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        channel: Channel | None = None
        try:
            async with asyncio.timeout(until - self._fleet.around.clock()):
                channel = Channel(node, await _connect(node, until - self._fleet.around.clock()))
                self.channels.add(channel)
                channel.say(Owed(self._fleet.speech.phrase(requests), poll, bell))
                await bell
        except BROKEN as error:
            if not poll.over:
                poll.take(0, [failed(SILENT if channel else explain(error))] * len(requests))
        finally:
            if channel is not None:
                self.channels.discard(channel)
                channel.transport.abort()
        return self._fleet.answers(poll)


async def _connect(node: Node, request_timeout: float) -> Any:
    """Connect in a task of its own, which is waited for also if we are cancelled: redis-py may miss
    a cancellation (before Python 3.12, whatever is within `asyncio.wait_for` may)."""
    connecting = asyncio.ensure_future(node.address.open_async(request_timeout))
    cancelled: asyncio.CancelledError | None = None
    while not connecting.done():
        try:
            await asyncio.wait((connecting,))
        except asyncio.CancelledError as error:
            if cancelled is None:
                connecting.cancel()  # once: it may be tidying up already
            cancelled = error
    if cancelled is None:
        return connecting.result()
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().transport.abort()
    raise cancelled
