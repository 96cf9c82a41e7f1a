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
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.subscriptions: dict[int, Subscription] = {}

    async def open(self, until: float) -> None:
        """See to it that we can be woken."""
        for node in self._fleet.nodes:
            task = self._tasks.get(node.index)
            if task is None or task.done():  # somebody has cancelled it
                self._tasks[node.index] = asyncio.ensure_future(self._hear(node))
        try:
            async with asyncio.timeout((until - self._fleet.around.clock()) / 2):
                await self._ready.wait()
        except TimeoutError:
            return  # then we ask again from time to time

    @property
    def tasks(self) -> "list[asyncio.Task[None]]":
        """One for each server."""
        return list(self._tasks.values())

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
            finally:
                self._stop_hearing(node)
            await asyncio.sleep(REDIAL_AFTER)

    def _stop_hearing(self, node: Node) -> None:
        subscription = self.subscriptions.pop(node.index, None)
        if subscription is not None:
            subscription.abandon()
        self._fleet.deaf(node)
        if not self._fleet.speech.listening:
            self._ready.clear()
