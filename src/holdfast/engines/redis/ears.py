"""Being woken, under asyncio: one subscription to each server for all tasks of a client."""

import asyncio

from holdfast.engines.redis.channel import Subscription
from holdfast.engines.redis.nodes import CONNECT_TIMEOUT, REDIAL_AFTER, Fleet, Node
from holdfast.engines.redis.sockets import BROKEN, explain


class Ears:
    """Those of one client. There are none before somebody waits."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._ready = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self.subscriptions: dict[int, Subscription] = {}

    async def open(self, until: float) -> None:
        """See to it that we can be woken."""
        if not self.tasks:
            self.tasks = [asyncio.ensure_future(self._hear(node)) for node in self._fleet.nodes]
        try:
            async with asyncio.timeout((until - self._fleet.around.clock()) / 2):
                await self._ready.wait()
        except TimeoutError:
            return  # then we ask again from time to time

    async def _hear(self, node: Node) -> None:
        """Listen to one server, for as long as there is this client."""
        while True:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    writer = await node.address.open_async(CONNECT_TIMEOUT)
                subscription = Subscription(node, self._fleet, self._ready, writer)
                self.subscriptions[node.index] = subscription
                await asyncio.wait((subscription.lost,))
            except BROKEN as error:
                node.is_in_trouble(explain(error))
            self._fleet.deaf(node)
            if not self._fleet.speech.listening:
                self._ready.clear()
            await asyncio.sleep(REDIAL_AFTER)
