"""A virtual ZooKeeper: the store of a client over it, as `engines.zookeeper.threads` over a real
one; and what runs are like with it.

Exchanges, sessions, heartbeats and the registry are the engine's own. The states of sessions,
watches and what becomes of pending requests are kazoo's, whose client runs over a virtual network.
Its own pings are left out: holdfast sends its heartbeats more often.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from random import Random
from types import SimpleNamespace
from typing import Any

from kazoo.protocol.serialization import Close, CloseInstance, Connect, GetChildren
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from holdfast.core.effects import Sleep
from holdfast.core.messages import Request
from holdfast.engines.zookeeper import drift, guarantees
from holdfast.engines.zookeeper.connection import RETRY, Connection, Servers
from holdfast.engines.zookeeper.exchanges import Await, Exchanges
from holdfast.engines.zookeeper.sessions import Terms
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.network import Connection as Line
from holdfast.lab.simulator.store import (
    Activity,
    Link,
    Resume,
    Scene,
    SimulatedEngine,
    Store,
    Waits,
)
from holdfast.lab.simulator.zookeeper.ensemble import SHORTEST, TICK
from holdfast.lab.simulator.zookeeper.server import Gone, ZooKeeperServer


class Watchers(dict[Any, None]):
    """A set in order: kazoo's own would make a run depend on the addresses of its watchers."""

    def add(self, watcher: Any) -> None:
        self[watcher] = None


class VirtualConnection(Connection):
    """One session, over one virtual connection at a time. It does itself what kazoo has its
    `ConnectionHandler` for."""

    def __init__(self, owner: Client, links: Sequence[Link], servers: Servers, *terms: Any) -> None:
        super().__init__(servers, *terms)
        self._owner, self._links, self._network = owner, links, links[0].network
        *_, self._opening, self._opened = terms
        names = [link.server.name for link in links]
        self._order = [names.index(host.partition(":")[0]) for host in servers.hosts]
        self._tries = 0
        self._delay = RETRY["delay"]
        self._line: Line | None = None
        self._is_open = False
        self.server = 0
        """To which one it is connected, or was last."""
        self.handler.dispatch_callback = self._dispatch
        wakeup = SimpleNamespace(send=self._send_next)
        self._connection = SimpleNamespace(_write_sock=wakeup)

    def _reset_watchers(self) -> None:
        super()._reset_watchers()
        self._child_watchers: Any = defaultdict(Watchers)

    @property
    def is_idle(self) -> bool:
        return self._is_open and not self._pending

    def start_async(self) -> None:
        """Connect, again and again."""
        self._stopped.clear()
        self._connect()

    def end(self, timeout: float) -> None:
        """Request the end of the session."""
        self._stopped.set()
        self._enqueue(CloseInstance, None)

    def cut(self) -> None:
        """Close the connection, so that another server is tried; the session goes on."""
        line = self._line
        if line is not None:
            self.break_off(ghost=self._network.random.random() < 0.5)
            self._broken(line)

    def break_off(self, *, ghost: bool, late: float = 0.0) -> None:
        """The connection breaks. With `ghost`, what was sent is carried out all the same."""
        if self._line is not None:
            self._line.reset(ghost=ghost, late=late or self._network.lateness())

    def _connect(self) -> None:
        """Try the next server."""
        if self._stopped.is_set():
            return
        self._session_callback(KeeperState.CONNECTING)
        self.server = index = self._order[self._tries % len(self._order)]
        self._tries += 1
        timeout = self._opening(SHORTEST)
        milliseconds, session = ceil(timeout * 1000), self._session_id or 0
        self._line = line = self._links[index].connection(lambda: self._broken(line))
        self._submit(line, Connect(0, self.last_zxid, milliseconds, session, b"", read_only=False))
        give_up_at = self._owner.clock() + timeout / len(self._order)
        self._owner.at(give_up_at, lambda: None if self._is_open else self._broken(line))

    def _send_next(self, _: bytes) -> None:
        if self._line is not None and self._is_open and self._queue:
            request, promise = self._queue.popleft()
            self._pending.append((request, promise, 0))
            self._submit(self._line, request)

    def _submit(self, line: Line, request: Any) -> None:
        received: Resume = lambda message: self._received(line, *message)  # noqa: E731
        self._links[self.server].send(line, request, received)

    def _received(self, line: Line, zxid: int, message: Any) -> None:
        if line is not self._line:
            return
        if isinstance(message, Gone):
            event = WatchedEvent(EventType.DELETED, self._state, message.path)
            for wake in self._child_watchers.pop(message.path, ()):
                self._soon(partial(wake, event))
        elif self._is_open:
            self.last_zxid = zxid
            request, promise, _ = self._pending.popleft()
            self._answered(request, promise, message)
        else:
            self._connected(*message)

    def _answered(self, request: Any, promise: Any, reply: Any) -> None:
        if isinstance(request, Close):
            self._line, self._is_open = None, False
            self._session_callback(KeeperState.CLOSED)
        elif isinstance(reply, Exception):
            promise.set_exception(reply)
        else:
            promise.set(reply)
            if isinstance(request, GetChildren) and request.watcher is not None:
                self._child_watchers[request.path].add(request.watcher)

    def _connected(self, session: int, timeout: int) -> None:
        self._delay = RETRY["delay"]
        if not session:
            self._end(KeeperState.EXPIRED_SESSION)
            return
        self._is_open, self._session_id = True, session
        self._session_callback(KeeperState.CONNECTED)
        self._opened(session, timeout / 1000)
        while self._queue:
            self._send_next(b"")

    def _broken(self, line: Line) -> None:
        if line is self._line:
            line.reset()
            self._end(KeeperState.CONNECTING)

    def _end(self, state: str) -> None:
        """There is no connection: try the next server; after the last one, in a while."""
        self._line, self._is_open = None, False
        for link in self._links:  # what is left behind is on all of them
            link.breaks += 1
        self._session_callback(state)
        pause = 0.0
        if self._tries % len(self._order) == 0:
            pause = self._delay * self._network.random.uniform(0.6, 1.0)
            self._delay = min(2 * self._delay, RETRY["max_delay"])
        self._owner.at(self._owner.clock() + pause, self._connect)

    def _dispatch(self, callback: Any) -> None:
        self._soon(partial(callback.func, *callback.args))

    def _soon(self, action: Callable[[], Any]) -> None:
        """Call something as kazoo's threads do: not in the middle of something else."""
        self._owner.at(self._owner.clock(), action)


