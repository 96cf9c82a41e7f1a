"""The way to an SQL server for asyncio. A task takes a connection that is free, or makes another.

What makes a holder's lock, or ends it, does not overtake what was sent before about that holder: a
task that is cancelled leaves its connection busy until the answer is there, and the next request
about this holder waits for that. A connection whose answer did not come in time is closed; the
dialect sees to it that what was said on it does nothing any more.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol

from holdfast.core.messages import Acquire, Answer, Failed, Request
from holdfast.core.ports import Clock
from holdfast.engines.sql.conversation import (
    Pause,
    Speech,
    Steps,
    all_busy,
    check_time,
    connecting_until,
    converse,
    holder_of,
    time_to_answer,
)
from holdfast.engines.sql.links import CLOSED, AsyncLink, BrokenError, RefusedError, SqlError
from holdfast.engines.sql.waiting import Listener, Waiting


class AsyncHome(Protocol):
    """One server, as a dialect has it."""

    clock: Clock
    speech: Speech
    waiting: Waiting

    async def open_async(self, until: float) -> AsyncLink:
        """Connect; raises a `BrokenError` if that fails."""
        ...

    def listen(self) -> Listener:
        """Begin to hear wake-ups, in a thread."""
        ...

    async def leave_async(self) -> None:
        """All links are closed: wait until nothing is left of them."""
        ...

    def forget(self) -> None:
        """In a forked child: all links are the parent's."""
        ...


