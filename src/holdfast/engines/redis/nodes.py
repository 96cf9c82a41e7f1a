"""The servers of one client: what is sent to which. Pure: the drivers connect, send and wait.

1. There is one connection to each node.
2. A node whose oldest pending request is overdue, or to which a connection could not be made, is
   skipped at once where enough other nodes make a quorum. Releases are sent to it all the same.
3. The connection to a silent node stays open: what its kernel has buffered would be executed
   anyway, and a release must be executed behind the acquire that it undoes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Acquire, Answer, Break, Failed, Inspect, List, Release
from holdfast.core.ports import StoreHost
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.connection import (
    CONNECT_TIMEOUT,
    GONE,
    NO_WAITER,
    SILENT,
    Node,
)
from holdfast.engines.redis.exchange import Exchange, Waiter
from holdfast.engines.redis.handshake import Handshake
from holdfast.engines.redis.waiters import Waiters

FIRST_CONTACT = 0.5
"""How long the first request waits for connections to all nodes, and each while there are too few
for a quorum."""

MAY_WAIT = (Acquire, Inspect, List, Break)
"""What does so. The loss of a lease must be noticed in time, and a release is sent later anyway."""

IDLE = 0.1
"""A connection that was idle for longer is checked before it is used."""

LEAST_TIMEOUT = 0.05
"""A waiter that polls may ask just before its time is over. That is no server's failure."""


class Nodes:
    """All servers of one client."""

    connect: Callable[[Node, float], None]
    """Begin to connect; in the end, call `Node.opened` or `Node.lost`. Set by the driver."""
    disconnect: Callable[..., None]
    """Close a node's connection, and call `Node.lost(why, heals)`. Set by the driver."""

    def __init__(
        self,
        host: StoreHost,
        exchange: Callable[[Sequence[Any], bool], Exchange],
        waiters: Waiters,
        *,
        size: int = 0,
        listens: bool = True,
    ) -> None:
        self.host, self.clock = host, host.clock
        self.waiters = waiters
        self.size = size
        """How many nodes are a quorum; 0: each is a server of its own."""
        self.listens = listens
        """Whether the protocol has wake-ups at all."""
        self.all: list[Node] = []
        self.is_direct = False
        """Whether all requests but the transactions of cells just go to node 0."""
        self._exchange = exchange
        self.adapt: Callable[[FanOut, Exchange], Exchange] | None = None
        """Changes what is sent for some rounds."""
        self.check: Callable[[Node], None] = _trust
        """Look whether a connection that was idle is still open. Set by a driver that is not told
        so by its event loop."""
        self.unsent: set[Node] = set()
        """Where something is outgoing: the driver sends it when it has called `start`, or has
        received something."""
        self.closed = False
        """Nothing is sent any more."""
        self.unused: list[Node] = []
        """Servers that are not needed any more; their connections are closed by `start`."""
        waiters.leave = self._leave

    def add(self, address: Address, handshake: Handshake, *, exclusive: bool = False) -> Node:
        """One more server, or one more connection to a server."""
        node = Node(self, address, handshake, exclusive=exclusive)
        self.all.append(node)
        node.index = self.all.index(node)  # several threads may add one at the same time
        return node

    def forget(self) -> None:
        """In a forked child: there are no connections, and no waiters."""
        self.waiters.forget()
        self.unsent.clear()
        for node in self.all:
            node.forget()

    def start(self, rounds: Sequence[FanOut], waiter: Waiter) -> None:
        """Send the requests of some rounds; `waiter` is woken whenever one of them is over."""
        now = self.clock()
        while self.unused:
            self.disconnect(self.unused.pop(), "it has left the cluster")
        if self.closed:
            self._refuse(rounds)
            waiter.wake()
            return
        for each in rounds:
            for index in each.nodes:
                node = self.all[index]
                if node.ready and node.used_at < now - IDLE:
                    self.check(node)
            spare = bool(self.size) and self._has_spare(each, now)
            first = each.requests[0]
            wakes = True
            if type(first) is Acquire and first.queue:
                wakes = any(self.all[index].wakes for index in each.nodes)
                if not wakes:
                    each.until = max(each.until, now + LEAST_TIMEOUT)
            exchange = self._exchange(each.requests, wakes)
            if self.adapt is not None:
                exchange = self.adapt(each, exchange)
            exchange.round, exchange.waiter = each, waiter
            for index in each.nodes:
                self.all[index].start(exchange, now, spare)

    def _refuse(self, rounds: Sequence[FanOut]) -> None:
        for each in rounds:
            for index in each.nodes:
                refusal = Failed.at(self.all[index].name, GONE)
                each.take(index, [refusal] * len(each.requests))

    def _leave(self, node: int, release: Release) -> None:
        self.start((FanOut((release,), (node,), self.clock() + CONNECT_TIMEOUT),), NO_WAITER)

    def _has_spare(self, each: FanOut, now: float) -> bool:
        """Whether enough nodes can be asked without those that do not answer."""
        ready = [node for node in self.all if node.ready]
        if len(ready) < self.size and type(each.requests[0]) in MAY_WAIT:
            each.until = max(each.until, now + FIRST_CONTACT)
        stuck = [node for node in ready if node.pending and node.overdue_since < now]
        return len(ready) - len(stuck) >= self.size

    def margin(self) -> int:
        """How many more nodes of the quorum may fail."""
        return sum(not node.last_error for node in self.all) - self.size

    def unanswered(self) -> list[Exchange]:
        """What is waited for."""
        found = [each for node in self.all for each in node.unanswered()]
        return [each for each in found if not each.round.over]

    def expire(self, each: FanOut) -> None:
        """Its time is over, or its caller has stopped waiting."""
        for index in each.nodes:
            if index not in each.answers:
                self.all[index].silent()
        each.over = True

    def answers(self, each: FanOut) -> Sequence[Answer]:
        """What a single server answered."""
        [index] = each.nodes
        if index in each.answers:
            return each.answers[index]
        node = self.all[index]
        return [Failed.at(node.name, node.last_error or SILENT)] * len(each.requests)


def _trust(node: Node) -> None:
    """Take it for open."""
