"""A virtual Redis: the store of a client over its servers, as `engines.redis.aio` over real ones;
and what runs are like with it.

Commands, replies, queues, handshakes and skipped nodes are the engine's own. Only the connections,
and waiting, are virtual.
"""

from collections.abc import Generator, Sequence
from functools import partial
from math import inf
from typing import Any

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Answer, Request
from holdfast.core.ports import StoreHost
from holdfast.core.quorum import Quorum
from holdfast.core.restart_guard import RestartGuard
from holdfast.engines.redis import drift, quorum_node_timeout
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.connection import CONNECT_TIMEOUT
from holdfast.engines.redis.connection import Connection as NodeConnection
from holdfast.engines.redis.handshake import Handshake, NodeHandshake
from holdfast.engines.redis.nodes import Nodes, Route, single
from holdfast.engines.redis.protocol import BROKEN, explain
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.driver import EPOCH
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.redis.server import Server
from holdfast.lab.simulator.store import Link, Resume, Scene, SimulatedEngine, Store, Waits

KEEP = 3600.0
"""How long a counter outlives its lock."""


class NodeLink(Link):
    """One connection to a node, made when it is needed, and again after it broke."""

    def __init__(self, store: "RedisStore", scene: Scene, node: NodeConnection) -> None:
        super().__init__(store.client, scene, node.index)
        self._store, self._node = store, node
        self._connection: Connection | None = None
        self._outgoing: list[bytes] = []

    @property
    def is_idle(self) -> bool:
        return self._node.ready and not self._node.pending

    def connect(self) -> None:
        def arrive() -> None:
            accepted = self.server.accept(made)
            made.to_client(self.client.arrives(lambda: answer(accepted)))

        def answer(accepted: bool) -> None:
            if not accepted:
                self._lose(made, "refused")
            elif self._connection is made:
                self._node.opened(self._write)
                self.flush()

        def give_up() -> None:
            if self._node.connecting:
                self._lose(made, "no connection in time")

        self._connection = made = self.connection(lambda: self._lose(made, "the connection broke"))
        made.to_node(arrive)
        self.client.at(self.client.clock() + CONNECT_TIMEOUT, give_up)

    def _write(self, commands: Sequence[bytes]) -> None:
        self._outgoing += commands

    def flush(self) -> None:
        connection, data = self._connection, b"".join(self._outgoing)
        if connection is not None and data:
            self._outgoing.clear()
            self.send(connection, data, partial(self._receive, connection))

    def disconnect(self, why: str) -> None:
        if self._connection is not None:
            self._lose(self._connection, why)

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        if self._connection is not None:
            self._connection.reset(ghost=ghost, late=late)

    def _lose(self, connection: Connection, why: str) -> None:
        if self._connection is connection:
            self.breaks += 1
            self._connection = None
            self._outgoing.clear()
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

    def __init__(self, client: Client, scene: Scene) -> None:
        super().__init__(client, "redis")
        self._blocks = True  # under asyncio, too, a cancelled request ends at once
        channel, names = f"{client.name}:channel", [server.name for server in scene.servers]
        host = StoreHost(
            client.clock, client.notify, client.events.append, notify_all=client.notify_all
        )
        is_quorum = len(names) > 1
        commands = Commands(quorum=is_quorum, keep=KEEP, channel=channel)
        quorum = len(names) // 2 + 1 if is_quorum else 0
        self._nodes = Nodes(host, commands.exchange, channel, quorum=quorum)
        self._waiters = self._nodes.waiters
        self._nodes.connect = lambda node, _: self._links[node.index].connect()
        self._nodes.disconnect = self._disconnect
        longest = scene.max_ttl + client.runtime.drift(scene.max_ttl)
        guards = [RestartGuard(longest, on=scene.guard) for _ in names]
        for name, guard in zip(names, guards, strict=True):
            voter = NodeHandshake(guard, client.clock, scene.max_ttl, guarded=scene.guard)
            self._nodes.add(_address(name), voter if is_quorum else Handshake())
        self._links = [NodeLink(self, scene, node) for node in self._nodes.all]
        self.connections = self._links
        self._route: Route = single
        if is_quorum:
            uniform, drift = client.timeline.random.uniform, client.runtime.drift
            wall_clock = self._wall_clock
            self._route = Quorum(names, guards, client.clock, wall_clock, uniform, drift).ask

    def flush_all(self) -> None:
        for link in self._links:
            link.flush()

    def wake_later(self) -> None:
        """Wake waiters when their time comes."""
        if self._waiters.next_due < inf:
            self.client.at(self._waiters.next_due, self._wake_due)

    def _wake_due(self) -> None:
        self._waiters.wake_due()
        self.wake_later()

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        way = self._route(requests, until)
        steps = self._one_round(way) if isinstance(way, FanOut) else way
        return (yield from self._drive(steps))

    def _one_round(self, single: FanOut) -> Generator[FanOut, None, Sequence[Answer]]:
        yield single
        return self._nodes.answers(single)

    def _perform(self, effect: FanOut, resume: Resume) -> None:
        """Send a round, and wait until it is over or its time is."""

        def time_out() -> None:
            if not effect.over:
                self._nodes.expire(effect)

        self._nodes.start(effect, lambda: resume(None))
        self.flush_all()
        self.client.sent(effect.requests)
        self.client.at(effect.until, time_out)

    def _stopped(self, effect: FanOut) -> None:
        effect.stop()  # a cancelled request must not be granted anything any more

    def _wall_clock(self) -> float:
        return EPOCH + self.client.timeline.now + self.client.calendar

    def _disconnect(self, node: NodeConnection, why: str, heals: float | None = None) -> None:
        if heals is not None:
            self.client.fails(RuntimeError(f"{node.name} refused: {why}"))
        self._links[node.index].disconnect(why)


def _address(name: str) -> Address:
    def nowhere(timeout: float) -> Any:
        raise NotImplementedError(f"{name} is virtual")

    return Address(name, nowhere, nowhere)


ENGINE = SimulatedEngine(
    servers=Server,
    store=RedisStore,
    drift=drift,
    ttls=(0.5, 1.0, 2.0),
    min_ttl=0.01,
    sizes=(1, 1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5),
    quorum_timeout=quorum_node_timeout,
    joins_at_once=frozenset((1,)),
)
