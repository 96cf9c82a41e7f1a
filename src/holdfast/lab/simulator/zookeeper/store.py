"""The store of a client over a virtual ZooKeeper, as `engines.zookeeper.threads` and `aio` over a
real one. Exchanges, sessions, heartbeats and the registry are the engine's own."""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from holdfast.core.messages import Request
from holdfast.engines.zookeeper.connection import Servers
from holdfast.engines.zookeeper.exchange import Wait
from holdfast.engines.zookeeper.exchanges import Exchanges
from holdfast.engines.zookeeper.sessions import Terms
from holdfast.lab.simulator.driver import BaseClient
from holdfast.lab.simulator.store import Activity, Link, Resume, Store, Waits, Wiring
from holdfast.lab.simulator.zookeeper.connection import VirtualConnection
from holdfast.lab.simulator.zookeeper.ensemble import TICK


class ZooKeeperStore(Store):
    """One ensemble, for all that a client does."""

    def __init__(self, client: BaseClient, wiring: Wiring) -> None:
        super().__init__(client, "zookeeper")
        self._blocks = True  # under asyncio, too, a cancelled exchange ends at once
        self._sent = wiring.sent
        number = client.number
        names = tuple(f"{server.name}:2181" for server in wiring.servers)
        terms = Terms(Servers(names), TICK if number % 2 else None)
        chance = Random(client.name)  # noqa: S311 - to be repeatable, not secret
        self._exchanges = Exchanges(terms, "", self.host, self._connect, chance)
        self.sockets: list[VirtualConnection] = []
        self.connections = [ServerLink(self, wiring, index) for index in range(len(names))]
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
            each.close()
        for session in self._exchanges.sessions:
            session.begin_end()

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        if not self._beats:
            self._beats = True
            self._start(Activity(self.client, self._beat()))
        return self._drive(self._exchanges.ask(requests, until), partial(self._send, requests))

    def _beat(self) -> Waits:
        while True:
            yield partial(self._sleep, self._exchanges.pause)
            yield from self._drive(self._exchanges.beat(), self._wait)

    def _send(self, requests: Sequence[Any], wait: Wait, resume: Resume) -> None:
        self._sent(requests)  # a fault may wait for any call of an exchange
        self._wait(wait, resume)

    def _wait(self, wait: Wait, resume: Resume) -> None:
        self._sleep(wait.seconds, resume)
        if wait.result is not None:
            wait.result.call_at_once(lambda result: self._sleep(0.0, resume))


class ServerLink(Link):
    """The way to one server, for all sessions. What is left behind is on all of them."""

    def __init__(self, store: ZooKeeperStore, wiring: Wiring, index: int) -> None:
        super().__init__(store.client, wiring, index)
        self._store, self._index = store, index

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered."""
        return self._store.is_idle

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        """All connections to this server break."""
        for each in self._store.sockets:
            if each.server == self._index:
                each.break_off(ghost=ghost, late=late)
