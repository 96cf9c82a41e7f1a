"""A virtual PostgreSQL: the store of a client over it, as `engines.sql.threads` over a real one;
and what runs are like with it.

Commands, statements, exchanges and what the listener does are the engine's own. Connections are
virtual: they can break, with the outcome unknown.
"""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from holdfast.core.messages import Request
from holdfast.engines.sql.connection import SILENT, BrokenError
from holdfast.engines.sql.dialect import Statement
from holdfast.engines.sql.engine import CONNECTIONS, drift
from holdfast.engines.sql.exchanges import Enter, Exchanges, Open, Run
from holdfast.engines.sql.postgres import GUARANTEES
from holdfast.engines.sql.postgres.commands import HANDSHAKE
from holdfast.engines.sql.postgres.waiters import Listening, ListeningWaiters, Receive, Subscribe
from holdfast.engines.sql.waiters import LONGEST_LIFE, SHORTEST_LIFE
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.sql.server import LOGIN, STATEMENTS, Listen, SqlServer
from holdfast.lab.simulator.store import (
    Activity,
    Link,
    Resume,
    Scene,
    SimulatedEngine,
    Store,
    Waits,
)

BROKE = "the connection broke"


class ServerLink(Link):
    """All connections of a client to its server."""

    @property
    def is_idle(self) -> bool:
        return not any(each.is_pending for each in self.open)


class ServerConnection:
    """One connection, as `engines.sql.connection` describes it, but that it does not block."""

    def __init__(self, link: ServerLink, *, is_direct: bool) -> None:
        self._link, self._client, self._server = link, link.client, link.server
        self._wires = link.connection(self._break)
        self._answer: Resume | None = None
        """How what was sent is answered."""
        self._received: list[str] = []
        self._receiver: Resume | None = None
        self._is_broken = self._is_closed = False
        self.is_direct, self.pid = is_direct, 0

    @property
    def is_pending(self) -> bool:
        """Whether something that was sent has not been answered."""
        return self._answer is not None

    def is_usable(self, until: float) -> bool:
        return not self._is_broken

    def login(self, until: float, resume: Resume) -> None:
        """Connect; gives this connection."""

        def greet(pid: int | Exception) -> None:
            if isinstance(pid, int):
                self.pid = pid
            resume(self if self.pid else pid)

        self._link.open[self] = None
        self._send(LOGIN, until, greet)

    def run(self, statements: Sequence[Statement], until: float, resume: Resume) -> None:
        self._send(statements, until, resume)

    def listen(self, channel: str, until: float, resume: Resume) -> None:
        arrives = self._client.arrives
        notified = Listen(channel, lambda holder: arrives(lambda: self._notified(holder))())
        self._send(notified, until, resume)

    def receive(self, resume: Resume) -> None:
        self._receiver = resume
        self._pass_on()

    def close(self) -> None:
        """Close it. What is under way is lost, or run as it arrives, or later."""
        if self._is_closed:
            return
        self._is_closed = True
        del self._link.open[self]
        self._link.breaks += self.is_pending
        random = self._client.timeline.random
        fate = random.choice(("lost", "late", "on its way")) if self.is_pending else "on its way"
        self._answer = None
        if fate == "on its way":
            self._wires.to_node(lambda: self._server.hang_up(self._wires))
        else:
            self.reset(ghost=fate == "late", late=self._link.network.lateness())

    def reset(self, *, ghost: bool, late: float) -> None:
        """It breaks; the client and the server learn of it in a while."""
        timeline = self._client.timeline
        self._wires.reset(ghost=ghost, late=late)
        there = self._link.there
        learns = timeline.now + self._link.network.delay()
        timeline.at(learns, lambda: there.deliver(lambda: self._server.hang_up(self._wires)))

    def _send(self, data: Any, until: float, resume: Resume) -> None:
        def answer(result: Any) -> None:
            if self._answer is answer:
                self._answer = None
                self._link.breaks += isinstance(result, BrokenError)
                resume(result)

        if self.is_pending or self._is_closed:
            self._client.fails(RuntimeError("a connection is used that is busy, or closed"))
        self._answer = answer
        self._client.at(until, lambda: answer(BrokenError(SILENT)))
        if self._is_broken:
            self._client.at(self._client.clock(), self._break)
        self._link.send(self._wires, data, answer)

    def _notified(self, holder: str) -> None:
        self._received.append(holder)
        self._pass_on()

    def _break(self) -> None:
        self._is_broken = True
        if self._answer is not None:
            self._answer(BrokenError(BROKE))
        self._pass_on()

    def _pass_on(self) -> None:
        """Give the receiver what has arrived, or that nothing will."""
        if self._receiver is None or self._is_closed or not (self._received or self._is_broken):
            return
        receiver, self._receiver = self._receiver, None
        received, self._received = self._received, []
        receiver(received or BrokenError(BROKE))


class SqlStore(Store):
    """One server, for all that a client does. Every third client is behind a pooler, and polls."""

    sends = (Run,)

    def __init__(self, client: Client, scene: Scene) -> None:
        super().__init__(client, "postgres")
        self._link = ServerLink(client, scene, 0)
        self.connections = [self._link]
        self._waiters = ListeningWaiters(self.host.clock, self.host.notify, self._listen)
        self._exchanges = Exchanges(
            scene.servers[0].name,
            STATEMENTS,
            self.host.clock,
            client.timeline.random.uniform,
            self._waiters,
            CONNECTIONS,
        )

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        return self._drive(self._exchanges.ask(requests, until), requests)

    def _perform(self, effect: Any, resume: Resume) -> None:
        match effect:
            case Run(connection, statements, until):
                connection.run(statements, until, resume)
            case Open(until):
                connection = ServerConnection(self._link, is_direct=self.client.number % 3 != 1)
                connection.login(until, partial(self._shake_hands, until, resume))
            case Enter():
                resume(True)
            case Subscribe(connection, channel, until):
                connection.listen(channel, until, resume)
            case Receive(connection):
                connection.receive(resume)

    def _shake_hands(
        self, until: float, resume: Resume, connection: ServerConnection | Exception
    ) -> None:
        """As `ServerStore`: learn the server's clock."""
        if isinstance(connection, Exception):
            resume(connection)
            return
        asked_at = self._clock()

        def learn(results: Any) -> None:
            if isinstance(results, Exception):
                connection.close()
                resume(results)
                return
            [[(_, now)]] = results
            self._exchanges.server_clock.learn(asked_at, now)
            resume(connection)

        connection.run((HANDSHAKE(),), until, learn)

    def _listen(self, listening: Listening) -> Any:
        self._start(Activity(self.client, self._drive(listening)))
        return SimpleNamespace(listen=lambda: None, close=lambda: None)


ENGINE = SimulatedEngine(
    servers=SqlServer,
    store=SqlStore,
    drift=drift,
    ttls=(0.5, 1.0, 2.0),
    min_ttl=GUARANTEES.min_ttl,
    loses_data=False,
    lengthens=2.0 + LONGEST_LIFE - SHORTEST_LIFE,  # a lease, and the turn of a dead poller
    fair=True,
    busy=0.7,
)
