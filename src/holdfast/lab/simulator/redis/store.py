"""The store of a client over virtual servers: what `engines.redis.aio` is to real ones.

Commands, replies, queues, handshakes and skipped nodes are the engine's own. Only the connections,
and waiting, are virtual.
"""

from collections.abc import Generator, Sequence
from functools import partial
from math import inf
from typing import Any

from holdfast.core.effects import Sleep
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Request
from holdfast.core.ports import StoreHost
from holdfast.core.quorum import Quorum
from holdfast.core.restart_guard import RestartGuard
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.connection import CONNECT_TIMEOUT, Node
from holdfast.engines.redis.exchange import BROKEN, explain
from holdfast.engines.redis.handshake import Handshake, NodeHandshake
from holdfast.engines.redis.nodes import Nodes
from holdfast.engines.redis.waiters import Waiters
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.driver import EPOCH
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.store import Link, Resume, Store, Waits, Wiring

KEEP = 3600.0
"""How long a counter outlives its lock."""


class NodeLink(Link):
    """One connection to a node, made when it is needed, and again after it broke."""

    def __init__(self, store: "RedisStore", wiring: Wiring, node: Node) -> None:
        super().__init__(store.client, wiring, node.index)
        self._store, self._node = store, node
        self._connection: Connection | None = None

    @property
    def is_idle(self) -> bool:
        return self._node.ready and not self._node.pending

    def connect(self) -> None:
        def arrive() -> None:
            answer = self._establish if self.server.accept(made) else self._refuse
            made.to_client(self.client.arrives(lambda: answer(made)))

        def give_up() -> None:
            if self._node.connecting:
                self._lose(made, "no connection in time")

        made = self.connection(lambda: self._lose(made, "the connection broke"))
        self._connection = made
        made.to_node(arrive)
        self.client.at(self.client.clock() + CONNECT_TIMEOUT, give_up)

    def flush(self) -> None:
        connection, outgoing = self._connection, self._node.outgoing
        if connection is None or not outgoing:
            return
        data = b"".join(outgoing)
        outgoing.clear()
        self.send(connection, data, partial(self._receive, connection))

    def disconnect(self, why: str) -> None:
        if self._connection is not None:
            self._lose(self._connection, why)

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        if self._connection is not None:
            self._connection.reset(ghost=ghost, late=late)

    def _establish(self, connection: Connection) -> None:
        if self._connection is connection:
            self._node.opened()
            self.flush()

    def _refuse(self, connection: Connection) -> None:
        self._lose(connection, "refused")

    def _lose(self, connection: Connection, why: str) -> None:
        if self._connection is connection:
            self.breaks += 1
            self._connection = None
            connection.reset()
            self._node.lost(why)

    def _receive(self, connection: Connection, replies: bytes) -> None:
        if self._connection is not connection or not self._node.connected:
            return
        self._store.stop_interrupted()
        try:
            self._node.receive(replies)
            self._store.flush_all()
        except BROKEN as error:
            self._lose(connection, explain(error))
        except Exception as error:  # noqa: BLE001 - an internal error, to be reported
            self.client.fails(error)
        self._store.wake_later()


class RedisStore(Store):
    """One server, or a quorum of several."""

    def __init__(self, client: Client, wiring: Wiring) -> None:
        super().__init__(client, "redis")
        self._blocks = True  # under asyncio, too, a cancelled request ends at once
        self._sent = wiring.sent
        host = StoreHost(client.clock, client.notify, client.events.append)
        channel = f"{client.name}:channel"
        self._waiters = Waiters(host, channel)
        self._quorum = None if len(wiring.servers) == 1 else _quorum(client, wiring)
        commands = Commands(quorum=self._quorum is not None, keep=KEEP, channel=channel)
        size = 0 if self._quorum is None else self._quorum.size
        self._nodes = Nodes(host, commands.exchange, self._waiters, size=size)
        self._nodes.connect = lambda node, _: self._links[node.index].connect()
        self._nodes.disconnect = self._disconnect
        self.connections = self._links = [
            NodeLink(self, wiring, self._add(index, wiring)) for index in range(len(wiring.servers))
        ]

    def flush_all(self) -> None:
        unsent = sorted(self._nodes.unsent, key=lambda node: node.index)
        self._nodes.unsent.clear()
        for node in unsent:
            self._links[node.index].flush()

    def wake_later(self) -> None:
        """Wake waiters when their time comes."""
        if self._waiters.next_due < inf:
            self.client.at(self._waiters.next_due, self._wake_due)

    def _wake_due(self) -> None:
        self._waiters.wake_due()
        self.wake_later()

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        self._waiters.ask(requests)
        steps = self._ask_one if self._quorum is None else self._quorum.ask
        rounds: list[FanOut] = []
        try:
            answers = yield from self._drive(steps(requests, until), partial(self._do, rounds))
        finally:
            for each in rounds:
                each.over = True  # a cancelled request must not be granted anything any more
        self._waiters.answered(requests, answers)
        return answers

    def _ask_one(self, requests: Sequence[Request], until: float) -> Generator[FanOut, None, Any]:
        single = FanOut(requests, (0,), until)
        yield single
        return self._nodes.answers(single)

    def _do(
        self, rounds: list[FanOut], effect: FanOut | Sequence[FanOut] | Sleep, resume: Resume
    ) -> None:
        """Send some rounds, and wait until they are over or their time is."""
        if isinstance(effect, Sleep):
            self._wait_until(effect.until, resume)
        else:
            rounds[:] = [effect] if isinstance(effect, FanOut) else effect
            self._send(Rounds(tuple(rounds), resume))

    def _send(self, caller: "Rounds") -> None:
        def time_out() -> None:
            for each in caller.rounds:
                if not each.over:
                    self._nodes.expire(each)
            caller.wake()

        self._nodes.start(caller.rounds, caller)
        self.flush_all()
        for each in caller.rounds:
            self._sent(each.requests)
        caller.wake()
        self.client.at(max(each.until for each in caller.rounds), time_out)

    def _add(self, index: int, wiring: Wiring) -> Node:
        address, handshake = _address(wiring.servers[index].name), Handshake()
        if self._quorum is not None:
            guard = self._quorum.guards[index]
            handshake = NodeHandshake(
                guard, self.client.clock, wiring.max_ttl, guarded=wiring.guard
            )
        return self._nodes.add(address, handshake)

    def _disconnect(self, node: Node, why: str, heals: float | None = None) -> None:
        if heals is not None:
            self.client.fails(RuntimeError(f"{node.name} refused: {why}"))
        self._links[node.index].disconnect(why)


class Rounds:
    """Rounds that a request waits for."""

    def __init__(self, rounds: Sequence[FanOut], resume: Resume) -> None:
        self.rounds, self._resume = rounds, resume

    def wake(self) -> None:
        """One of them is over."""
        if all(each.over for each in self.rounds):
            self._resume(None)


def _quorum(client: Client, wiring: Wiring) -> Quorum:
    longest = wiring.max_ttl + wiring.drift(wiring.max_ttl)
    return Quorum(
        [server.name for server in wiring.servers],
        [RestartGuard(longest, on=wiring.guard) for _ in wiring.servers],
        client.clock,
        lambda: EPOCH + client.timeline.now + client.calendar,
        client.timeline.random.uniform,
        wiring.drift,
    )


def _address(name: str) -> Address:
    def nowhere(timeout: float) -> None:
        raise NotImplementedError(f"{name} is virtual")

    async def nowhere_either(timeout: float) -> None:
        nowhere(timeout)

    return Address(name, nowhere, nowhere_either)
