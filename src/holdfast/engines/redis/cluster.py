"""A Redis Cluster, for threads and for asyncio: each master is a single server, and a router knows
which to ask.

A waiter subscribes on the very master that has the lock's slot. So that master knows who listens,
which it would not of listeners elsewhere in the cluster.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from holdfast.core.fanout import Pause
from holdfast.core.guard import RestartGuard
from holdfast.core.messages import Answer, Request, ToNode
from holdfast.core.ports import StoreHost
from holdfast.engines.redis.addresses import Address, Place
from holdfast.engines.redis.aio import AsyncRedisStore
from holdfast.engines.redis.blocking import RedisStore
from holdfast.engines.redis.nodes import Fleet, Node
from holdfast.engines.redis.phrases import Answers, Phrase, Reply, command, failed
from holdfast.engines.redis.slots import Errand, Router, Shares, Slots, read_shares
from holdfast.engines.redis.speech import Speech

S = TypeVar("S", RedisStore, AsyncRedisStore)

AT_ONCE = 32
"""Errands of one client that threads run at the same time."""


class ClusterSpeech(Speech):
    """How to speak to one node of a cluster."""

    def __init__(
        self, place: Place, *, asking: bool, keep: float, channel: str, replicas: int
    ) -> None:
        super().__init__(
            quorum=False, keep=keep, channel=channel, scattered=True, replicas=replicas
        )
        self._place = place
        self._asking = asking

    def phrase(self, requests: Sequence[ToNode]) -> Phrase:
        """Put requests into words."""
        if isinstance(requests[0], Slots):
            return Phrase((command(b"CLUSTER", b"SLOTS"),), self._read_shares)
        phrase = super().phrase(requests)
        return _asking(phrase) if self._asking else phrase

    def _read_shares(self, replies: list[Reply]) -> Answers:
        [reply] = replies
        if isinstance(reply, Exception):
            return [failed(reply)]
        return [Shares(read_shares(self._place, reply))]


def _asking(phrase: Phrase) -> Phrase:
    """The same, to a node that the slot is on its way to."""

    def read(replies: list[Reply]) -> Answers | Phrase:
        outcome = phrase.conclude(replies[1::2])
        return _asking(outcome) if isinstance(outcome, Phrase) else outcome

    asking = command(b"ASKING")
    return Phrase(tuple(each for one in phrase.commands for each in (asking, one)), read)


class Cluster(Generic[S]):
    """All that the two ways of speaking to a cluster have in common: the router, and a store for
    each node, made when it is first needed and given up when its node has left."""

    def __init__(
        self,
        seeds: Sequence[Place],
        address: Callable[[Place], Address],
        around: StoreHost,
        *,
        keep: float,
        channel: str,
        replicas: int,
    ) -> None:
        self.router = Router(seeds, around.clock)
        self.around = around
        self._address = address
        self._keep, self._channel, self._replicas = keep, channel, replicas
        self._waiting: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self._mutex = threading.Lock()
        self._stores: dict[tuple[Place, bool], S] = {}
        self._busy: Counter[tuple[Place, bool]] = Counter()

    def take(self, errand: Errand, make: Callable[[Fleet], S]) -> S:
        """The store for an errand; to be put back."""
        key = (errand.place, errand.asking)
        with self._mutex:
            store = self._stores.get(key)
            if store is None:
                store = self._stores[key] = make(self._fleet(*key))
            self._busy[key] += 1
            return store

    def put_back(self, errand: Errand) -> None:
        """The errand is over."""
        with self._mutex:
            self._busy[errand.place, errand.asking] -= 1

    def deserted(self) -> list[S]:
        """The stores whose nodes have left the cluster. They are to be closed."""
        if all(self.router.knows(place) for place, _ in list(self._stores)):
            return []
        with self._mutex:
            left = [k for k in self._stores if not self._busy[k] and not self.router.knows(k[0])]
            return [self._stores.pop(key) for key in left]

    def stores(self) -> list[S]:
        """Every store."""
        return list(self._stores.values())

    def forked(self) -> None:
        """In a forked child: the stores are the parent's, and nobody waits."""
        self._waiting.clear()
        self._begin()

    def _fleet(self, place: Place, asking: bool) -> Fleet:
        """One node, as a single server."""
        speech = ClusterSpeech(
            place, asking=asking, keep=self._keep, channel=self._channel, replicas=self._replicas
        )
        guard = RestartGuard(0, on=False)
        node = Node(0, self._address(place), guard, self.around, alone=True)
        return Fleet([node], speech, None, self.around, self._channel, self._waiting)


class ClusterStore:
    """The way to a cluster for threads."""

    def __init__(self, cluster: Cluster[RedisStore]) -> None:
        self._cluster = cluster
        self._runners = _runners()

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        steps = self._cluster.router.ask(requests, until)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self._perform(effect))
        except StopIteration as stop:
            answers: Sequence[Answer] = stop.value
        for store in self._cluster.deserted():
            store.close()
        return answers

    def close(self) -> None:
        """Close every connection."""
        self._runners.shutdown()
        for store in self._cluster.stores():
            store.close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for store in self._cluster.stores():
            store.forget()
        self._cluster.forked()
        self._runners = _runners()

    def _perform(self, effect: Sequence[Errand] | Pause) -> Sequence[Sequence[Answer]]:
        if isinstance(effect, Pause):
            time.sleep(max(0.0, effect.until - self._cluster.around.clock()))
            return ()
        others = [self._runners.submit(self._run, errand) for errand in effect[1:]]
        return [*map(self._run, effect[:1]), *(other.result() for other in others)]

    def _run(self, errand: Errand) -> Sequence[Answer]:
        store = self._cluster.take(errand, RedisStore)
        try:
            return store.ask(errand.requests, errand.until)
        finally:
            self._cluster.put_back(errand)


class AsyncClusterStore:
    """The way to a cluster for asyncio."""

    def __init__(self, cluster: Cluster[AsyncRedisStore]) -> None:
        self._cluster = cluster

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        steps = self._cluster.router.ask(requests, until)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(await self._perform(effect))
        except StopIteration as stop:
            answers: Sequence[Answer] = stop.value
        for store in self._cluster.deserted():
            await store.close()
        return answers

    async def close(self) -> None:
        """Close every connection."""
        for store in self._cluster.stores():
            await store.close()

    def abandon(self) -> None:
        """Close every connection without waiting: nobody is there to wait."""
        for store in self._cluster.stores():
            store.abandon()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for store in self._cluster.stores():
            store.forget()
        self._cluster.forked()

    async def _perform(self, effect: Sequence[Errand] | Pause) -> Sequence[Sequence[Answer]]:
        if isinstance(effect, Pause):
            await asyncio.sleep(effect.until - self._cluster.around.clock())
            return ()
        if len(effect) == 1:
            return [await self._run(effect[0])]
        return await asyncio.gather(*map(self._run, effect))

    async def _run(self, errand: Errand) -> Sequence[Answer]:
        store = self._cluster.take(errand, AsyncRedisStore)
        try:
            return await store.ask(errand.requests, errand.until)
        finally:
            self._cluster.put_back(errand)


def _runners() -> ThreadPoolExecutor:
    """Threads for all errands that go out together, but one. None is made before it is needed."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="holdfast-cluster")
