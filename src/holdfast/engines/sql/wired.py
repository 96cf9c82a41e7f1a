"""Connections over a wire that never waits: one for threads, one for asyncio. They do the waiting.

A client library's own connections cannot be given up in time, or lose their place when they are. So
a dialect has a wire: it sends what can be sent, and reads what has arrived.
"""

import asyncio
import select
from collections.abc import Callable
from math import ceil
from typing import Any, Protocol

from holdfast.core.ports import Clock
from holdfast.engines.sql.links import CLOSED, BrokenError, Row

SILENT = "did not answer in time"

AT_WORK = 0.01
"""For how long a connection that has just been used is taken to be there, without a look."""

GRACE = 0.01
"""How much later than the thread that connects we give up, so that it can say why."""


class Wire(Protocol):
    """A connection that is made. Whatever it raises is an `SqlError`."""

    @property
    def fd(self) -> int:
        """What to wait for."""
        ...

    @property
    def owes(self) -> bool:
        """Whether an answer is to come."""
        ...

    @property
    def unsent(self) -> bool:
        """Whether more is to be sent when it can be."""
        ...

    def say(self, statement: Any) -> None:
        """Send a statement, or as much as goes out now."""
        ...

    def hear(self) -> list[Row] | None:
        """Send what is left to send, and read what has arrived: the rows, once all are there."""
        ...

    def is_whole(self) -> bool:
        """Whether the other end is still there, as far as we know."""
        ...

    def close(self) -> None:
        """Close it. What it still owes may be carried out all the same."""
        ...

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        ...


def exchange(wire: Wire, statement: Any, until: float, clock: Clock) -> list[Row]:
    """Say a statement, and wait for its rows."""
    wire.say(statement)
    while True:
        wait(wire.fd, select.POLLIN | (select.POLLOUT if wire.unsent else 0), until, clock)
        rows = wire.hear()
        if rows is not None:
            return rows


def wait(fd: int, events: int, until: float, clock: Clock) -> None:
    """Wait until a socket is ready."""
    poller = select.poll()
    poller.register(fd, events)
    if not poller.poll(max(0, ceil((until - clock()) * 1000))):
        raise BrokenError(SILENT)


