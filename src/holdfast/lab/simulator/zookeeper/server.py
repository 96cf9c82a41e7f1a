"""One server of a virtual ZooKeeper. It answers reads from what it has received of the leader's
history so far, also while it is cut off from the leader."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Self

from kazoo.exceptions import (
    OperationTimeoutError,
    SessionExpiredError,
    SystemZookeeperError,
    ThrottledOpError,
    ZookeeperError,
)
from kazoo.protocol.serialization import Close, Connect, GetChildren

from holdfast.engines.queue import holders
from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import in_order, read_entry
from holdfast.lab.simulator.driver import Timeline
from holdfast.lab.simulator.network import Connection, Wire
from holdfast.lab.simulator.server import BaseServer, Place, Receive
from holdfast.lab.simulator.zookeeper.ensemble import SYNC_LIMIT, Ensemble, Proposal
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


class ZooKeeperServer(BaseServer):
    """The leader, or a follower: `Ensemble` decides. It can be cut off from the others."""

    ERRORS = (ThrottledOpError, OperationTimeoutError, SystemZookeeperError)

    ensemble: Ensemble
    link: Connection
    """To the leader."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.serving = False
        """Whether clients can connect to it."""
        self.term = 0
        """That of the leader which it follows."""
        self.silence = 0
        """For how many half ticks it has not been well."""
        self._isolations = 0
        self._held: list[Wire] = []
        self._clients: dict[Connection, Client] = {}
        self._watches: dict[str, dict[Connection, None]] = {}
        self._touched: dict[int, None] = {}

    @classmethod
    def several(cls, count: int, timeline: Timeline, **settings: Any) -> Sequence[Self]:
        members = super().several(count, timeline, **settings)
        ensemble = Ensemble(members, timeline)
        for each in members:
            each.ensemble = ensemble
        ensemble.begin()
        return members

    @property
    def is_well(self) -> bool:
        """Whether it can follow a leader, or be one."""
        return self.up and not self.frozen and not self._isolations

    def check_contact(self) -> None:
        """Count how long it has not been well. A connection that breaks is noticed at once."""
        self.silence = 0 if self.is_well else self.silence + 1
        if not self.up:
            self.silence += SYNC_LIMIT
        if self.silence > SYNC_LIMIT:
            self.term = 0

    def isolate(self) -> None:
        """Cut it off from the other servers; all learn of that after a while."""
        self._isolations += 1
        if self._isolations == 1:
            self._held = [wire for link in self._links() for wire in link.wires]
            for wire in self._held:
                wire.cuts += 1

    def reconnect(self) -> None:
        self._isolations -= 1
        if not self._isolations:
            for wire in self._held:
                wire.mend()

    def _links(self) -> Sequence[Connection]:
        """The connections to other servers."""
        if self is not self.ensemble.leader:
            return [self.link]
        return [each.link for each in self.ensemble.members if each is not self]

    def join(self, term: int, link: Connection) -> None:
        """Catch up with a leader, and answer clients."""
        self.term, self.link, self.serving = term, link, True
        self.tree = self.ensemble.tree.copy()
        self._zxid = len(self.ensemble.log)

    def leave(self) -> None:
        """There is no leader: close every connection."""
        self.serving = False
        for connection in list(self.connections):
            self._drop(connection)
        self._touched.clear()

    def crash(self) -> None:
        super().crash()
        self.serving, self.term = False, 0
        for link in self._links():
            link.reset()
        for each in (self._clients, self._watches, self._touched):
            each.clear()

    def accept(self, connection: Connection) -> bool:
        return self.serving and super().accept(connection)

    def answer(self, connection: Connection, data: Any, reply: Receive) -> None:
        client = self._clients.get(connection)
        if client is None:
            if isinstance(data, Connect) and connection in self.connections:
                self._connect(connection, data, reply)
            return
        self._touch(client.session)
        pending = Pending(data)
        client.pending.append(pending)
        error = None if isinstance(data, Close) else self.refusal()
        if error is not None:
            pending.reply = error()
        elif not isinstance(data, READS):

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
            # A leader that gave up this server does not read its old connection any more.
            if self.ensemble.term == term and self.link is link:
                action()

        if leader is self:
            arrive()
        elif leader is not None and self.term == self.ensemble.term:
            link.to_node(lambda: leader.in_turn(link, arrive))

    def _answer_in_order(self, client: Client) -> None:
        connection = client.connection
        while client.pending and connection in self.connections:
            first = client.pending[0]
            if first.reply is UNANSWERED and isinstance(first.request, READS):
                first.reply = self._read(connection, first.request)
            if first.reply is UNANSWERED:
                break
            client.pending.popleft()
            if isinstance(first.reply, SessionExpiredError):
                self._drop(connection)
            else:
                self._send(connection, client.receive, first.reply)
            if isinstance(first.request, Close):
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

    def places(self, key: str) -> Iterator[Place]:
        ensemble, path = self.ensemble, LOCKS.queue(key)
        queue = in_order(ensemble.tree.below(path))
        granted = len(holders(queue, lambda each: each.shares))
        for number, each in enumerate(queue):
            node = ensemble.tree.nodes[f"{path}/{each.name}"]
            entry = read_entry(node.data)
            fence = (entry and entry.fence) or node.created
            leader, session = ensemble.leader, ensemble.sessions[node.owner]
            ends_at = leader.clock.true(session.ends_at) if leader else inf
            yield Place(_holder(node), number < granted, fence, ends_at)

    def leftovers(self) -> list[str]:
        return [_holder(node) for node in self.ensemble.tree.nodes.values() if node.owner]


@dataclass(frozen=True, slots=True)
class Gone:
    """What a watch reports."""

    path: str


def _holder(node: Node) -> str:
    entry = read_entry(node.data)
    return entry.holder if entry is not None else repr(node.data)