class AsyncServerStore:
    """One server, for asyncio, by so many connections at the most."""

    def __init__(self, home: AsyncHome, connections: int) -> None:
        self._home, self._connections = home, connections
        self._clock = home.clock
        self._begin()

    def _begin(self) -> None:
        self._free: list[AsyncLink] = []
        self._all: set[AsyncLink] = set()
        self._owing: dict[str, asyncio.Event] = {}
        self._left_alone: set[asyncio.Event] = set()
        self._dials: set[asyncio.Task[AsyncLink]] = set()
        self._unclaimed: set[asyncio.Task[AsyncLink]] = set()
        """Dials whose caller was cancelled."""
        self._permits = asyncio.Semaphore(self._connections)
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request, holder = requests[0], holder_of(requests)
        self._loop = asyncio.get_running_loop()
        if isinstance(request, Acquire) and request.queue:
            await self._listen(request.holder, until)
            until = time_to_answer(until, self._clock())
        if not await self._enter(holder, until):
            failed = Failed.at(self._home.speech.node, all_busy(self._connections))
            self._home.waiting.note(request, failed)
            return [failed] * len(requests)
        steps = converse(self._home.speech, requests, until, self._clock)
        answers = await self._perform(steps, holder, until)
        self._home.waiting.note(request, answers[0])
        return answers

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._listener is not None:
            await asyncio.to_thread(self._listener.close)
        if self._dials:
            await asyncio.wait(self._dials)  # each has its time
        self._close_links()
        await self._home.leave_async()

    def abandon(self) -> None:
        """The same where nobody can await it."""
        if self._listener is not None:
            self._listener.stop()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_links)
        else:
            self._close_links()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        if self._listener is not None:
            self._listener.forget()
        for link in self._all:
            link.forget()
        self._home.forget()
        self._home.waiting.forget()
        self._begin()

    def _close_links(self) -> None:
        self._closed = True
        for link in list(self._all):
            link.close()
        self._all.clear()
        self._free.clear()

    async def _enter(self, holder: str | None, until: float) -> bool:
        """Get a permit, behind what is owed to this holder; False if there is none in time."""
        if holder not in self._owing and not self._permits.locked():
            return await self._permits.acquire()  # at once, so there is no need of a timer
        try:
            async with asyncio.timeout(until - self._clock()):
                if holder is not None and holder in self._owing:
                    await self._owing[holder].wait()
                return await self._permits.acquire()
        except TimeoutError:
            return False

    async def _perform(self, steps: Steps, holder: str | None, until: float) -> list[Answer]:
        """Perform the steps; the permit goes with the connection."""
        link: AsyncLink | None = None
        error: SqlError | None = None
        rows = None
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Pause):
                        await asyncio.sleep(step.seconds)
                    else:
                        link = link or self._pick() or await self._take(until)
                        check_time(until, self._clock())
                        if self._closed:  # and the connection may be somebody else's again
                            raise RefusedError(CLOSED)
                        rows = await link.exchange(step, until)
                except SqlError as caught:
                    error = caught
                    if isinstance(caught, BrokenError) and link is not None:
                        self._drop(link)
                        link = None
                step = steps.send(rows or []) if error is None else steps.throw(error)
                error, rows = None, None
        except StopIteration as stop:
            answers: list[Answer] = stop.value
            return answers
        finally:
            self._give_back(link, holder)

    def _pick(self) -> AsyncLink | None:
        """A connection that is free."""
        while self._free:
            link = self._free.pop()
            if link.is_well():
                return link
            self._drop(link)
        return None

    async def _take(self, until: float) -> AsyncLink:
        """A connection that will be free once an answer that nobody waits for is there; else a new
        one: that answer may never come, so there must be time left for it."""
        patient_until = (self._clock() + until) / 2
        while self._left_alone and (request_timeout := patient_until - self._clock()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(request_timeout):
                    await next(iter(self._left_alone)).wait()
            link = self._pick()
            if link is not None:
                return link
        return await self._open(until)

    async def _open(self, until: float) -> AsyncLink:
        """Connect. If we are cancelled meanwhile, the connection is for whoever comes next."""
        if self._closed:
            raise RefusedError(CLOSED)
        if self._unclaimed:
            dial = self._unclaimed.pop()
        else:
            opening = connecting_until(until, self._clock())
            dial = asyncio.ensure_future(self._home.open_async(opening))
            self._dials.add(dial)
            dial.add_done_callback(self._dialled)
        try:
            return await asyncio.shield(dial)
        except asyncio.CancelledError:
            self._unclaimed.add(dial)
            dial.add_done_callback(self._keep)
            raise

    def _dialled(self, dial: "asyncio.Task[AsyncLink]") -> None:
        self._dials.discard(dial)
        if not dial.cancelled() and dial.exception() is None:
            self._all.add(dial.result())
            if self._closed:
                self._drop(dial.result())

    def _keep(self, dial: "asyncio.Task[AsyncLink]") -> None:
        if dial not in self._unclaimed:
            return
        self._unclaimed.discard(dial)
        if not dial.cancelled() and dial.exception() is None:
            self._free.append(dial.result())

    def _give_back(self, link: AsyncLink | None, holder: str | None) -> None:
        """Let others have the connection, as soon as it owes nothing: at once, mostly."""
        if link is None:
            self._permits.release()
            return
        if not link.owes:
            self._put_back(link)
            return
        answered = asyncio.Event()
        self._left_alone.add(answered)
        if holder is not None:
            self._owing[holder] = answered

        def done() -> None:
            answered.set()
            self._left_alone.discard(answered)
            if holder is not None and self._owing.get(holder) is answered:
                del self._owing[holder]
            self._put_back(link)

        link.when_answered(done)

    def _put_back(self, link: AsyncLink) -> None:
        if link.is_well():
            self._free.append(link)
        else:
            self._drop(link)
        self._permits.release()

    def _drop(self, link: AsyncLink) -> None:
        self._all.discard(link)
        link.close()

    async def _listen(self, holder: str, until: float) -> None:
        """See to it that we can be woken; the first time, that is worth waiting for."""
        self._home.waiting.expect(holder)
        if self._listener is None or self._listener.has_left:
            self._listener = self._home.listen()
        settled: Future[None] = self._listener.settled
        if not settled.done():
            request_timeout = max(0.0, until - self._clock()) / 2
            await asyncio.wait((asyncio.wrap_future(settled),), timeout=request_timeout)