class WiredLink:
    """For threads; used by one at a time."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire, self._clock = wire, clock
        self._poller = select.poll()
        self._poller.register(wire.fd, select.POLLIN)
        self._look_after = 0.0

    def is_well(self) -> bool:
        """Whether it is still there. Whatever comes in unasked is bad news, mostly."""
        return self._clock() < self._look_after or not self._poller.poll(0) or self._wire.is_whole()

    def exchange(self, statement: Any, until: float) -> list[Row]:
        """Say a statement and give its rows."""
        self._wire.say(statement)
        return self._answer(until)

    def drain(self, until: float) -> None:
        """Wait for the answer that it still owes, unless it was there when we were interrupted."""
        self._poller.modify(self._wire.fd, select.POLLIN)
        if self._wire.owes and self._wire.hear() is None:
            self._answer(until)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        self._wire.forget()

    def _answer(self, until: float) -> list[Row]:
        wire = self._wire
        while True:
            now = self._clock()
            writing = wire.unsent
            if writing:
                self._poller.modify(wire.fd, select.POLLIN | select.POLLOUT)
            ready = self._poller.poll(max(0, ceil((until - now) * 1000)))
            if writing:
                self._poller.modify(wire.fd, select.POLLIN)
            if not ready:
                raise BrokenError(SILENT)
            rows = wire.hear()
            if rows is not None:
                self._look_after = now + AT_WORK
                return rows


class AsyncWiredLink:
    """For asyncio. An answer comes in, or fails to come by its time, also when whoever asked has
    been cancelled: that cancels the future, and the link owes the answer all the same."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire, self._clock = wire, clock
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[list[Row]] | None = None
        """None if it owes nothing."""
        self._then: Callable[[], None] | None = None
        self._late_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._writing = self._closed = False
        self._loop.add_reader(wire.fd, self._hear)

    @property
    def owes(self) -> bool:
        """Whether an answer is to come."""
        return self._answer is not None

    def is_well(self) -> bool:
        """Whether it is still there."""
        return not self._closed

    async def exchange(self, statement: Any, until: float) -> list[Row]:
        """Say a statement and give its rows."""
        self._expect(until)
        answer: asyncio.Future[list[Row]] = self._loop.create_future()
        self._answer = answer
        try:
            self._wire.say(statement)
            self._write_if_need_be()
        except BrokenError as error:
            self._fail(error)
        return await answer

    def when_answered(self, then: Callable[[], None]) -> None:
        """Call `then` when the answer that it owes is there, or will not come."""
        self._then = then

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            if not self._loop.is_closed():
                self._loop.remove_reader(self._wire.fd)
                self._loop.remove_writer(self._wire.fd)
            self._wire.close()
        if self._answer is not None:
            self._fail(BrokenError(CLOSED))

    def forget(self) -> None:
        """In a forked child: let go of it without a word to the server."""
        if not self._closed:
            self._closed = True
            self._wire.forget()

    def _hear(self) -> None:
        answer = self._answer
        try:
            if answer is None:
                self._look()
                return
            rows = self._wire.hear()
            self._write_if_need_be()
        except Exception as error:  # noqa: BLE001 - raised where the answer is awaited
            self._fail(error)
        except BaseException:
            self._fail(BrokenError("interrupted"))  # nobody knows how much of it was read
            raise
        else:
            if rows is not None:
                if not answer.done():  # else, whoever asked is gone
                    answer.set_result(rows)
                self._settle()

    def _look(self) -> None:
        """Something came in unasked: that the other end is gone, mostly."""
        if not self._wire.is_whole():
            self.close()

    def _write_if_need_be(self) -> None:
        if self._wire.unsent != self._writing:
            self._writing = self._wire.unsent
            if self._writing:
                self._loop.add_writer(self._wire.fd, self._hear)
            else:
                self._loop.remove_writer(self._wire.fd)

    def _expect(self, until: float) -> None:
        """An answer is late after that. The timer is set anew only if it would ring too late: to
        make one for each answer, and cancel it, costs more than to let one ring for nothing."""
        self._late_at = self._loop.time() + until - self._clock()
        if self._timer is None or self._late_at < self._timer.when():
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._late_at, self._notify)

    def _notify(self) -> None:
        self._timer = None
        if self._answer is None:
            return
        if self._loop.time() < self._late_at:
            self._set_timer()
        else:
            self._fail(BrokenError(SILENT))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if isinstance(error, BrokenError):
            self.close()
        if answer is not None and not answer.done():
            answer.set_exception(error)
            answer.exception()  # whoever asked may be gone
        self._settle()

    def _settle(self) -> None:
        """It owes nothing any more."""
        self._answer = None
        then, self._then = self._then, None
        if then is not None:
            then()


async def dial_in_thread(
    dial: Callable[[float], Wire], until: float, clock: Clock, late: str = SILENT
) -> Wire:
    """Connect in a thread, since to look a name up blocks. `late` is what is said if it does not
    come to its end in time."""
    is_wanted = True

    def connect() -> Wire:
        wire = dial(until)
        if not is_wanted:  # and perhaps there is no loop any more that could see to it
            wire.close()
        return wire

    dialling = asyncio.get_running_loop().run_in_executor(None, connect)
    has_come = False
    try:
        await asyncio.wait((dialling,), timeout=max(0.0, until - clock()) + GRACE)
        has_come = dialling.done()
    finally:
        if not has_come:  # or it has, just as we were cancelled
            is_wanted = False
            dialling.add_done_callback(_hang_up)
    if not has_come:
        raise BrokenError(late)
    return dialling.result()


def _hang_up(dialling: "asyncio.Future[Wire]") -> None:
    """Nobody wants the connection any more."""
    if not dialling.cancelled() and dialling.exception() is None:
        dialling.result().close()
