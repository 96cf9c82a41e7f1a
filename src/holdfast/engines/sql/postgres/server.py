"""One server, and what one client knows of it: reached by connections of our own, or by those of a
user's pool."""

import asyncio

from holdfast.core.ports import StoreHost
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.conversation import CONNECTING
from holdfast.engines.sql.conversation import Speech as AnySpeech
from holdfast.engines.sql.links import BrokenError
from holdfast.engines.sql.pools.desk import Desk
from holdfast.engines.sql.pools.lenders import Lender, exhausted
from holdfast.engines.sql.postgres.ear import Ear
from holdfast.engines.sql.postgres.lent import LentWire, greet
from holdfast.engines.sql.postgres.speech import Speech
from holdfast.engines.sql.postgres.statements import Statements
from holdfast.engines.sql.postgres.wire import Wire, dial
from holdfast.engines.sql.waiting import Waiting
from holdfast.engines.sql.wired import AsyncWiredLink, WiredLink, dial_in_thread


class Server:
    """One that we connect to ourselves."""

    request_timeout = 2.0
    is_lending = False

    def __init__(self, conninfo: str, node: str, statements: Statements, around: StoreHost) -> None:
        self._conninfo = conninfo
        self.clock = around.clock
        self._server_clock = ServerClock(around.clock)
        self._speech = Speech(node, statements, self._server_clock)
        self.speech: AnySpeech = self._speech
        self.waiting = Waiting(around.notify)

    def open(self, until: float) -> WiredLink:
        """Connect, for threads."""
        return WiredLink(self.dial(until), self.clock)

    async def open_async(self, until: float) -> AsyncWiredLink:
        """Connect, for asyncio."""
        return AsyncWiredLink(await dial_in_thread(self.dial, until, self.clock), self.clock)

    def listen(self) -> Ear:
        """Begin to hear wake-ups."""
        return Ear(self, self.clock, self._speech, self.waiting)

    def dial(self, until: float) -> Wire:
        """Connect."""
        wire = dial(self._conninfo, self._server_clock, until)
        self._speech.pooled = not wire.direct
        return wire

    def leave(self) -> None:
        """Nothing is left of a connection that is closed."""

    async def leave_async(self) -> None:
        """The same for asyncio."""

    def forget(self) -> None:
        """In a forked child: whoever has a connection forgets it."""


class LentServer(Server):
    """One that a user's pool leads to. One connection of the pool is kept, from the first request
    to the end, so that a renewal need not wait for one; another is ours while anybody waits."""

    def __init__(
        self, lender: Lender, node: str, statements: Statements, around: StoreHost
    ) -> None:
        super().__init__("", node, statements, around)
        self._lender = lender
        self._desk = self._new_desk()
        self._ear: Ear | None = None

    def dial(self, until: float) -> LentWire:
        """Borrow a connection. Requests go before the ear, if there is one for only one of them."""
        if self._ear is not None:
            self._ear.step_aside()
        return self._desk.borrow(until)

    async def open_async(self, until: float) -> AsyncWiredLink:
        """Borrow one, for asyncio."""
        self._lender.belong_to(asyncio.get_running_loop())
        late = exhausted(until - self.clock())
        return AsyncWiredLink(await dial_in_thread(self.dial, until, self.clock, late), self.clock)

    def listen(self) -> Ear:
        """Begin to hear wake-ups."""
        spare = _Spare(self._desk, self._new_desk())
        self._ear = Ear(spare, self.clock, self._speech, self.waiting)
        return self._ear

    def leave(self) -> None:
        """Wait until all is given back."""
        self._desk.leave()

    async def leave_async(self) -> None:
        """The same for asyncio."""
        await asyncio.to_thread(self._desk.leave)

    def forget(self) -> None:
        """In a forked child: the pool is the parent's."""
        self._desk.forget()
        self._ear = None

    def _new_desk(self) -> Desk[LentWire]:
        return Desk(self._lender, self._greet, self.clock)

    def _greet(self, connection: object, until: float) -> LentWire:
        wire = greet(connection, self._server_clock, until)
        self._speech.pooled = not wire.direct
        return wire


class _Spare:
    """Connections for the ear: while the pool has one to spare, and requests have theirs."""

    request_timeout = CONNECTING
    is_lending = True

    def __init__(self, of_requests: Desk[LentWire], own: Desk[LentWire]) -> None:
        self._of_requests, self._own = of_requests, own

    def dial(self, until: float) -> LentWire:
        """Borrow one."""
        if not self._of_requests.has_lent:
            raise BrokenError("requests go first")
        return self._own.borrow(until)

    def leave(self) -> None:
        """Give it back, now or when it comes."""
        self._own.leave()

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        self._own.forget()
