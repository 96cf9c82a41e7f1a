"""The servers of one client: their state, and what is sent to which. Pure: the drivers connect,
send and wait.

1. There is one connection to each node. It is made when it is first needed. What is asked meanwhile
   is queued and sent when the connection is there, so a round waits for a connection as it waits
   for an answer.
2. A node whose oldest pending request is overdue, or to which a connection could not be made, is
   skipped at once where enough other nodes make a quorum. Releases are sent to it all the same.
3. The connection to a silent node stays open: what its kernel has buffered would be executed
   anyway, and a release must be executed behind the acquire that it undoes.
4. When a server reports that it is no master any more, its connection is closed. The next request
   connects anew, through Sentinel if there is one. Subscriptions are made on the same connection,
   so they follow.
"""

from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from math import inf
from typing import Any

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Acquire, Answer, Break, Failed, Held, Inspect, List, Release
from holdfast.core.ports import StoreHost
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.connection import NOT_THE_MASTER, Pending, Pipeline, Waiter, heals_in
from holdfast.engines.redis.exchange import Answers, Exchange
from holdfast.engines.redis.handshake import Handshake
from holdfast.engines.redis.waiters import Waiters
from holdfast.events import NodeFailed, NodeRecovered

CONNECT_TIMEOUT = 1.0
"""How long connecting may take, at least."""

FIRST_CONTACT = 0.5
"""How long a round waits for connections while there are too few for a quorum."""

MAY_WAIT = (Acquire, Inspect, List, Break)
"""What does so. The loss of a lease must be noticed in time, and a release is sent later anyway."""

RECONNECT_AFTER = 0.2
"""How long a node of a quorum that could not be connected to is left alone."""

MAX_PENDING = 1000
"""How many requests may be pending at a node that does not answer before nothing more is sent."""

IDLE = 0.1
"""A connection that was idle for longer is checked before it is used."""

LEAST_TIMEOUT = 0.05
"""A waiter that polls may ask just before its time is over. That is no server's failure."""

SILENT = "did not answer in time"
NO_CONNECTION = "no connection in time"
INTERRUPTED = "interrupted in the middle of sending or receiving"
GONE = "this client is closed"

NEW, SENT, ACTIVE, REFUSED = "new", "sent", "active", "refused"
"""The states of a subscription."""


class NoWaiter:
    """For a round that no thread or task waits for."""

    def wake(self) -> None:
        """Do nothing."""


NO_WAITER = NoWaiter()


