"""One server, and what one client knows of it: reached by connections of our own, or by those of a
user's pool."""

from concurrent.futures import Future
from typing import Any

from holdfast.core.ports import StoreHost
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.conversation import Speech as AnySpeech
from holdfast.engines.sql.links import AsyncLink
from holdfast.engines.sql.mysql.cursors import CursorDesk
from holdfast.engines.sql.mysql.lent import LentWire, greet
from holdfast.engines.sql.mysql.line import Line
from holdfast.engines.sql.mysql.speech import Speech
from holdfast.engines.sql.mysql.statements import Statements
from holdfast.engines.sql.mysql.wire import Wire, dial
from holdfast.engines.sql.pools.desk import Desk
from holdfast.engines.sql.pools.lenders import AsyncSqlAlchemyPool, Lender
from holdfast.engines.sql.waiting import Waiting
from holdfast.engines.sql.wired import AsyncWiredLink, WiredLink, dial_in_thread


class Silence:
    """What hears wake-ups where there are none."""

    has_left = False

    def __init__(self) -> None:
        self.settled: Future[None] = Future()
        self.settled.set_result(None)

    def settles(self, seconds: float) -> None:
        """It is settled."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def close(self) -> None:
        """There is nothing to stop."""

    def forget(self) -> None:
        """There is nothing of the parent's."""


class Server:
    """One that we connect to ourselves."""

    def __init__(
        self, address: dict[str, Any], node: str, statements: Statements, around: StoreHost
    ) -> None:
        self._address, self._returns = address, statements.returns
        self.clock = around.clock
        self._server_clock = ServerClock(around.clock)
        line = Line(around.notify)
        self.waiting: Waiting = line
        self.speech: AnySpeech = Speech(node, statements, self._server_clock, line)

    def open(self, until: float) -> WiredLink:
        """Connect, for threads."""
        return WiredLink(self._dial(until), self.clock)

    async def open_async(self, until: float) -> AsyncLink:
        """Connect, for asyncio."""
        return AsyncWiredLink(await dial_in_thread(self._dial, until, self.clock), self.clock)

    def listen(self) -> Silence:
        """Nobody is woken by the server."""
        return Silence()

    def leave(self) -> None:
        """Nothing is left of a connection that is closed."""

    async def leave_async(self) -> None:
        """The same for asyncio."""

    def forget(self) -> None:
        """In a forked child: whoever has a connection forgets it."""

    def _dial(self, until: float) -> Wire:
        return dial(self._address, self._server_clock, until, returns=self._returns)


class LentServer(Server):
    """One that a user's pool leads to. One connection of the pool is kept, from the first request
    to the end, so that a renewal need not wait for one."""

    def __init__(
        self, lender: Lender, node: str, statements: Statements, around: StoreHost
    ) -> None:
        super().__init__({}, node, statements, around)
        self._desk = Desk(lender, self._greet, self.clock)

    def leave(self) -> None:
        """Wait until all is given back."""
        self._desk.leave()

    def forget(self) -> None:
        """In a forked child: the pool is the parent's."""
        self._desk.forget()

    def _dial(self, until: float) -> LentWire:
        return self._desk.borrow(until)

    def _greet(self, connection: Any, until: float) -> LentWire:
        return greet(connection, self._server_clock, until, returns=self._returns)


class AsyncLentServer(Server):
    """The same for asyncio."""

    def __init__(
        self,
        lender: AsyncSqlAlchemyPool,
        node: str,
        statements: Statements,
        around: StoreHost,
    ) -> None:
        super().__init__({}, node, statements, around)
        self._desk = CursorDesk(lender, self._server_clock, returns=self._returns)

    async def open_async(self, until: float) -> AsyncLink:
        """Borrow a connection."""
        return await self._desk.borrow(until)

    async def leave_async(self) -> None:
        """Wait until all is given back."""
        await self._desk.leave()

    def forget(self) -> None:
        """In a forked child: the pool is the parent's."""
        self._desk.forget()
