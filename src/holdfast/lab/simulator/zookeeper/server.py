"""One server of a virtual ZooKeeper. It answers reads from what it has received of the leader's
history so far, also while it is cut off from the leader."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from kazoo.exceptions import SessionExpiredError, UnimplementedError, ZookeeperError
from kazoo.protocol.serialization import Close, Connect, GetChildren

from holdfast.core.lease_state import LeaseState
from holdfast.engines.queue import holders
from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import Place, in_order, read_entry
from holdfast.lab.simulator.driver import Timeline
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.server import PRECISION, Receive
from holdfast.lab.simulator.zookeeper.ensemble import Ensemble, Proposal
from holdfast.lab.simulator.zookeeper.member import Member
from holdfast.lab.simulator.zookeeper.tree import READS, Node, is_child

UNANSWERED = object()
LAST_WORDS = 0.01
"""Seconds until a connection is closed behind a last reply."""

LOCKS = commands.Tree("")


@dataclass(slots=True)
class Pending:
    """A request that is not answered yet."""

    request: Any
    reply: Any = UNANSWERED


@dataclass(slots=True)
class Client:
    """A client that is connected. Its requests are answered in order."""

    connection: Connection
    session: int
    receive: Receive
    pending: deque[Pending] = field(default_factory=deque)


class ZooKeeperServer(Member):
    """The leader, or a follower."""

    ensemble: Ensemble

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._clients: dict[Connection, Client] = {}
        self._watches: dict[str, dict[Connection, None]] = {}
        self._touched: dict[int, None] = {}

    @classmethod
    def several(cls, count: int, timeline: Timeline, **settings: Any) -> Sequence[Self]:
        """An ensemble."""
        members = super().several(count, timeline, **settings)
        ensemble = Ensemble(members, timeline)
        for each in members:
            each.ensemble = ensemble
        ensemble.begin()
        return members

    def links(self) -> Sequence[Connection]:
        """The connections to other servers."""
        if self is not self.ensemble.leader:
            return [self.link]
        return [each.link for each in self.ensemble.members if each is not self]

    def join(self, term: int, link: Connection) -> None:
        """Catch up with a leader, and answer clients."""
        super().join(term, link)
        self.tree = self.ensemble.tree.copy()
        self._zxid = len(self.ensemble.log)

    def leave(self) -> None:
        """There is no leader: close every connection."""
        super().leave()
        for connection in list(self.connections):
            self._drop(connection)
        self._touched.clear()

    def crash(self) -> None:
        """Go down. Every connection breaks."""
        super().crash()
        for each in (self._clients, self._watches, self._touched):
            each.clear()

    def accept(self, connection: Connection) -> bool:
        """A client connects; False: it is down, or has no leader."""
        return self.serving and super().accept(connection)

    def answer(self, connection: Connection, data: Any, reply: Receive) -> None:
        """Answer a request, or have the leader do so."""
        client = self._clients.get(connection)
        if client is None:
            if isinstance(data, Connect) and connection in self.connections:
                self._connect(connection, data, reply)
            return
        self._touch(client.session)
        pending = Pending(data)
        client.pending.append(pending)
        if not isinstance(data, READS):

            def done(result: Any) -> None:
                pending.reply = result
                self._answer_in_order(client)

            self._forward(Proposal(self, client.session, data, done))
        self._answer_in_order(client)

    def _connect(self, connection: Connection, request: Connect, reply: Receive) -> None:
        if request.last_zxid_seen > self._zxid:  # the client must not see the past
            return self._drop(connection)
        for each in list(self._clients.values()):
            if each.session == request.session_id:
                self._drop(each.connection)

        def done(result: Any) -> None:
            number, _ = result
            if connection in self.connections:
                self._clients[connection] = Client(connection, number, reply)
                self._send(connection, reply, result)
                if not number:
                    self._drop_soon(connection)

        return self._forward(Proposal(self, 0, request, done))

    def _touch(self, session: int) -> None:
        self._touched[session] = None
        if self is self.ensemble.leader:
            self.report(self._zxid)

    def report(self, zxid: int) -> None:
        """Report to the leader which sessions are alive."""
        touched, self._touched = list(self._touched), {}
        self._to_leader(lambda: self.ensemble.touch(touched))

    def _forward(self, proposal: Proposal) -> None:
        self._to_leader(lambda: self.ensemble.submit(proposal))

    def _to_leader(self, action: Callable[[], None]) -> None:
        leader, link, term = self.ensemble.leader, self.link, self.term

        def arrive() -> None:
            if self.ensemble.term == term:
                action()

        if leader is self:
            arrive()
        elif leader is not None and self.term == self.ensemble.term:
            link.to_node(lambda: leader.in_turn(link, arrive))

    def _answer_in_order(self, client: Client) -> None:
        connection = client.connection
        while client.pending and connection in self.connections:
            first = client.pending[0]
            if isinstance(first.request, READS):
                first.reply = self._read(connection, first.request)
            if first.reply is UNANSWERED:
                break
            client.pending.popleft()
            if isinstance(first.reply, SessionExpiredError):
                self._drop(connection)
            else:
                self._send(connection, client.receive, first.reply)
            if isinstance(first.reply, UnimplementedError) or isinstance(first.request, Close):
                self._drop_soon(connection)

    def _read(self, connection: Connection, request: Any) -> Any:
        try:
            reply = self.tree.read(request)
        except ZookeeperError as error:
            return error
        if isinstance(request, GetChildren) and request.watcher is not None:
            self._watches.setdefault(request.path, {})[connection] = None
        return reply

    def _send(self, connection: Connection, receive: Receive, reply: Any) -> None:
        zxid = self._zxid
        connection.to_client(lambda: receive((zxid, reply)))

    def catch_up(self, zxid: int) -> None:
        """Receive what was carried out."""
        while self._zxid < zxid:
            entry = self.ensemble.log[self._zxid]
            self._zxid += 1
            self.tree.apply(entry.change)
            for path, node in entry.change.items():
                self._fire(path, node)
            for client in list(self._clients.values()):
                is_closing = any(isinstance(each.request, Close) for each in client.pending)
                if entry.closes and client.session == entry.closes and not is_closing:
                    self._drop(client.connection)

    def _fire(self, path: str, node: Node | None) -> None:
        """A node has changed: report it to those that watch its children. That of a parent is
        there because it has a child more; its data has no watchers."""
        for watched in list(self._watches):
            if (watched == path and node is None) or is_child(path, watched):
                for connection in self._watches.pop(watched):
                    client = self._clients.get(connection)
                    if client is not None:
                        self._send(connection, client.receive, Gone(watched))

    def _drop(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._clients.pop(connection, None)
        connection.reset()

    def _drop_soon(self, connection: Connection) -> None:
        self.timeline.at(self.timeline.now + LAST_WORDS, lambda: self._drop(connection))

    def _queue(self, key: str) -> list[Place]:
        """The places in the queue of a lock. The first hold it."""
        return in_order(self.ensemble.tree.below(LOCKS.queue(key)))

    def _node(self, key: str, place: Place) -> Node:
        return self.ensemble.tree.nodes[f"{LOCKS.queue(key)}/{place.name}"]

    def _place(self, key: str, holder: str) -> Node | None:
        """The place of a holder, if it is its turn."""
        first = holders(self._queue(key), lambda each: each.shares)
        nodes = (self._node(key, each) for each in first)
        return next((node for node in nodes if _holder(node) == holder), None)

    def has_turn(self, key: str, holder: str) -> bool:
        """Whether a holder has the lock or a share of it, or gets it when it asks again."""
        return self._place(key, holder) is not None

    def knows(self, lease: LeaseState) -> bool:
        """Whether it has the lease, with its fence."""
        place = self._place(lease.spec.key, lease.holder)
        entry = place and read_entry(place.data)
        return bool(place and entry and (entry.fence or place.created) == lease.fence)

    def backs(self, lease: LeaseState, until: float) -> bool:
        """Whether it keeps the lease until that instant, unless it is released."""
        place, leader = self._place(lease.spec.key, lease.holder), self.ensemble.leader
        if place is None or leader is None:
            return place is not None
        return leader.clock.true(self.ensemble.sessions[place.owner].ends_at) >= until - PRECISION

    def remains(self, key: str, holder: str) -> list[str]:
        """What it has of a holder that has released the lock."""
        found = (_holder(self._node(key, place)) for place in self._queue(key))
        return [each for each in found if each == holder]

    def leftovers(self) -> list[str]:
        """What must not be there when every lock was released."""
        return [_holder(node) for node in self.ensemble.tree.nodes.values() if node.owner]


@dataclass(frozen=True, slots=True)
class Gone:
    """What a watch reports."""

    path: str


def _holder(node: Node) -> str:
    entry = read_entry(node.data)
    return entry.holder if entry is not None else repr(node.data)