class Node:
    """One server, and the state of the connection to it."""

    def __init__(
        self,
        nodes: "Nodes",
        address: Address,
        handshake: Handshake,
        *,
        exclusive: bool = False,
    ) -> None:
        self._nodes, self.address = nodes, address
        self.index = -1
        self._handshake, self._exclusive = handshake, exclusive
        self.name = address.name
        self.forget()

    def forget(self) -> None:
        """Start anew: there is no connection."""
        self.pipeline: Pipeline | None = None
        self.ready = self.connecting = False
        self.last_error = ""
        """The last failure; empty if it answers."""
        self.retry_at = -inf
        self.used_at = -inf
        self.subscription = NEW
        self._refusal = ""
        """Why it was refused."""
        self._queue: deque[Pending] = deque()
        """Waits for the connection; or, on an exclusive one, for its turn."""
        self._opening: Pending | None = None

    @property
    def wakes(self) -> bool:
        """Whether publications reach us, as far as is known."""
        return self._nodes.listens and self.subscription != REFUSED

    def is_stuck(self, now: float) -> bool:
        """Whether its oldest pending request is overdue."""
        pipeline = self.pipeline
        return pipeline is not None and pipeline.overdue_since() < now

    def start(self, pending: Pending, now: float, spare: bool) -> None:
        """Send a request, now or when there is a connection, or fail it at once; `spare`: enough
        other nodes can be asked."""
        if not self.ready:
            if now < self.retry_at:
                return self._fail(pending, self.last_error)
            if not self.connecting and self.pipeline is None:
                self.connecting = True
                self._nodes.connect(self, max(pending.round.until - now, CONNECT_TIMEOUT))
            if (spare and self.last_error) or len(self._queue) >= MAX_PENDING:
                self._fail(pending, self.last_error or NO_CONNECTION)
                if not pending.is_release or len(self._queue) >= MAX_PENDING:
                    return None
            self._queue.append(pending)
            return None
        pipeline = self.pipeline
        assert pipeline is not None  # noqa: S101 - it is ready
        if pipeline.pending and pipeline.overdue_since() < now:
            full = len(pipeline.pending) >= MAX_PENDING
            if spare or full:
                self._fail(pending, SILENT)
                if full or not pending.is_release:
                    return None
        self.used_at = now
        self._send(pipeline, pending)
        return None

    def unanswered(self) -> list[Pending]:
        """All that was sent, or is to be sent, and is not answered yet."""
        sent = self.pipeline.pending if self.pipeline is not None else ()
        return [*(each for each in sent if each is not None), *self._queue]

    def connected(self) -> Pipeline:
        """There is a connection. Nothing is sent on it before the handshake is done."""
        self.connecting = False
        self.pipeline = pipeline = Pipeline(self)
        waiting = FanOut((Inspect(""),), (self.index,), inf)
        self._opening = Pending(self._handshake.exchange(), waiting, NO_WAITER)
        pipeline.send(self._opening)
        return pipeline

    def lost(self, why: str, heals: float | None = None) -> None:
        """The connection is lost, or could not be made: everything pending fails."""
        pipeline, self.pipeline = self.pipeline, None
        failing = [*(pipeline.drop() if pipeline is not None else ()), *self._queue]
        listened = self.subscription in (SENT, ACTIVE)
        if not self.ready and self._nodes.size:
            self.retry_at = self._nodes.clock() + RECONNECT_AFTER
        self.ready = self.connecting = False
        self.subscription = NEW
        self._queue.clear()
        self._failed(why)
        for pending in failing:
            if pending is not self._opening:
                self._fail_later(pending, why, heals)
        if listened:
            self._nodes.waiters.wake_all()

    def silent(self) -> None:
        """It did not answer in time."""
        self._failed(SILENT if self.ready else NO_CONNECTION)
        if self.address.fails_over and self.pipeline is not None:
            self._nodes.disconnect(self, f"{SILENT}; asking Sentinel for the master again")

    def answered(self, pending: Pending, answers: Answers) -> None:
        """A request has its answers."""
        if pending is self._opening:
            return self._opened(answers)
        if self.last_error:
            self._recovered()
        moved = ""
        first = answers[0]
        if type(first) is Failed or len(answers) > 1:
            answers = [self._named(each) if type(each) is Failed else each for each in answers]
            text = str(answers[0]) if type(first) is Failed else ""
            moved = text if any(code in text for code in NOT_THE_MASTER) else ""
        elif type(first) is Held and self.subscription != ACTIVE:
            first.wakes = False
        each = pending.round
        if not each.over:
            each.take(self.index, answers)
            if each.over:
                pending.waiter.wake()
        elif not each.settled:
            _take_late(each, self.index, answers)
        if moved:
            raise EOFError(moved)
        if self._exclusive:
            self._send_queued()
        return None

    def subscribed(self, error: Exception | None) -> None:
        """The subscription was confirmed, or refused."""
        if error is None:
            self.subscription = ACTIVE
        else:
            self.subscription, self._refusal = REFUSED, str(error)
            self._nodes.waiters.unreachable(self.name, self._refusal)

    def published(self, message: bytes) -> None:
        """A message on our channel."""
        self._nodes.waiters.published(self.index, message)

    def _opened(self, answers: Answers) -> None:
        self._opening = None
        refusal = answers[0]
        if type(refusal) is Failed:
            why = refusal.nodes[0][1]
            heals = refusal.heals_in if refusal.heals_in is not None else heals_in(why)
            self._nodes.disconnect(self, why, heals)
            return
        self.ready = True
        self.retry_at = -inf
        if self.last_error:
            self._recovered()
        if not self._handshake.resp3:
            self.subscription, self._refusal = REFUSED, self._handshake.why_no_resp3
        self._send_queued()

    def _send_queued(self) -> None:
        """Send what has waited for the connection, or for its turn."""
        pipeline, now = self.pipeline, self._nodes.clock()
        while pipeline is not None and self._queue:
            if self._exclusive and pipeline.pending:
                return
            pending = self._queue.popleft()
            if pending.is_release or (not pending.round.over and now <= pending.round.until):
                self._send(pipeline, pending)
            elif not pending.round.over:  # its caller is about to stop waiting
                self._fail_later(pending, NO_CONNECTION)

    def _send(self, pipeline: Pipeline, pending: Pending) -> None:
        if self._exclusive and pipeline.pending:
            self._queue.append(pending)
            return
        first = pending.round.requests[0]
        if type(first) is Acquire and first.queue:
            self._subscribe(pipeline)
        pipeline.send(pending)
        self._nodes.unsent.add(self)

    def _subscribe(self, pipeline: Pipeline) -> None:
        """Subscribe to wake-ups; if that is not possible, report it, once."""
        if self.subscription == NEW and self._nodes.listens:
            self.subscription = SENT
            pipeline.subscribe(self._nodes.waiters.subscribe)
        elif self.subscription == REFUSED:
            self._nodes.waiters.unreachable(self.name, self._refusal)

    def _named(self, failed: Failed) -> Failed:
        why = failed.nodes[0][1]
        heals = failed.heals_in if failed.heals_in is not None else heals_in(why)
        return Failed.at(self.name, why, heals)

    def _fail(self, pending: Pending, why: str, heals: float | None = None) -> None:
        count = len(pending.round.requests)
        pending.round.take(self.index, [Failed.at(self.name, why, heals)] * count)

    def _fail_later(self, pending: Pending, why: str, heals: float | None = None) -> None:
        """The same for a request whose caller waits already."""
        self._fail(pending, why, heals)
        if pending.round.over:
            pending.waiter.wake()

    def _failed(self, why: str) -> None:
        if not self.last_error and self._nodes.size and why != GONE:
            self._nodes.host.emit(NodeFailed(self.name, why))
        self.last_error = why

    def _recovered(self) -> None:
        self.last_error = ""
        if self._nodes.size:
            self._nodes.host.emit(NodeRecovered(self.name))


class Nodes:
    """All servers of one client."""

    connect: Callable[[Node, float], None]
    """Begin to connect; in the end, call `Node.connected` or `Node.lost`. Set by the driver."""
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
            pending = Pending(exchange, each, waiter)
            for index in each.nodes:
                self.all[index].start(pending, now, spare)

    def _leave(self, node: int, release: Release) -> None:
        self.start((FanOut((release,), (node,), self.clock() + CONNECT_TIMEOUT),), NO_WAITER)

    def _has_spare(self, each: FanOut, now: float) -> bool:
        """Whether enough nodes can be asked without those that do not answer."""
        ready = [node for node in self.all if node.ready]
        if len(ready) < self.size and type(each.requests[0]) in MAY_WAIT:
            each.until = max(each.until, now + FIRST_CONTACT)
        return sum(not node.is_stuck(now) for node in ready) >= self.size

    def unanswered(self) -> list[Pending]:
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


def _take_late(each: FanOut, node: int, answers: Answers) -> None:
    """Add an answer to a round that is over, whose caller may be reading its answers now."""
    later = copy(each)
    later.answers = dict(each.answers)
    later.take(node, answers)
    each.answers = later.answers
