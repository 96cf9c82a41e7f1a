"""The store of a client over virtual servers: what `engines.redis.aio` is to real ones.

Commands, replies, queues, handshakes and skipped nodes are the engine's own. Only the connections,
and waiting, are virtual.
"""

from collections.abc import Sequence
from math import inf

from holdfast.core.fanout import FanOut, Pause
from holdfast.core.guard import RestartGuard
from holdfast.core.messages import Answer, Request
from holdfast.core.ports import StoreHost
from holdfast.core.quorum import Quorum
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.connection import BROKEN, explain
from holdfast.engines.redis.handshake import Handshake, NodeHandshake
from holdfast.engines.redis.node import CONNECT_TIMEOUT, Node, Nodes
from holdfast.engines.redis.routes import Steps
from holdfast.engines.redis.waiters import Waiters
from holdfast.lab.simulator.driver import EPOCH, Resumption
from holdfast.lab.simulator.network import Connection, Network, Wire
from holdfast.lab.simulator.server import Server
from holdfast.lab.simulator.wiring import Owner, Wiring

KEEP = 3600.0
"""How long a counter outlives its lock."""


class NodeConnection:
    """The connection to one node, made when it is needed, and again after it broke."""

    def __init__(
        self,
        client: Owner,
        store: "Store",
        network: Network,
        node: Node,
        server: Server,
        there: Wire,
        back: Wire,
    ) -> None:
        self._client, self._store, self._network, self._server = client, store, network, server
        self._there, self._back = there, back
        self._node = node
        self._connection: Connection | None = None
        self.breaks = 0
        """How often a connection broke: each time, something may have been left behind."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered, on a connection that is well."""
        pipeline = self._node.pipeline
        return self._node.ready and pipeline is not None and not pipeline.pending

    def connect(self) -> None:
        """Begin to connect."""
        made: Connection

        def gone() -> None:
            self._lose(made, "the connection broke")

        def arrive(connection: Connection) -> None:
            answer = self._establish if self._server.accept(connection) else self._refuse
            connection.to_client(self._client.arrives(lambda: answer(connection)))

        def give_up() -> None:
            if self._node.connecting:
                self._lose(made, "no connection in time")

        made = Connection(self._network, self._there, self._back, self._client.arrives(gone))
        self._connection = made
        made.open(arrive)
        self._client.at(self._client.clock() + CONNECT_TIMEOUT, give_up)

    def flush(self) -> None:
        """Send what is outgoing."""
        connection, pipeline = self._connection, self._node.pipeline
        if connection is None or pipeline is None or not pipeline.outgoing:
            return
        data = b"".join(pipeline.outgoing)
        pipeline.outgoing.clear()

        def received(replies: bytes) -> None:
            self._client.arrives(lambda: self._receive(connection, replies))()

        connection.to_node(lambda: self._server.receive(connection, data, received))

    def disconnect(self, why: str, heals: float | None = None) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._lose(self._connection, why, heals)

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        """The connection breaks; the client learns of it in a while."""
        if self._connection is not None:
            self._connection.reset(ghost=ghost, late=late)

    def crash(self) -> None:
        """The client is dead: the node learns at once that the connection is closed."""
        self.reset(ghost=True)

    def _establish(self, connection: Connection) -> None:
        if self._connection is connection:
            self._node.connected()
            self.flush()

    def _refuse(self, connection: Connection) -> None:
        self._lose(connection, "refused")

    def _lose(self, connection: Connection, why: str, heals: float | None = None) -> None:
        if self._connection is connection:
            self.breaks += 1
            self._connection = None
            connection.reset()
            self._node.lost(why, heals)

    def _receive(self, connection: Connection, replies: bytes) -> None:
        pipeline = self._node.pipeline
        if self._connection is not connection or pipeline is None:
            return
        self._store.receiving()
        try:
            pipeline.receive(replies)
            self.flush()
            self._store.flush_all()
        except BROKEN as error:
            self._lose(connection, explain(error))
        except Exception as error:  # noqa: BLE001 - a internal_error, to be reported
            self._client.fails(error)
        self._store.received()


