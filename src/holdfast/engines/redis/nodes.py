"""The servers of one client: what is sent to which. Pure: the stores connect, send and wait.

1. There is one connection to each node.
2. A node whose oldest pending request is overdue, or to which a connection could not be made, is
   skipped at once where enough other nodes make a quorum. Releases are sent to it all the same.
3. The connection to a silent node stays open: what its kernel has buffered would be executed
   anyway, and a release must be executed behind the acquire that it undoes.
4. A *route* leads a request to the servers that are to answer it: it yields rounds to be sent. Here
   are those of one server and of a quorum; that of a cluster is in `cluster`.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from holdfast.core.effects import Sleep
from holdfast.core.fanout import FanOut
from holdfast.core.messages import (
    Acquire,
    Answer,
    Break,
    Failed,
    Inspect,
    List,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.core.quorum import Quorum
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.commands import ping
from holdfast.engines.redis.connection import SILENT, Connection
from holdfast.engines.redis.handshake import Handshake
from holdfast.engines.redis.protocol import Exchange
from holdfast.engines.redis.waiters import Waiters

FIRST_CONTACT = 0.5
"""How long the first request waits for connections to all nodes, and each while there are too few
for a quorum."""

MAY_WAIT = (Acquire, Inspect, List, Break)
"""What does so. The loss of a lease must be noticed in time, and a release is sent later anyway."""

LEAST_TIMEOUT = 0.05
"""A waiter that polls may ask just before its time is over. That is no server's failure."""


class Together(FanOut):
    """Several rounds that are sent together. It is over when all of them are."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[FanOut]) -> None:
        nodes = [node for part in parts for node in part.nodes]
        FanOut.__init__(self, (), nodes, max(part.until for part in parts))
        self.parts = parts

    def stop(self) -> None:
        """Its caller waits no more."""
        self.over = True
        for part in self.parts:
            part.stop()

    def look(self) -> None:
        """One of them is over."""
        if not self.over and all(part.over for part in self.parts):
            self.over = True
            self.wake()


class Nodes:
    """All servers of one client. `channel`: where its wake-ups are published; empty: nowhere."""

    connect: Callable[[Connection, float], None]
    """Begin to connect; in the end, call its `opened` or `lost`. Set by the store."""
    disconnect: Callable[..., None]
    """Close a connection, and call its `lost(why, heals)`. Set by the store."""

    def __init__(
        self,
        host: StoreHost,
        exchange: Callable[[Sequence[Any], bool], Exchange],
        channel: str,
        *,
        quorum: int = 0,
    ) -> None:
        self.host, self.clock = host, host.clock
        self.waiters = Waiters(host, channel)
        self.quorum = quorum
        """How many nodes are a quorum; 0: each is a server of its own."""
        self.is_cluster = False
        """Whether nodes lead requests to each other."""
        self.all: list[Connection] = []
        self._exchange = exchange
        self.adapt: Callable[[FanOut, Exchange], Exchange] | None = None
        """Changes what is sent for some rounds."""
        self.closed = False
        """Nothing is sent any more."""

    def add(self, address: Address, handshake: Handshake, *, exclusive: bool = False) -> Connection:
        """One more server, or one more connection to a server."""
        connection = Connection(self, address, handshake, exclusive=exclusive)
        self.all.append(connection)
        # Several threads may add one at the same time.
        connection.index = self.all.index(connection)
        return connection

    def forget(self) -> None:
        """In a forked child: there are no connections, and no waiters."""
        self.waiters.forget()
        for connection in self.all:
            connection.forget()

    def start(self, each: FanOut, wake: Callable[[], None]) -> None:
        """Send the requests of a round, which are one exchange or need one; `wake` is called when
        it is over."""
        each.wake = wake
        if isinstance(each, Together):
            for part in each.parts:
                self.start(part, each.look)
            return
        now = self.clock()
        first = each.requests[0]
        wakes = True
        if type(first) is Acquire and first.queue:
            wakes = any(self.all[index].wakes for index in each.nodes)
            if not wakes:
                each.until = max(each.until, now + LEAST_TIMEOUT)
        exchange = first if type(first) is Exchange else self._exchange(each.requests, wakes)
        if self.adapt is not None:
            exchange = self.adapt(each, exchange)
        exchange.round = each
        if self.quorum and type(first) in MAY_WAIT and self._are_too_few():
            each.until = max(each.until, now + FIRST_CONTACT)
        for index in each.nodes:
            self.all[index].start(exchange, now)

    def _are_too_few(self) -> bool:
        """Whether there are connections to too few nodes for a quorum."""
        return sum(each.ready for each in self.all) < self.quorum

    def have_spare(self, now: float) -> bool:
        """Whether enough nodes can be asked without those that do not answer."""
        answering = sum(each.ready and not each.is_overdue(now) for each in self.all)
        return 0 < self.quorum <= answering

    def margin(self) -> int:
        """How many more nodes of the quorum may fail."""
        return sum(not each.last_error for each in self.all) - self.quorum

    def unanswered(self) -> list[Exchange]:
        """What is waited for."""
        found = [each for connection in self.all for each in connection.unanswered()]
        return [each for each in found if not each.round.over]

    def expire(self, each: FanOut) -> None:
        """Its time is over, or its caller has stopped waiting."""
        if isinstance(each, Together):
            for part in each.parts:
                if not part.over:
                    self.expire(part)
        elif self.clock() >= each.until:
            for index in each.nodes:
                if index not in each.answers:
                    self.all[index].silent()
        each.over = True
        each.wake()

    def answers(self, each: FanOut) -> Sequence[Answer]:
        """What a single server answered."""
        [index] = each.nodes
        if index in each.answers:
            return each.answers[index]
        connection = self.all[index]
        return [Failed.at(connection.name, connection.last_error or SILENT)] * len(each.requests)


Effect: TypeAlias = FanOut | Sleep
"""A round that is to be waited for, or a sleep."""

T = TypeVar("T")
Rounds: TypeAlias = Generator[Effect, None, T]


Route: TypeAlias = Callable[[Sequence[Request], float], FanOut | Rounds[Sequence[Answer]]]
"""How to answer each request, by an instant: by a round to one server, or in several steps. Called
by any number of threads or tasks."""

MAIN, EXCLUSIVE = 0, 1
"""The connections to a single server."""


def single(requests: Sequence[Request], until: float) -> FanOut:
    """One server. A second connection to it is for the transactions of cells, which WATCH on it."""
    return FanOut(requests, (EXCLUSIVE if type(requests[0]) is Write else MAIN,), until)


class Voting:
    """Independent nodes, of which a quorum decides. The first request waits for connections to all
    of them, for a while, so that no node misses it only because it was the first."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._is_first = True

    def ask(self, requests: Sequence[Request], until: float) -> Rounds[Sequence[Answer]]:
        """Answer each request."""
        if self._is_first:
            self._is_first = False
            began = self._quorum.clock()
            connected_by = min(until, began + FIRST_CONTACT)
            yield FanOut((ping(),), self._quorum.all_nodes, connected_by)
            until += self._quorum.clock() - began
        return (yield from self._quorum.ask(requests, until))
