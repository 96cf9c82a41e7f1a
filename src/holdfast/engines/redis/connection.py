"""One connection, and the state of its server. Pure: bytes in, bytes out; stores own the socket.

1. The server executes commands in the order in which they were sent, and replies in that order. So
   a queue of pending requests is all that matches replies to requests.
2. A request whose caller has stopped waiting stays in the queue. Its reply is read and dropped, so
   a late reply never desynchronises the connection, and a release that was sent behind a late
   acquire is executed behind it.
3. Publications come in between, as pushes of RESP3.
4. The confirmation of SUBSCRIBE is a push, its refusal is a reply: either takes its place in the
   queue.
5. When the connection is lost, every pending request fails, with an unknown outcome.
6. The connection is made when it is first needed. What is asked meanwhile waits, and is sent when
   the handshake is done, so a round waits for a connection as it waits for an answer.
7. When a server reports that it is no master any more, its connection is closed. The next request
   connects anew, through Sentinel if there is one. Subscriptions are made on the same connection,
   so they follow.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol, cast

from hiredis import PushNotification, Reader

from holdfast.core.fanout import FanOut
from holdfast.core.messages import DONE, Acquire, Answer, Failed, Held, Release, holder_of
from holdfast.core.ports import Clock, StoreHost
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.handshake import Handshake
from holdfast.engines.redis.protocol import (
    BROKEN,
    NOT_THE_MASTER,
    Answers,
    Exchange,
    Reply,
    conclude,
    explain,
    failed,
    heals_in,
)
from holdfast.engines.redis.waiters import Waiters
from holdfast.events import NodeConnected, NodeFailed, NodeQuarantined, NodeRecovered

CONNECT_TIMEOUT = 1.0
"""How long connecting may take, at least."""

RECONNECT_AFTER = 0.2
"""How long a node of a quorum that could not be connected to is left alone."""

MAX_PENDING = 1000
"""How many requests may wait for a node that does not answer before all others fail at once."""

NONSENSE = (ValueError, TypeError, LookupError, AttributeError)
"""What reading a reply raises if another program has written to our keys, or if the server is not
quite a Redis."""

SILENT = "did not answer in time"
NO_CONNECTION = "no connection in time"
GONE = "this client is closed"

OF_A_CLUSTER = ("MOVED ", "ASK ", "CROSSSLOT")
USE_THE_CLUSTER = "the server is a node of a cluster: use redis+cluster:// in place of this URL"

NEW, SENT, ACTIVE, REFUSED = "new", "sent", "active", "refused"
"""The states of a subscription."""


class Owner(Protocol):
    """What a connection needs of its client: see `nodes.Nodes`."""

    host: StoreHost
    clock: Clock
    waiters: Waiters
    quorum: int
    is_cluster: bool
    closed: bool
    connect: Callable[..., None]
    disconnect: Callable[..., None]

    def margin(self) -> int:
        """How many more nodes of the quorum may fail."""
        ...

    def have_spare(self, now: float) -> bool:
        """Whether enough nodes can be asked without those that do not answer."""
        ...


OWN = (None,)
"""The requests of a round that no caller waits for."""


class Connection:
    """One connection, also while it is not open, and the state of its server."""

    def __init__(
        self,
        nodes: Owner,
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
        self.connecting = self.connected = self.ready = False
        """Whether a connection is being made, is there, and has its handshake behind it."""
        self.last_error = ""
        """The last failure; empty if it answers."""
        self.retry_at = -inf
        self._waiting: deque[Exchange] = deque()
        """Waits for the connection; or, on an exclusive one, for its turn."""
        self._begin()

    def _begin(self) -> None:
        """Nothing was sent yet."""
        self._reader = Reader()
        self.pending: deque[Exchange] = deque()
        """What was sent and is not answered yet."""
        self._replies: list[Reply] = []
        """Those of the first pending exchange that have come."""
        self.subscription = NEW
        self._refusal = ""
        """Why it was refused."""

    @property
    def wakes(self) -> bool:
        """Whether publications reach us, as far as is known."""
        return self._nodes.waiters.listens and self.subscription != REFUSED

    def _no_connection(self) -> str:
        # A server without TLS waits for the rest of what it takes for a command.
        hint = "; without TLS on this port, use redis://, not rediss://"
        return f"{NO_CONNECTION}{hint}" if self.address.encrypted else NO_CONNECTION

    def is_overdue(self, now: float) -> bool:
        """Whether the oldest pending request should have been answered."""
        return bool(self.pending) and self.pending[0].round.until < now

    def start(self, exchange: Exchange, now: float) -> None:
        """Send a request, now or when there is a connection, or fail it at once."""
        if self._nodes.closed:
            self._fail(exchange, GONE)
            return
        if not self.ready:
            if now < self.retry_at:
                self._fail(exchange, self.last_error)
                return
            is_there = self.connecting or self.connected
            full = len(self._waiting) >= MAX_PENDING
            refused = full or (bool(self.last_error) and self._nodes.have_spare(now))
            if refused:
                self._fail(exchange, self.last_error or self._no_connection())
            if not full and (exchange.is_release or not refused):
                self._waiting.append(exchange)
            if not is_there:
                self.connecting = True  # it may fail at once, and `lost` be called within this
                self._nodes.connect(self, max(exchange.round.until - now, CONNECT_TIMEOUT))
            return
        if self.is_overdue(now):
            full = len(self.unanswered()) >= MAX_PENDING
            if full or self._nodes.have_spare(now):
                self._fail(exchange, SILENT)
                if full or not exchange.is_release:
                    return
        self._send(exchange)

    def unanswered(self) -> list[Exchange]:
        """All that was sent, or is to be sent, and is not answered yet."""
        return [*self.pending, *self._waiting]

    def opened(self, write: Callable[[Sequence[bytes]], None]) -> None:
        """There is a connection, on which `write` sends. Nothing of a caller is sent before the
        handshake is done."""
        self._begin()
        self._write = write
        self.connecting, self.connected = False, True
        shaking_hands = self._handshake.exchange()
        shaking_hands.round = FanOut(OWN, (self.index,), inf)
        self._send(shaking_hands)

    def lost(self, why: str, heals: float | None = None) -> None:
        """The connection is lost, or could not be made: everything pending fails."""
        if not self.ready and self._nodes.quorum:
            self.retry_at = self._nodes.clock() + RECONNECT_AFTER
        failing = self.unanswered() if self.ready else list(self._waiting)
        self.ready = self.connecting = self.connected = False
        listened = self.subscription in (SENT, ACTIVE)
        self._waiting.clear()
        self._begin()
        self._failed(why)
        for exchange in failing:
            self._fail(exchange, why, heals)
        if listened:
            self._nodes.host.notify_all()

    def silent(self) -> None:
        """It did not answer in time."""
        self._failed(SILENT if self.ready else self._no_connection())
        if self.address.fails_over and self.connected:
            self._nodes.disconnect(self, f"{SILENT}; asking Sentinel for the master again")

    def receive(self, data: bytes) -> None:
        """Read replies and pushes, and hand each to what waits for it."""
        reader = self._reader
        reader.feed(data)
        while (reply := reader.gets()) is not False:
            if type(reply) is PushNotification:
                self._take_push(reply)
                continue
            if not self.pending:
                raise EOFError("a reply to no request")
            first, replies = self.pending[0], self._replies
            replies.append(reply)
            if len(replies) == len(first.commands):
                self._replies = []
                self.pending.popleft()
                self._conclude(first, replies)
                if self._waiting and self.ready:
                    self._send_waiting()
                if self._reader is not reader:
                    return  # the connection was closed

    def _take_push(self, push: list[Reply]) -> None:
        kind = push[0]
        if kind in (b"message", b"smessage"):
            self._nodes.waiters.published(push[2])
        elif kind in (b"subscribe", b"ssubscribe") and self.subscription == SENT:
            self.pending.popleft()
            self.subscription = ACTIVE

    def _conclude(self, exchange: Exchange, replies: list[Reply]) -> None:
        """All replies to an exchange have come."""
        fan_out = exchange.round
        try:
            answers = conclude(exchange, replies)
        except NONSENSE as error:
            answers = [failed(f"the reply makes no sense: {error!r}")] * len(fan_out.requests)
        if isinstance(answers, Exchange):
            if self._goes_on(exchange):
                answers.round = fan_out
                self._send(answers)
                return
            answers = [failed("its caller has stopped waiting")] * len(fan_out.requests)
        if not self.ready:
            self._handshake_done(answers[0])
            return
        if self.last_error:
            self._recovered()
        first = answers[0]
        if type(first) is Held and self.subscription != ACTIVE:
            self._must_poll(fan_out.requests[0], first)
        elif type(first) is Failed or len(answers) > 1:
            answers = list(map(self._named, answers))
        fan_out.received(self.index, answers)
        if type(first) is Failed and any(code in str(first) for code in NOT_THE_MASTER):
            raise EOFError(str(answers[0]))

    def _must_poll(self, request: object, held: Held) -> None:
        """A waiter has to wait without being woken. If it never will be, report it, once."""
        held.wakes = False
        if self._refusal and type(request) is Acquire and request.queue:
            self._nodes.waiters.unreachable(self.name, self._refusal)

    def _goes_on(self, exchange: Exchange) -> bool:
        """Whether to send the next part of an exchange: not for a caller that has stopped waiting,
        unless it is a release; and not an acquire whose release was sent already, since it would be
        executed behind that release."""
        request = exchange.round.requests[0]
        if type(request) is not Acquire:
            return exchange.is_release or not exchange.round.over
        holder = holder_of(request.holder)
        return all(
            holder_of(cast(Release, release).holder) != holder
            for each in self.pending
            if each.is_release
            for release in each.round.requests
        )

    def _handshake_done(self, answer: Answer) -> None:
        """The handshake is done, or was refused."""
        refusal = self._named(answer)
        if type(refusal) is Failed:
            self._nodes.disconnect(self, refusal.nodes[0][1], refusal.heals_in)
            return
        self.ready = True
        self.retry_at = -inf
        if self.last_error:
            self._recovered()
        elif self._nodes.quorum:
            self._nodes.host.emit(NodeConnected(self.name, self._nodes.margin()))
        quarantine = self._handshake.quarantine()
        if quarantine > 0:
            self._nodes.host.emit(NodeQuarantined(self.name, quarantine))
        if self._handshake.no_resp3:
            self.subscription, self._refusal = REFUSED, self._handshake.no_resp3

    def _send_waiting(self) -> None:
        """Send what has waited for the connection, or for its turn."""
        now = self._nodes.clock()
        while self._waiting and not (self._exclusive and self.pending):
            exchange = self._waiting.popleft()
            if exchange.is_release or (not exchange.round.over and now <= exchange.round.until):
                self._send(exchange)
            elif not exchange.round.over:  # its caller is about to stop waiting
                self._fail(exchange, self._no_connection())

    def _send(self, exchange: Exchange) -> None:
        if self._exclusive and self.pending:
            self._waiting.append(exchange)
            return
        first, commands = exchange.round.requests[0], exchange.commands
        if type(first) is Acquire and first.queue and self.subscription != ACTIVE:
            commands = (*self._subscribe(exchange.round.until), *commands)
        self.pending.append(exchange)
        try:
            self._write(commands)
        except BROKEN as error:
            self._nodes.disconnect(self, explain(error))

    def _subscribe(self, until: float) -> Sequence[bytes]:
        """What subscribes to wake-ups, unless that is refused."""
        if self.subscription == NEW and self._nodes.waiters.listens:
            self.subscription = SENT
            subscribing = Exchange((self._nodes.waiters.subscribe,), self._refused)
            subscribing.round = FanOut(OWN, (self.index,), until)
            self.pending.append(subscribing)
            return subscribing.commands
        return ()

    def _refused(self, replies: list[Reply]) -> Answers:
        """The subscription was answered by a reply, and not by a push."""
        self._refusal = str(replies[0])
        self.subscription = NEW if heals_in(self._refusal) is None else REFUSED
        return [DONE]

    def _named(self, answer: Answer) -> Answer:
        """With this node's name in it, if it is a failure."""
        if type(answer) is not Failed:
            return answer
        why = answer.nodes[0][1]
        heals = answer.heals_in if answer.heals_in is not None else heals_in(why)
        if why.startswith(OF_A_CLUSTER) and not self._nodes.is_cluster:
            why, heals = f"{why}; {USE_THE_CLUSTER}", inf
        return Failed.at(self.name, why, heals)

    def _fail(self, exchange: Exchange, why: str, heals: float | None = None) -> None:
        count = len(exchange.round.requests)
        exchange.round.received(self.index, [Failed.at(self.name, why, heals)] * count)

    def _failed(self, why: str) -> None:
        is_first = not self.last_error and self._nodes.quorum and why != GONE
        self.last_error = why
        if is_first:
            self._nodes.host.emit(NodeFailed(self.name, why, self._nodes.margin()))

    def _recovered(self) -> None:
        self.last_error = ""
        if self._nodes.quorum:
            self._nodes.host.emit(NodeRecovered(self.name, self._nodes.margin()))