class ZooKeeperStore(Store):
    """One ensemble, for all that a client does."""

    sends = (Await, Sleep)

    def __init__(self, client: Client, scene: Scene) -> None:
        super().__init__(client, "zookeeper")
        number = client.number
        names = tuple(f"{server.name}:2181" for server in scene.servers)
        terms = Terms(Servers(names), TICK if number % 2 else None)
        chance = Random(client.name)  # noqa: S311 - to be repeatable, not secret
        self._exchanges = Exchanges(terms, "", self.host, self._connect, chance)
        self.sockets: list[VirtualConnection] = []
        self.connections = [ServerLink(self, scene, index) for index in range(len(names))]
        self._beats = False

    def _connect(self, *arguments: Any) -> VirtualConnection:
        connection = VirtualConnection(self.client, self.connections, *arguments)
        self.sockets.append(connection)
        return connection

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered, and nothing is to be sent again."""
        claims = self._exchanges.registry._claims.values()  # noqa: SLF001 - no store asks for it
        waits = any(claim.pending_release for claim in claims)
        return not waits and all(each.is_idle for each in self.sockets)

    def close(self) -> None:
        """End every session."""
        for each in list(self._activities):
            each.crash()
        for session in self._exchanges.sessions:
            session.end()

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        if not self._beats:
            self._beats = True
            self._start(Activity(self.client, self._beat()))
        return self._drive(self._exchanges.ask(requests, until), requests)

    def _beat(self) -> Waits:
        while True:
            yield partial(self._sleep, self._exchanges.pause)
            yield from self._drive(self._exchanges.beat())

    def _perform(self, effect: Await, resume: Resume) -> None:
        self._wait_until(effect.until, resume)
        effect.result.rawlink(lambda result: self._sleep(0.0, resume))


class ServerLink(Link):
    """The way to one server, for all sessions. What is left behind is on all of them."""

    def __init__(self, store: ZooKeeperStore, scene: Scene, index: int) -> None:
        super().__init__(store.client, scene, index)
        self._store, self._index = store, index

    @property
    def is_idle(self) -> bool:
        return self._store.is_idle

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        for each in self._store.sockets:
            if each.server == self._index:
                each.break_off(ghost=ghost, late=late)


PROMISED = guarantees(TICK, None)

ENGINE = SimulatedEngine(
    servers=ZooKeeperServer,
    store=ZooKeeperStore,
    drift=partial(drift, Terms(Servers(()), TICK)),
    ttls=(1.0, 1.5, 3.0),
    min_ttl=PROMISED.min_ttl,
    ttl_step=PROMISED.ttl_step,
    sizes=(1, 3, 3),
    seconds=8.0,
    loses_data=False,
    lengthens=0.0,
    fair=True,
    joins_at_once=frozenset((1, 3)),
    busy=0.7,
    lingers=4.0,  # a session ends with its ttl, and up to a tick later
)