class Store:
    """One server, or a quorum of several."""

    def __init__(self, client: Owner, wiring: Wiring) -> None:
        self.client, self.sent = client, wiring.sent
        host = StoreHost(client.clock, client.notify, client.events.append)
        channel = f"{client.name}:channel"
        self.waiters = Waiters(host, channel)
        self.quorum = None if len(wiring.servers) == 1 else _quorum(client, wiring)
        commands = Commands(quorum=self.quorum is not None, keep=KEEP, channel=channel)
        size = 0 if self.quorum is None else self.quorum.size
        self.nodes = Nodes(host, commands.exchange, self.waiters, size=size)
        self.nodes.connect = lambda node, _: self.connections[node.index].connect()
        self.nodes.disconnect = self._disconnect
        self.connections = [
            NodeConnection(
                client, self, wiring.network, self._add(index, wiring), server, there, back
            )
            for index, (server, there, back) in enumerate(
                zip(wiring.servers, wiring.there, wiring.back, strict=True)
            )
        ]
        self.pending: list[PendingRequest] = []

    def ask(self, requests: Sequence[Request], until: float, resume: Resumption) -> None:
        """Set a request going."""
        self.waiters.ask(requests)
        pending = PendingRequest(self, requests, until, resume)
        self.pending.append(pending)
        pending.go_on()

    def steps(self, requests: Sequence[Request], until: float) -> Steps[Sequence[Answer]]:
        """The rounds of a request, one after the other."""
        if self.quorum is not None:
            return (yield from self.quorum.ask(requests, until))
        single = FanOut(requests, (0,), until)
        yield single
        return self.nodes.answers(single)

    def crash(self) -> None:
        """The kernel closes its connections."""
        for line in self.connections:
            line.crash()

    def close(self) -> None:
        """The client closes its connections."""
        self.crash()

    def flush_all(self) -> None:
        """Send what is outgoing."""
        unsent = sorted(self.nodes.unsent, key=lambda node: node.index)
        self.nodes.unsent.clear()
        for node in unsent:
            self.connections[node.index].flush()

    def receiving(self) -> None:
        """A real driver notices a cancellation at once; here, before it matters."""
        for pending in self.pending:
            pending.notice_cancellation()

    def received(self) -> None:
        """Wake waiters when their time comes."""
        if self.waiters.next_due() < inf:
            self.client.at(self.waiters.next_due(), self._wake_due)

    def _wake_due(self) -> None:
        self.waiters.wake_due()
        self.received()

    def _add(self, index: int, wiring: Wiring) -> Node:
        address, handshake = _address(wiring.servers[index].name), Handshake()
        if self.quorum is not None:
            guard = self.quorum.guards[index]
            handshake = NodeHandshake(
                guard, self.client.clock, wiring.max_ttl, guarded=wiring.guard
            )
        return self.nodes.add(address, handshake)

    def _disconnect(self, node: Node, why: str, heals: float | None = None) -> None:
        if heals is not None:
            self.client.fails(RuntimeError(f"{node.name} refused: {why}"))
        self.connections[node.index].disconnect(why, heals)


class PendingRequest:
    """One request in progress."""

    def __init__(
        self, store: Store, requests: Sequence[Request], until: float, resume: Resumption
    ) -> None:
        self._store, self._client = store, store.client
        self._requests = requests
        self._steps = store.steps(requests, until)
        self._resume = resume
        self._rounds: Sequence[FanOut] = ()

    def go_on(self) -> None:
        """Perform the next step, unless the caller has stopped waiting."""
        self._rounds = ()
        if not self._resume.wanted:
            self._store.pending.remove(self)
            return self._steps.close()
        try:
            effect = next(self._steps)
        except StopIteration as stop:
            return self._end(stop.value)
        except Exception as error:  # noqa: BLE001 - a internal_error, to be reported
            return self._client.fails(error)
        if isinstance(effect, Pause):
            return self._client.at(effect.until, self.go_on)
        return self._perform((effect,) if isinstance(effect, FanOut) else effect)

    def notice_cancellation(self) -> None:
        """If its caller has stopped waiting, nothing may be granted to it any more."""
        if not self._resume.wanted:
            for each in self._rounds:
                each.over = True

    def _perform(self, rounds: Sequence[FanOut]) -> None:
        self._rounds = rounds
        try:
            self._store.nodes.start(rounds, self)
            self._store.flush_all()
        except Exception as error:  # noqa: BLE001 - a internal_error, to be reported
            return self._client.fails(error)
        for each in rounds:
            self._store.sent(each.requests)
        if all(each.over for each in rounds):
            return self.wake()
        until = max(each.until for each in rounds)
        return self._client.at(until, lambda: self._time_out(rounds))

    def wake(self) -> None:
        """One of its rounds, perhaps an earlier one, is over."""
        if self._rounds and all(each.over for each in self._rounds):
            self.go_on()

    def _time_out(self, rounds: Sequence[FanOut]) -> None:
        if rounds is self._rounds:
            for each in rounds:
                if not each.over:
                    self._store.nodes.expire(each)
            self.go_on()

    def _end(self, answers: Sequence[Answer]) -> None:
        self._store.pending.remove(self)
        self._store.waiters.answered(self._requests, answers)
        self._resume(answers)


def _quorum(client: Owner, wiring: Wiring) -> Quorum:
    longest = wiring.max_ttl + wiring.engine.drift(wiring.max_ttl)
    return Quorum(
        [server.name for server in wiring.servers],
        [RestartGuard(longest, on=wiring.guard) for _ in wiring.servers],
        client.clock,
        lambda: EPOCH + client.timeline.now + client.calendar,
        client.timeline.random.uniform,
        wiring.engine.drift,
    )


def _address(name: str) -> Address:
    def nowhere(timeout: float) -> None:
        raise NotImplementedError(f"{name} is virtual")

    async def nowhere_either(timeout: float) -> None:
        nowhere(timeout)

    return Address(name, nowhere, nowhere_either)
