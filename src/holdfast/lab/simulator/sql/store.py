"""The store of a client over a virtual PostgreSQL, as `engines.sql.threads` over a real one.

Commands, statements, exchanges and what the listener does are the engine's own.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.core.messages import Acquire, Failed, Release, Request
from holdfast.engines.offload import GRACE
from holdfast.engines.sql.engine import CONNECTIONS
from holdfast.engines.sql.exchanges import Create, Enter, Exchanges, Open, Pause, Prepare, Run
from holdfast.engines.sql.postgres.commands import HANDSHAKE
from holdfast.engines.sql.postgres.server import PostgresServer
from holdfast.engines.sql.postgres.waiters import Receive, Subscribe
from holdfast.lab.simulator.driver import BaseClient, Resumption
from holdfast.lab.simulator.sql.connection import ServerConnection, ServerLink
from holdfast.lab.simulator.sql.database import STATEMENTS
from holdfast.lab.simulator.store import UNANSWERED, Activity, Resume, Store, Waits, Wiring


class SqlStore(Store):
    """One server, for all that a client does. Every third client is behind a pooler, and polls."""

    def __init__(self, client: BaseClient, wiring: Wiring) -> None:
        super().__init__(client, "postgres")
        self._sent = wiring.sent
        self._link = ServerLink(client, wiring, is_direct=client.number % 3 != 1)
        self.connections = [self._link]
        self._server = PostgresServer(_nowhere, wiring.servers[0].name, STATEMENTS, self.host)
        self._exchanges = Exchanges(self._server, CONNECTIONS)
        self._settling: list[Resume] | None = None
        """Waiters that wait until the listener listens; None: it has yet to be started."""
        self._is_settled = False

    def ask(self, requests: Sequence[Request], until: float, resume: Resumption) -> None:
        """Set a request going. Under asyncio, a worker may be late."""
        super().ask(requests, until, resume)
        if not self._blocks:
            late = [Failed.at(self._node, UNANSWERED)] * len(requests)
            self.client.at(until + GRACE, lambda: resume(late))

    def _in_turn(self, requests: Sequence[Request]) -> str:
        request = requests[0]
        return request.holder if isinstance(request, (Acquire, Release)) else ""

    def _ask(self, requests: Sequence[Request], until: float) -> Waits:
        return self._drive(self._exchanges.ask(requests, until), partial(self._do, requests))

    def _do(self, requests: Sequence[Request], effect: Any, resume: Resume) -> None:
        match effect:
            case Run(connection, statements, until):
                if requests:
                    self._sent(requests)  # a fault may wait for any statement
                connection.run(statements, until, resume)
            case Open(until):
                self._link.connect(until, partial(self._shake_hands, until, resume))
            case Prepare(seconds):
                self._prepare(seconds, resume)
            case Enter():
                resume(True)
            case Create():
                resume(None)  # they are there
            case Subscribe(connection, channel, until):
                connection.listen(channel, until, resume)
            case Receive(connection):
                connection.receive(resume)
            case Pause(seconds):
                self._sleep(seconds, resume)

    def _shake_hands(
        self, until: float, resume: Resume, connection: ServerConnection | Exception
    ) -> None:
        """As `PostgresServer.connect`: learn the server's clock."""
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
            self._server.server_clock.learn(asked_at, now)
            resume(connection)

        connection.run((HANDSHAKE(),), until, learn)

    def _prepare(self, seconds: float, resume: Resume) -> None:
        if self._is_settled:
            resume(None)
            return
        if self._settling is None:
            self._settling = []
            listening = self._server.waiters.listen(f"{self.client.name}:channel", self._settle)
            self._start(Activity(self.client, self._drive(listening, partial(self._do, ()))))
        self._settling.append(resume)
        self._sleep(seconds, resume)

    def _settle(self) -> None:
        self._is_settled = True
        waiting, self._settling = self._settling or [], []
        for resume in waiting:
            self.client.at(self._clock(), partial(resume, None))


def _nowhere(until: float) -> Any:
    raise NotImplementedError("the server is virtual")
