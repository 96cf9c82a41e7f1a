"""Connections of a client to a virtual PostgreSQL. They can break, with the outcome unknown."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.engines.sql.connection import SILENT, BrokenError
from holdfast.engines.sql.dialect import Statement
from holdfast.lab.simulator.driver import BaseClient
from holdfast.lab.simulator.network import Connection
from holdfast.lab.simulator.sql.server import Listen
from holdfast.lab.simulator.store import Link, Resume, Wiring


class ServerLink(Link):
    """All connections of a client to its server. Behind a pooler it cannot listen."""

    def __init__(self, client: BaseClient, wiring: Wiring, *, is_direct: bool) -> None:
        super().__init__(client, wiring, 0)
        self.is_direct = is_direct
        self.open: dict[ServerConnection, None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered."""
        return not any(each.is_pending for each in self.open)

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        """All connections break; the client learns of it in a while."""
        for each in list(self.open):
            each.reset(ghost=ghost, late=late)

    def connect(self, until: float, resume: Resume) -> None:
        """Open a connection."""
        ServerConnection(self).login(until, resume)


class ServerConnection:
    """One connection, as `engines.sql.connection` describes it, but that it does not block."""

    def __init__(self, link: ServerLink) -> None:
        self._link, self._client, self._server = link, link.client, link.server
        self._wires = link.connection(lambda: self._break("the connection broke"))
        self._resume: Resume | None = None
        """How what was sent is answered."""
        self._sent = 0
        self._received: list[str] = []
        self._receiver: Resume | None = None
        self._is_broken = self._is_closed = False
        self.is_direct, self.pid = link.is_direct, 0

    @property
    def is_pending(self) -> bool:
        """Whether something that was sent has not been answered."""
        return self._resume is not None

    def is_usable(self) -> bool:
        """Whether it is not known to be broken."""
        return not self._is_broken

    def login(self, until: float, resume: Resume) -> None:
        """Connect; gives this connection."""

        def arrive(wires: Connection) -> None:
            pid = self._server.login(wires)
            wires.to_client(self._client.arrives(lambda: greet(wires, pid)))

        def greet(wires: Connection, pid: int) -> None:
            if wires is self._wires:  # and not its twin
                self.pid = pid
                self._answer(self._sent, self if pid else BrokenError("refused"))

        self._link.open[self] = None
        self._expect(until, resume)
        self._wires.open(arrive)

    def run(self, statements: Sequence[Statement], until: float, resume: Resume) -> None:
        """Run one statement, or several as one transaction; gives the rows, or an error."""
        self._send(statements, until, resume)

    def listen(self, channel: str, until: float, resume: Resume) -> None:
        """Begin to listen."""
        arrives = self._client.arrives
        notified = Listen(channel, lambda holder: arrives(lambda: self._notified(holder))())
        self._send(notified, until, resume)

    def receive(self, resume: Resume) -> None:
        """Wait for notifications."""
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
        self._resume = None
        if fate == "on its way":
            self._wires.to_node(lambda: self._server.hang_up(self._wires))
        else:
            self.reset(ghost=fate == "late")

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        """It breaks; the client and the server learn of it in a while."""
        timeline = self._client.timeline
        self._wires.reset(ghost=ghost, late=late or self._link.network.lateness())
        there = self._link.there
        learns = timeline.now + self._link.network.delay(there)
        timeline.at(learns, lambda: there.deliver(lambda: self._server.hang_up(self._wires)))

    def _send(self, data: Any, until: float, resume: Resume) -> None:
        number = self._expect(until, resume)
        self._link.send(self._wires, data, partial(self._answer, number))

    def _expect(self, until: float, resume: Resume) -> int:
        if self.is_pending or self._is_closed:
            self._client.fails(RuntimeError("a connection is used that is busy, or closed"))
        self._sent += 1
        number, self._resume = self._sent, resume
        self._client.at(until, lambda: self._answer(number, BrokenError(SILENT)))
        if self._is_broken:
            self._client.at(self._client.clock(), lambda: self._break("the connection broke"))
        return number

    def _answer(self, number: int, result: Any) -> None:
        if number == self._sent and self._resume is not None:
            resume, self._resume = self._resume, None
            if isinstance(result, BrokenError):
                self._link.breaks += 1
            resume(result)

    def _notified(self, holder: str) -> None:
        self._received.append(holder)
        self._pass_on()

    def _break(self, why: str) -> None:
        self._is_broken = True
        self._answer(self._sent, BrokenError(why))
        self._pass_on()

    def _pass_on(self) -> None:
        """Give the receiver what has arrived, or that nothing will."""
        if self._receiver is None or self._is_closed:
            return
        if self._received:
            receiver, self._receiver = self._receiver, None
            received, self._received = self._received, []
            receiver(received)
        elif self._is_broken:
            receiver, self._receiver = self._receiver, None
            receiver(BrokenError("the connection broke"))
