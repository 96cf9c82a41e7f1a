"""The way to etcd for asyncio.

Every question runs in a task of its own. Whoever is cancelled stops waiting for it, and whatever
else is asked for the same holder waits until it is over: so a release can never overtake what it is
to undo.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio

from holdfast.core.messages import Acquire, Answer, Failed, Held, Release, Request, Write
from holdfast.core.ports import Surroundings
from holdfast.engines.etcd.books import Books
from holdfast.engines.etcd.failover import Failover
from holdfast.engines.etcd.lines import (
    FAREWELL,
    SHORTEST,
    Cluster,
    Line,
    Lines,
    keep_for_ever,
)
from holdfast.engines.etcd.phrases import Call, KeepAlives, holder_of
from holdfast.engines.etcd.protocol import LEASE_KEEP_ALIVE, LeaseKeepAliveRequest
from holdfast.engines.etcd.replies import Refused, Rejected, Trouble, accepted, judge
from holdfast.engines.etcd.speech import Speech, Talk
from holdfast.engines.etcd.tasks import AsyncAttendant
from holdfast.engines.etcd.vigil import TICK, Vigil

T = TypeVar("T")

GRACE = 0.2
"""How long a cancellation may take: in that time, an answer that is on its way comes in."""


class AsyncEtcdStore:
    """One cluster, for all tasks of a client."""

    def __init__(self, cluster: Cluster, around: Surroundings) -> None:
        self._clock = around.clock
        self._books = Books(around.ring, around.clock)
        self._vigil = Vigil(self._books.call, around.ring)
        self._speech = Speech(self._books, self._vigil)
        self._lines = Lines(cluster, grpc.aio, around.emit, grpc.aio.Metadata)
        self._begin()

    def _begin(self) -> None:
        self._attendants: list[AsyncAttendant] = []
        """The last one attends; those before it are taking their leave."""
        self._busy: dict[object, asyncio.Future[Any]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        """Goes off when a spare is of no use any more."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        holder = holder_of(requests) or object()
        under_way = self._busy.get(holder)
        if under_way is not None:
            await asyncio.wait([under_way], timeout=max(0.0, until - self._clock()))
        task = self._begin_task(holder, self._ask(requests, until))
        try:
            await _wait_for(task, self._left(until) + GRACE)
        except asyncio.CancelledError:
            await self._let_finish(task)
            raise
        if task.done():
            return task.result()
        task.cancel()  # a Ctrl-C can make gRPC forget to answer
        return [Failed.at(self._lines.current.name, "did not answer in time")] * len(requests)

    async def _let_finish(self, task: "asyncio.Future[Sequence[Answer]]") -> None:
        """Wait for an answer that nobody wants any more, but not for long."""
        give_up_at = self._clock() + GRACE
        while not task.done() and self._clock() < give_up_at:
            with suppress(asyncio.CancelledError):  # it is being cancelled already
                await asyncio.wait([task], timeout=GRACE)

    def _begin_task(self, holder: object, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Do something for a holder in a task of its own."""
        self._busy[holder] = task = asyncio.create_task(work)
        task.add_done_callback(partial(self._is_over, holder))
        return task

    def _is_over(self, holder: object, task: "asyncio.Future[Any]") -> None:
        if self._busy.get(holder) is task:
            del self._busy[holder]

    async def _ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        first = requests[0]
        once = isinstance(first, Write)  # what may have been done must not be done again
        answers = await self._talk_over(partial(self._speech.talk, requests, {}), until, once=once)
        if isinstance(answers, Failed):
            return [answers] * len(requests)
        if type(answers[0]) is Held and isinstance(first, Acquire) and first.queue:
            self._attend()
        if isinstance(first, Release):
            self._mind_spares()
        return answers

    async def close(self) -> None:
        """Revoke what is left, and close every connection."""
        for attendant in self._attendants:
            await attendant.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        await self._until_idle()
        await self._revoke(self._books.take_all())
        for line in self._lines.hang_up():
            await line.channel.close()
        await self._until_idle()  # whatever was under way is cut short by that

    async def _until_idle(self) -> None:
        if self._busy:
            await asyncio.wait(list(self._busy.values()), timeout=FAREWELL)

    def abandon(self) -> None:
        """Let go without waiting: nobody is there to wait. A channel closes when it is dropped."""
        for attendant in self._attendants:
            attendant.abandon()
        self._books.spares.begin()  # those that there are end by themselves
        self._lines.hang_up()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        keep_for_ever(*self._attendants, self._busy)
        self._lines.forget()
        self._books.begin()
        self._vigil.begin()
        self._begin()

    def _attend(self) -> None:
        """See to it that those who wait are woken, and keep their places."""
        if not self._attendants or self._attendants[-1].over:
            attendant = AsyncAttendant(self._lines, self._vigil, self._keep_places)
            self._attendants = [*(each for each in self._attendants if each.alive), attendant]

    async def _keep_places(self) -> bool:
        """Keep the places of those who wait; False if nobody does any more."""
        if self._books.anybody_waits():
            await self._talk_over(self._speech.keep_session, self._clock() + TICK)
            return True
        await self._talk_over(self._speech.end_sessions, self._clock() + FAREWELL)
        return self._books.anybody_waits()

    def _mind_spares(self) -> None:
        """See to it that spares which nobody wants are revoked."""
        due_in = self._books.spares.due_in()
        if due_in is not None and self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(due_in, self._sweep)

    def _sweep(self) -> None:
        self._alarm = None
        self._begin_task(object(), self._revoke(self._books.spares.take_useless()))
        self._mind_spares()

    async def _revoke(self, leases: list[int]) -> None:
        """Revoke leases that nobody needs any more, as far as that can be told."""
        if leases:
            await self._talk_over(partial(self._speech.revoke, leases), self._clock() + FAREWELL)

    async def _talk_over(
        self, begin: Callable[[], Talk[T]], until: float, *, once: bool = False
    ) -> T | Failed:
        """Have a talk with one endpoint after the other, until one of them answers."""
        endpoints = Failover(self._lines, self._clock, until, once=once)
        for line, give_up_at in endpoints:
            talk = begin()
            try:
                result = await self._converse(talk, line, give_up_at)
            except Trouble as trouble:
                pause = endpoints.gave_trouble(line, trouble)
                await asyncio.sleep(min(pause, self._left(until)))
            except Rejected as refusal:
                return Failed.at(line.name, str(refusal))
            else:
                self._lines.prefer(line)
                return result
            finally:
                talk.close()
        return endpoints.failure

    async def _converse(self, talk: Talk[T], line: Line, until: float) -> T:
        try:
            step = next(talk)
            while True:
                step = talk.send(await self._perform(step, line, until))
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _perform(self, step: Call | list[Call] | KeepAlives, line: Line, until: float) -> Any:
        if self._lines.needs_login:
            await self._log_in(line, until)
        if isinstance(step, Call):
            return await self._call(step, line, until)
        if isinstance(step, KeepAlives):
            return await self._keep_alive(step, line, until)
        if len(step) == 1:
            return [await self._call(step[0], line, until)]
        replies = await asyncio.gather(
            *(self._call(each, line, until) for each in step), return_exceptions=True
        )
        for reply in replies:
            # Another one: this frame, which keeps the first, would be kept by it.
            if isinstance(reply, Trouble):
                raise Trouble(str(reply), passing=reply.passing)
            if isinstance(reply, Rejected):
                raise Rejected(str(reply))
        return replies

    async def _call(self, call: Call, line: Line, until: float) -> Any:
        reply = await self._try(call, line, until)
        if isinstance(reply, Refused) and reply.wants_login and self._lines.cluster.user:
            await self._log_in(line, until)
            reply = await self._try(call, line, until)
        return reply

    async def _try(self, call: Call, line: Line, until: float) -> Any:
        try:
            return await line[call.method](
                call.request, timeout=self._left(until), metadata=self._lines.metadata
            )
        except grpc.RpcError as error:
            return judge(error)

    async def _keep_alive(self, batch: KeepAlives, line: Line, until: float) -> list[int]:
        requests = [LeaseKeepAliveRequest(ID=lease) for lease in batch.leases]
        stream = line[LEASE_KEEP_ALIVE](
            iter(requests), timeout=self._left(until), metadata=self._lines.metadata
        )
        try:
            ttls = [reply.TTL async for reply in stream]
        except grpc.RpcError as error:
            raise Rejected(self._lines.judge(error).why) from None
        if len(ttls) < len(requests):
            raise Trouble("did not answer for every lease")
        return ttls

    async def _log_in(self, line: Line, until: float) -> None:
        self._lines.logged_in("")
        reply = accepted(await self._try(self._lines.introduction, line, until))
        self._lines.logged_in(reply.token)

    def _left(self, until: float) -> float:
        return max(until - self._clock(), SHORTEST)


async def _wait_for(task: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait until it is done, but not for longer than that. `asyncio.wait`, which can wait for many,
    would make every question cost 2 % more."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    wake = partial(_wake, woken)
    task.add_done_callback(wake)
    alarm = loop.call_later(seconds, wake)
    try:
        await woken
    finally:
        alarm.cancel()


def _wake(woken: "asyncio.Future[None]", *_: object) -> None:
    if not woken.done():
        woken.set_result(None)
